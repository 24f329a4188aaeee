package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

var (
	perAddress = slidegate.PerMinute(3).Named("address")
	perAccount = slidegate.PerHour(2).Named("account")
	perAll     = slidegate.PerMinute(4).Named("everybody")
)

// logins are the limiters of a login, over one store or over three, each on a clock of its own.
type logins struct {
	*slidegate.Group
	limiters []*slidegate.Limiter
	clocks   []*gatetest.Clock
}

func newLogins(t *testing.T, together bool) *logins {
	t.Helper()
	l := &logins{}
	var store slidegate.Store
	for i, limit := range []slidegate.Limit{perAddress, perAccount, perAll} {
		if store == nil || !together {
			l.clocks = append(l.clocks, gatetest.NewClock(time.UnixMilli(int64(i)*90_000_123)))
			store = memstore.New(memstore.WithClock(l.clocks[i].Now))
		}
		l.limiters = append(l.limiters, slidegate.MustNew(store, limit))
	}
	l.Group = slidegate.MustNewGroup(l.limiters...)
	return l
}

func (l *logins) advance(d time.Duration) {
	for _, c := range l.clocks {
		c.Advance(d)
	}
}

// left is what each limiter by itself says is left.
func (l *logins) left(t *testing.T, keys ...string) (all []int64) {
	for i, limiter := range l.limiters {
		all = append(all, remaining(t, limiter, keys[i])...)
	}
	return all
}

// TestAGroupAdmitsWhatAllAdmit, in one act or one after another, with one answer.
func TestAGroupAdmitsWhatAllAdmit(t *testing.T) {
	for name, together := range map[string]bool{"one store": true, "three stores": false} {
		t.Run(name, func(t *testing.T) {
			l := newLogins(t, together)
			if l.Atomic("ip", "ann", "all") != together {
				t.Errorf("Atomic is %v", !together)
			}
			for _, step := range []struct {
				keys []string
				want string
				left []int64
			}{
				{[]string{"ip", "ann", "all"}, "admitted, 1 of account=2/1h left, full in 1h", []int64{2, 1, 3}},
				{[]string{"ip", "ann", "all"}, "admitted, 0 of account=2/1h left, full in 1h", []int64{1, 0, 2}},
				{[]string{"ip", "ann", "all"}, "refused by account=2/1h, 0 left, retry in 59m58s", []int64{1, 0, 2}},
				{[]string{"other", "ann", "all"}, "refused by account=2/1h, 0 left, retry in 59m57s", []int64{3, 0, 2}},
				{[]string{"ip", "bob", "all"}, "admitted, 0 of address=3/1m left, full in 1m0s", []int64{0, 1, 1}},
				{[]string{"ip", "cid", "all"}, "refused by address=3/1m, 0 left, retry in 55s", []int64{0, 2, 1}},
				{[]string{"other", "cid", "all"}, "admitted, 0 of everybody=4/1m left, full in 1m0s", []int64{2, 1, 0}},
				{[]string{"third", "dan", "all"}, "refused by everybody=4/1m, 0 left, retry in 53s", []int64{3, 2, 0}},
				{[]string{"ip", "ann", "all"}, "refused by account=2/1h, 0 left, retry in 59m52s", []int64{0, 0, 0}},
			} {
				peeked, err := l.Peek(background, step.keys...)
				if err != nil {
					t.Fatal(err)
				}
				d, err := l.Take(background, step.keys...)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.ReplaceAll(d.String(), "1h0m0s", "1h"); got != step.want {
					t.Errorf("%v: %s, want %s", step.keys, got, step.want)
				}
				if peeked.Allowed != d.Allowed || peeked.RetryAfter() != d.RetryAfter() {
					t.Errorf("%v: a peek says %s", step.keys, peeked)
				}
				if left := l.left(t, step.keys...); !slices.Equal(left, step.left) {
					t.Errorf("%v: left is %v, want %v", step.keys, left, step.left)
				}
				for i := range d.Len() {
					if s := d.State(i); s.Remaining != step.left[i] || d.KeyOf(i) != step.keys[i] {
						t.Errorf("%v: the answer says %d of %s", step.keys, s.Remaining, s.Limit)
					}
				}
				l.advance(time.Second)
			}
		})
	}
}

// TestAGroupIsRefundedInEveryPart, by whomever, once.
func TestAGroupIsRefundedInEveryPart(t *testing.T) {
	for _, together := range []bool{true, false} {
		l := newLogins(t, together)
		keys := []string{"ip", "ann", "all"}
		for name, refund := range map[string]func(context.Context, *slidegate.Decision) error{
			"the group":        l.Refund,
			"one of its parts": l.limiters[2].Refund,
			"no part of it":    slidegate.Unlimited().Refund,
		} {
			d, err := l.TakeN(background, 2, keys...)
			if err != nil || !d.Charged() {
				t.Fatalf("%s, %v", d, err)
			}
			l.advance(time.Second)
			if err := errors.Join(refund(background, &d), refund(background, &d)); err != nil || d.Charged() {
				t.Errorf("given back to %s: %v, charged %v", name, err, d.Charged())
			}
			if left := l.left(t, keys...); !slices.Equal(left, []int64{3, 2, 4}) {
				t.Errorf("given back to %s: left is %v", name, left)
			}
		}
		plain, _ := l.limiters[0].Take(background, "ip")
		if err := l.Refund(background, &plain); !errors.Is(err, slidegate.ErrInvalidLimit) || !plain.Charged() {
			t.Errorf("the decision of a limiter: %v", err)
		}
	}
}

// TestAGroupIsSettledInEveryPart: a part of a charge is given back, and what fits is charged on top.
func TestAGroupIsSettledInEveryPart(t *testing.T) {
	for _, together := range []bool{true, false} {
		l := newLogins(t, together)
		keys := []string{"ip", "ann", "all"}
		d, err := l.TakeN(background, 2, keys...)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.RefundN(background, &d, 1); err != nil || d.Held() != 1 {
			t.Errorf("a part: %v, %d held", err, d.Held())
		}
		if left := l.left(t, keys...); !slices.Equal(left, []int64{2, 1, 3}) {
			t.Errorf("when a part was given back, left is %v", left)
		}
		more, err := l.TakeUpTo(background, 100, keys...)
		if err != nil || !more.Allowed || more.Held() != 1 {
			t.Errorf("as far as there is room: %s, %v, %d held", more, err, more.Held())
		}
		if none, err := l.TakeUpTo(background, 1, keys...); err != nil || none.Allowed || none.Charged() {
			t.Errorf("where there is none: %s, %v", none, err)
		}
		if err := errors.Join(l.limiters[0].RefundN(background, &more, 9), l.RefundN(background, &d, 9)); err != nil {
			t.Errorf("the rest: %v", err)
		}
		if left := l.left(t, keys...); !slices.Equal(left, []int64{3, 2, 4}) {
			t.Errorf("when all was given back, left is %v", left)
		}
		var never *slidegate.CostError
		if err := l.RefundN(background, &d, -1); !errors.As(err, &never) {
			t.Errorf("a negative part: %v", err)
		}
	}
}

// TestNewGroupRefusesWhatCannotWork, each in one sentence.
func TestNewGroupRefusesWhatCannotWork(t *testing.T) {
	store := memstore.New()
	of := func(limits ...slidegate.Limit) *slidegate.Limiter { return slidegate.MustNew(store, limits...) }
	five := make([]slidegate.Limit, 5)
	for i := range five {
		five[i] = slidegate.PerMinute(int64(i) + 1)
	}
	var four []slidegate.Limit
	for _, l := range five[:4] {
		four = append(four, l.Counter())
	}
	for _, c := range []struct {
		limiters []*slidegate.Limiter
		want     string
	}{
		{nil, "0 limiters: allowed is 1 to 8 in one group"},
		{slices.Repeat([]*slidegate.Limiter{slidegate.Unlimited()}, 9), "9 limiters: allowed is 1 to 8 in one group"},
		{[]*slidegate.Limiter{of(perAll), nil}, "limiter 2 of the group is nil"},
		{[]*slidegate.Limiter{of(five...), of(four...)}, "9 limits: allowed is up to 8 in one group"},
		{[]*slidegate.Limiter{of(perAll), of(perAccount, perAll)}, `two limits of the group have the name "everybody": names must differ, as in address=5/1m and account=5/1m`},
	} {
		_, err := slidegate.NewGroup(c.limiters...)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || err.Error() != slidegate.ErrInvalidLimit.Error()+": "+c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	for _, limiters := range [][]*slidegate.Limiter{slices.Repeat([]*slidegate.Limiter{slidegate.Unlimited()}, 8), {of(four...), of(five[1:]...)}} {
		if _, err := slidegate.NewGroup(limiters...); err != nil {
			t.Errorf("eight of them: %v", err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustNewGroup of nothing does not panic")
		}
	}()
	slidegate.MustNewGroup()
}

// TestAGroupIsAskedRightly, or says what was wrong and asks no store.
func TestAGroupIsAskedRightly(t *testing.T) {
	store := gatetest.Failing(nil)
	g := slidegate.MustNewGroup(slidegate.MustNew(store, perAddress), slidegate.MustNew(store, perAccount))
	for _, c := range []struct {
		cost int64
		keys []string
		want string
	}{
		{1, nil, "slidegate: 0 keys for a group of 2 limiters: give one for each, in their order"},
		{1, []string{"a", "b", "c"}, "slidegate: 3 keys for a group of 2 limiters: give one for each, in their order"},
		{1, []string{"a", ""}, slidegate.ErrInvalidKey.Error()},
	} {
		for verb, ask := range map[string]func(context.Context, int64, ...string) (slidegate.Decision, error){"take": g.TakeN, "peek": g.PeekN} {
			if _, err := ask(background, c.cost, c.keys...); !errors.Is(err, slidegate.ErrInvalidKey) || err.Error() != c.want {
				t.Errorf("%s of %q: %v, want %s", verb, c.keys, err, c.want)
			}
		}
		if g.Atomic(c.keys...) {
			t.Errorf("%q are decided in one act", c.keys)
		}
	}
	for cost, name := range map[int64]string{3: "account", -1: "account"} {
		d, err := g.TakeN(background, cost, "a", "b")
		var never *slidegate.CostError
		if !errors.As(err, &never) || never.Limit.Name != name || never.Cost != cost || d.Allowed {
			t.Errorf("a cost of %d: %v", cost, err)
		}
	}
	if n := store.Calls(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

// TestUnlimitedAndBlockedTakePart: the one adds nothing, the other refuses everything.
func TestUnlimitedAndBlockedTakePart(t *testing.T) {
	limiter, _ := newLimiter(t, perAccount)
	g := slidegate.MustNewGroup(slidegate.Unlimited(), limiter, slidegate.Unlimited())
	d, err := g.Take(background, "a", "ann", "b")
	if err != nil || d.String() != "admitted, 1 of account=2/1h left, full in 1h0m0s" || d.KeyOf(0) != "ann" || !g.Atomic("a", "ann", "b") || !slices.Equal(d.Keys(), []string{"a", "ann", "b"}) {
		t.Errorf("with Unlimited: %s, %v", d, err)
	}
	g = slidegate.MustNewGroup(limiter, slidegate.Blocked())
	if d, err = g.Take(background, "ann", "b"); err != nil || d.Allowed || d.Len() != 0 || d.RetryAfter() != 0 {
		t.Errorf("with Blocked: %s, %v", d, err)
	}
	if plain, _ := limiter.Peek(background, "bob"); !slices.Equal(plain.Keys(), []string{"bob"}) || plain.KeyOf(0) != "bob" {
		t.Errorf("a limiter's decision has the keys %q", plain.Keys())
	}
	if left := remaining(t, limiter, "ann"); left[0] != 1 {
		t.Errorf("Blocked has charged: %d left", left[0])
	}
	g = slidegate.MustNewGroup(slidegate.Unlimited())
	if d, err = g.Take(background, "a"); err != nil || !d.Allowed || d.Len() != 0 || d.Charged() {
		t.Errorf("Unlimited alone: %s, %v", d, err)
	}
}

// TestAPartThatFailsChargesNobody: what was charged before the failure is given back.
func TestAPartThatFailsChargesNobody(t *testing.T) {
	limiter, _ := newLimiter(t, perAddress)
	lost := errors.New("no route to host")
	g := slidegate.MustNewGroup(limiter, slidegate.MustNew(gatetest.Failing(lost), perAccount))
	d, err := g.Take(background, "ip", "ann")
	if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, lost) || d.Allowed || d.Charged() || d.Len() != 0 {
		t.Errorf("%s, %v", d, err)
	}
	if left := remaining(t, limiter, "ip"); left[0] != 3 {
		t.Errorf("%d left of 3", left[0])
	}
}

// A leaving store ends the caller's context when it is asked.
type leaving struct {
	slidegate.Store
	leave func()
}

func (s leaving) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return leavingPlan{plan, s.leave}, err
}

type leavingPlan struct {
	slidegate.Plan
	leave func()
}

func (p leavingPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.leave()
	if err := ctx.Err(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Take(ctx, key, cost)
}

// A minding store fails where the context has ended.
type minding struct {
	slidegate.Store
	refunds *atomic.Int64
}

func (s minding) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return mindingPlan{plan, s.refunds}, err
}

type mindingPlan struct {
	slidegate.Plan
	refunds *atomic.Int64
}

func (p mindingPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); ok {
		p.refunds.Add(1)
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

// TestWhoLeavesIsNotCharged: what was charged is given back also where the caller's context has ended, with a
// deadline of its own.
func TestWhoLeavesIsNotCharged(t *testing.T) {
	ctx, leave := context.WithCancel(background)
	var refunds atomic.Int64
	first := slidegate.MustNew(minding{memstore.New(), &refunds}, perAddress)
	g := slidegate.MustNewGroup(first, slidegate.MustNew(leaving{memstore.New(), leave}, perAccount))
	if d, err := g.Take(ctx, "ip", "ann"); !errors.Is(err, context.Canceled) || d.Allowed {
		t.Errorf("%s, %v", d, err)
	}
	if left := remaining(t, first, "ip"); left[0] != 3 || refunds.Load() != 1 {
		t.Errorf("%d left of 3 after %d refunds", left[0], refunds.Load())
	}
}

// TestARefusalStands, whatever becomes of the store that is to take the units back.
func TestARefusalStands(t *testing.T) {
	store := memstore.New()
	full := slidegate.MustNew(memstore.New(), slidegate.PerHour(1).Named("full"))
	closing := slidegate.MustNew(leaving{memstore.New(), func() { store.Close() }}, slidegate.PerHour(9).Named("closing"))
	g := slidegate.MustNewGroup(slidegate.MustNew(store, perAddress), closing, full)
	if _, err := full.Take(background, "x"); err != nil {
		t.Fatal(err)
	}
	d, err := g.Take(background, "ip", "ann", "x")
	if err != nil || d.Allowed || d.Binding().Limit.Name != "full" || d.State(0).Remaining != 2 || d.State(1).Remaining != 9 {
		t.Errorf("%s, %v, %d and %d left", d, err, d.State(0).Remaining, d.State(1).Remaining)
	}
}

// An incomparable store cannot be compared with another: it is nobody's twin.
type incomparable struct {
	slidegate.JointStore
	_ []int
}

// TestAStoreThatCannotBeComparedIsAskedInOrder, and nothing panics.
func TestAStoreThatCannotBeComparedIsAskedInOrder(t *testing.T) {
	store := incomparable{JointStore: memstore.New()}
	g := slidegate.MustNewGroup(slidegate.MustNew(store, perAddress), slidegate.MustNew(store, perAccount))
	if d, err := g.Take(background, "ip", "ann"); err != nil || !d.Allowed || g.Atomic("ip", "ann") {
		t.Errorf("%s, %v", d, err)
	}
}

// TestAGroupAllocatesOnce: what the decision keeps of its keys.
func TestAGroupAllocatesOnce(t *testing.T) {
	l := newLogins(t, true)
	if n := testing.AllocsPerRun(1000, func() { _, _ = l.Take(background, "ip", "ann", "all") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestLimitsThatADecisionDoesNotHave panic when they are asked for, of a limiter and of a group.
func TestLimitsThatADecisionDoesNotHave(t *testing.T) {
	store := memstore.New()
	a, b := slidegate.MustNew(store, slidegate.PerHour(1).Named("a")), slidegate.MustNew(store, slidegate.PerHour(1).Named("b"))
	one, err := a.Take(background, "k")
	both, wrong := slidegate.MustNewGroup(a, b).Peek(background, "k", "l")
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	for _, d := range []*slidegate.Decision{&one, &both} {
		for verb, ask := range map[string]func(i int){"KeyOf": func(i int) { d.KeyOf(i) }, "State": func(i int) { d.State(i) }} {
			for _, i := range []int{-1, d.Len(), slidegate.MaxLimits} {
				if !panics(func() { ask(i) }) {
					t.Errorf("%s(%d) of %d limits does not panic", verb, i, d.Len())
				}
			}
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestNothingIsGivenBackWithoutAStore: no units, or a decision that holds none, or no decision, is no reason to ask it; and a group
// owns its limits.
func TestNothingIsGivenBackWithoutAStore(t *testing.T) {
	store := memstore.New()
	a, b := slidegate.MustNew(store, slidegate.PerHour(5).Named("a")), slidegate.MustNew(store, slidegate.PerHour(5).Named("b"))
	g := slidegate.MustNewGroup(a, b)
	g.Limits()[0].Quota = 1000
	if l := g.Limits(); len(l) != 2 || l[0] != a.Limits()[0] || l[1] != b.Limits()[0] {
		t.Errorf("the limits of the group are %v", l)
	}
	held, err := g.Take(background, "k", "l")
	settled, wrong := g.Take(background, "k", "l")
	again := held
	alone, failed := a.Take(background, "k")
	spent, missed := a.Take(background, "k")
	if err := errors.Join(err, wrong, failed, missed, g.Refund(background, &settled), a.Refund(background, &spent)); err != nil {
		t.Fatal(err)
	}
	store.Close()
	for name, err := range map[string]error{
		"no units":                     g.RefundN(background, &held, 0),
		"a decision that holds none":   g.RefundN(background, &settled, 1),
		"no decision":                  g.RefundN(background, nil, 1),
		"no units of no decision":      g.RefundN(background, nil, 0),
		"no units of a limiter's":      g.RefundN(background, &alone, 0),
		"no decision, as much as held": g.Refund(background, nil),
		"no units, to a limiter":       a.RefundN(background, &alone, 0),
		"no units of a group's":        a.RefundN(background, &held, 0),
		"a limiter's that holds none":  a.RefundN(background, &spent, 1),
		"a group's that holds none":    a.RefundN(background, &settled, 1),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"a unit":                g.RefundN(background, &held, 1),
		"a unit, to a limiter":  a.RefundN(background, &again, 1),
		"a unit of a limiter's": a.RefundN(background, &alone, 1),
	} {
		if !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("%s, to a store that is closed: %v", name, err)
		}
	}
}

// TestAGroupGivesBackWhatIsHeld and no more, whatever is asked for: not what others charged at the same time. A store that
// does not take it back says so.
func TestAGroupGivesBackWhatIsHeld(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	first, second := memstore.New(memstore.WithClock(clock.Now)), memstore.New(memstore.WithClock(clock.Now))
	for name, stores := range map[string][2]*memstore.Store{"one store": {first, first}, "two stores": {first, second}} {
		a, b := slidegate.MustNew(stores[0], slidegate.PerHour(9).Named("a")), slidegate.MustNew(stores[1], slidegate.PerHour(9).Named("b"))
		g := slidegate.MustNewGroup(a, b)
		d, err := g.TakeN(background, 2, name, name)
		_, wrong := g.TakeN(background, 3, name, name)
		if err := errors.Join(err, wrong, g.RefundN(background, &d, 4)); err != nil {
			t.Fatal(err)
		}
		if d.Key() != name {
			t.Errorf("the key of a decision over %q first is another", name)
		}
		if now, _ := g.Peek(background, name, name); d.Held() != 0 || now.State(0).Remaining != 6 || now.State(1).Remaining != 6 {
			t.Errorf("%s: 4 of 2 are given back, and 3 were charged by another: %d held, %s", name, d.Held(), &now)
		}
	}
	apart := slidegate.MustNewGroup(slidegate.MustNew(first, slidegate.PerHour(9).Named("a")), slidegate.MustNew(second, slidegate.PerHour(9).Named("b")))
	d, err := apart.Take(background, "k", "k")
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := apart.Refund(background, &d); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("a refund, one of two stores is closed: %v", err)
	}
	if _, err := apart.Peek(background, "k", "k"); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("a look, one of two stores is closed: %v", err)
	}
}

// A remembering store notes what a take over it was answered, and what comes back.
type remembering struct {
	slidegate.Store
	taken, returned slidegate.Answer
}

func (s *remembering) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &rememberingPlan{plan, s}, err
}

type rememberingPlan struct {
	slidegate.Plan
	s *remembering
}

func (p *rememberingPlan) Take(ctx context.Context, key string, cost int64) (a slidegate.Answer, err error) {
	p.s.taken, err = p.Plan.Take(ctx, key, cost)
	return p.s.taken, err
}

func (p *rememberingPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	p.s.returned = charged
	return p.Plan.Refund(ctx, key, charged, cost)
}

// TestEachStoreGetsItsOwnAnswerBack by a refund to a group, in the time of its own clock, however far those are apart.
func TestEachStoreGetsItsOwnAnswerBack(t *testing.T) {
	var stores []*remembering
	var limiters []*slidegate.Limiter
	for i, apart := range []int64{0, 3_600_000, -7_000} {
		clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000 + apart))
		s := &remembering{Store: memstore.New(memstore.WithClock(clock.Now))}
		stores = append(stores, s)
		limiters = append(limiters, slidegate.MustNew(s, slidegate.PerHour(9).Named([]string{"a", "b", "c"}[i])))
	}
	g := slidegate.MustNewGroup(limiters...)
	d, err := g.Take(background, "k", "k", "k")
	if err := errors.Join(err, g.Refund(background, &d)); err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
		if s.returned.Now != s.taken.Now || s.returned.Readings[0].At != s.taken.Readings[0].At {
			t.Errorf("store %d: its answer %+v came back as %+v", i, s.taken, s.returned)
		}
	}
}

// A diary has the calls of several stores in their order, and what became of their contexts.
type diary struct {
	lines    []string
	contexts []context.Context // of refunds
}

// noted is a store that writes its calls into a diary.
type noted struct {
	slidegate.Store
	name string
	in   *diary
}

func (s noted) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return notedPlan{plan, s}, err
}

type notedPlan struct {
	slidegate.Plan
	s noted
}

func (p notedPlan) note(verb string) { p.s.in.lines = append(p.s.in.lines, verb+" "+p.s.name) }

func (p notedPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.note("take")
	return p.Plan.Take(ctx, key, cost)
}

func (p notedPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.note("peek")
	return p.Plan.Peek(ctx, key, cost)
}

func (p notedPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	p.note("refund")
	p.s.in.contexts = append(p.s.in.contexts, ctx)
	return p.Plan.Refund(ctx, key, charged, cost)
}

// TestStoresAreAskedForWhatIsNeeded, one after another: nothing is given back that was not charged, whoever refuses is not
// asked again, and when it is over nothing goes on.
func TestStoresAreAskedForWhatIsNeeded(t *testing.T) {
	open, full, closed := memstore.New(), memstore.New(), memstore.New()
	closed.Close()
	for _, c := range []struct {
		what   string
		stores []*memstore.Store
		cost   int64
		want   []string
	}{
		{"all admit", []*memstore.Store{open, open, open}, 2, []string{"take 1", "take 2", "take 3"}},
		{"the first refuses", []*memstore.Store{full, open, open}, 2, []string{"take 1", "peek 2", "peek 3"}},
		{"the second refuses", []*memstore.Store{open, full, open}, 2, []string{"take 1", "take 2", "refund 1", "peek 1", "peek 3"}},
		{"the last refuses", []*memstore.Store{open, open, full}, 1, []string{"take 1", "take 2", "take 3", "refund 1", "refund 2", "peek 1", "peek 2"}},
		{"the first fails", []*memstore.Store{closed, open, open}, 2, []string{"take 1"}},
		{"the last fails", []*memstore.Store{open, open, closed}, 1, []string{"take 1", "take 2", "take 3", "refund 1", "refund 2"}},
		{"the last fails, and nothing was charged", []*memstore.Store{open, open, closed}, 0, []string{"take 1", "take 2", "take 3"}},
	} {
		var in diary
		var limiters []*slidegate.Limiter
		for i, store := range c.stores {
			name := strconv.Itoa(i + 1)
			limiters = append(limiters, slidegate.MustNew(noted{store, name, &in}, slidegate.PerHour(2).Named(name)))
			if store == full {
				if _, err := limiters[i].TakeN(background, c.what, 2); err != nil {
					t.Fatal(err)
				}
			}
		}
		in = diary{}
		_, err := slidegate.MustNewGroup(limiters...).TakeN(background, c.cost, c.what, c.what, c.what)
		if slices.Contains(c.stores, closed) != errors.Is(err, slidegate.ErrUnavailable) || !slices.Equal(in.lines, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.what, in.lines, err, c.want)
		}
		for _, ctx := range in.contexts {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("%s: a refund may go on: %v", c.what, ctx.Err())
			}
		}
	}
}

// A learning store says that it cannot decide in one act until it has learnt that it can. At each take time passes.
type learning struct {
	*memstore.Store
	clock  *gatetest.Clock
	learnt *atomic.Bool
}

func (s learning) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return leavingPlan{plan, func() { s.clock.Advance(time.Second) }}, err
}

func (s learning) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	plan, err := s.Store.BindJoint(parts)
	return learningPlan{plan, s.learnt}, err
}

type learningPlan struct {
	slidegate.JointPlan
	learnt *atomic.Bool
}

func (p learningPlan) Joint([]string) bool { return p.learnt.Load() }

// TestWhatWasTakenInOrderIsGivenBackInOneAct where the store has learnt meanwhile that it can, as in front of servers that turn
// out to be one: at the times that each part has recorded.
func TestWhatWasTakenInOrderIsGivenBackInOneAct(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
	store := learning{memstore.New(memstore.WithClock(clock.Now)), clock, new(atomic.Bool)}
	log, counter := slidegate.MustNew(store, slidegate.PerHour(5).Named("log")), slidegate.MustNew(store, slidegate.PerSecond(5).Counter().Named("counter"))
	g := slidegate.MustNewGroup(log, counter, slidegate.MustNew(store, slidegate.PerDay(5).Named("late")))
	keys := []string{"a", "b", "c"}
	d, err := g.TakeN(background, 3, keys...)
	store.learnt.Store(true)
	if err := errors.Join(err, g.Refund(background, &d)); err != nil {
		t.Fatal(err)
	}
	now, err := g.Peek(background, keys...)
	if err != nil || !g.Atomic(keys...) {
		t.Fatal(err)
	}
	for i := range now.Len() {
		if s := now.State(i); s.Remaining != 5 {
			t.Errorf("%d left of %s", s.Remaining, s.Limit)
		}
	}
}

// A binding store notes of how many parts a joint plan is bound, and has an answer ready.
type binding struct {
	*memstore.Store
	parts *[]int
	err   error
}

func (s binding) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	*s.parts = append(*s.parts, len(parts))
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.BindJoint(parts)
}

// TestOnlySeveralPartsAreBoundJointly, limiters without limits not counted. What the store does not support is done in order,
// and any other error is the group's.
func TestOnlySeveralPartsAreBoundJointly(t *testing.T) {
	cannot := errors.New("too much for one store")
	for _, c := range []struct {
		limiters  int
		err, want error
		asked     []int
		joint     bool
	}{
		{1, cannot, nil, nil, true},
		{2, nil, nil, []int{2}, true},
		{2, fmt.Errorf("what it wraps: %w", errors.ErrUnsupported), nil, []int{2}, false},
		{3, cannot, cannot, []int{3}, false},
	} {
		var asked []int
		store := binding{memstore.New(), &asked, c.err}
		limiters, keys := []*slidegate.Limiter{slidegate.Unlimited()}, []string{"k"}
		for i := range c.limiters {
			limiters, keys = append(limiters, slidegate.MustNew(store, slidegate.PerHour(int64(i+1)))), append(keys, "k")
		}
		g, err := slidegate.NewGroup(limiters...)
		if !errors.Is(err, c.want) || err == nil != (c.want == nil) || !slices.Equal(asked, c.asked) || g == nil != (err != nil) {
			t.Errorf("%d parts, %v: %v, bound %v", c.limiters, c.err, err, asked)
		}
		if g != nil && g.Atomic(keys...) != c.joint {
			t.Errorf("%d parts, %v: one act is %v", c.limiters, c.err, !c.joint)
		}
	}
}
