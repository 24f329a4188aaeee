package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

var background = context.Background()

// A line is a way to a store that may be cut, or lose replies to charges.
type line struct {
	slidegate.Store
	state string // "", "cut" or "deaf"
}

func (l *line) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := l.Store.Bind(limits)
	return linePlan{plan, l}, err
}

type linePlan struct {
	slidegate.Plan
	line *line
}

var errLine = fmt.Errorf("%w: the line is bad", slidegate.ErrUnavailable)

func (p linePlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.line.state == "cut" {
		return slidegate.Answer{}, errLine
	}
	a, err := p.Plan.Take(ctx, key, cost)
	if p.line.state == "deaf" {
		err = errLine
	}
	return a, err
}

func (p linePlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.line.state == "cut" {
		return slidegate.Answer{}, errLine
	}
	return p.Plan.Peek(ctx, key, cost)
}

// A walk takes the model and the real store the same way.
type walk struct {
	t     *testing.T
	rng   *rand.Rand
	setup fallbackSetup
	model fallback
	path  []string
	apart string // what was the first difference

	clock    *gatetest.Clock
	store    *slidegate.Limiter // what all share
	lines    []*line
	backups  []*slidegate.Limiter
	limiters []*slidegate.Limiter
	held     []receipt
}

// A receipt is a decision that may be given back.
type receipt struct {
	d        slidegate.Decision
	process  int
	byBackup bool
}

func newWalk(t *testing.T, seed uint64, setup fallbackSetup) *walk {
	w := &walk{t: t, rng: rand.New(rand.NewPCG(32, seed)), setup: setup, clock: gatetest.NewClock(time.UnixMilli(1_700_000_000_000))}
	on := func(quota int8) slidegate.Limit {
		return slidegate.Per(ticks*time.Second, int64(quota)).Named("l")
	}
	store := memstore.New(memstore.WithClock(w.clock.Now))
	w.store = slidegate.MustNew(store, on(setup.quota))
	for range setup.processes {
		backup := memstore.New(memstore.WithClock(w.clock.Now))
		l := &line{Store: store}
		share := wrap.WithShare(int(setup.share), int(setup.quota))
		w.lines = append(w.lines, l)
		w.backups = append(w.backups, slidegate.MustNew(backup, on(setup.share)))
		w.limiters = append(w.limiters, slidegate.MustNew(wrap.Fallback(l, backup, share), on(setup.quota)))
	}
	return w
}

// may takes the step of the model that is called so, and tells whether there is one.
func (w *walk) may(what string, args ...any) (taken bool) {
	what = fmt.Sprintf(what, args...)
	w.setup.next(w.model, func(name string, next fallback) {
		if name == what && !taken {
			taken, w.model = true, next
			w.path = append(w.path, what)
		}
	})
	return taken
}

// step does something to both, and compares what they hold.
func (w *walk) step() {
	i := w.rng.IntN(len(w.limiters))
	switch n := w.rng.IntN(10); {
	case n == 0:
		w.clock.Advance(time.Second)
		w.may("tick")
	case n < 3:
		w.lines[i].state = []string{"", "cut", "deaf"}[w.rng.IntN(3)]
	case n < 5 && len(w.held) > 0:
		w.refund()
	default:
		w.take(i, 1+int8(w.rng.IntN(2)))
	}
	w.compare("the store", w.store, w.model.store)
	for i, backup := range w.backups {
		w.compare(fmt.Sprintf("the backup of %d", i), backup, w.model.backup[i])
	}
}

func (w *walk) compare(what string, l *slidegate.Limiter, model [ticks]int8) {
	w.t.Helper()
	d, err := l.PeekN(background, "k", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if used := d.State(0).Limit.Quota - d.Remaining(); used != int64(sum(model[:]...)) {
		w.differ("%s holds %d, in the model %v", what, used, model)
	}
}

func (w *walk) differ(format string, args ...any) {
	if w.apart == "" {
		w.apart = fmt.Sprintf(format, args...) + " after " + strings.Join(w.path, ", ")
	}
}

// take decides a request of a process, and expects what the model says.
func (w *walk) take(i int, cost int8) {
	d, err := w.limiters[i].TakeN(background, "k", int64(cost))
	if err != nil {
		w.t.Fatal(err)
	}
	allowed, byBackup := w.expect(i, cost)
	if d.Allowed != allowed {
		w.differ("%d takes %d: %s, in the model %t", i, cost, d, allowed)
	}
	if d.Allowed {
		w.held = append(w.held, receipt{d, i, byBackup})
	}
}

func (w *walk) expect(i int, cost int8) (allowed, byBackup bool) {
	state := w.lines[i].state
	if state == "cut" {
		return w.may("%d takes %d of its share", i, cost), true
	}
	if w.may("%d finds the store back", i) {
		for state == "" && w.may("%d cannot take over all", i) {
		}
		switch {
		case w.model.moving[i] == 0:
		case state == "":
			w.may("%d takes over", i)
		case w.model.moving[i] > 0 && !w.may("%d takes over %d unheard", i, w.model.moving[i]):
			w.may("%d cannot take over", i)
		}
	}
	if state == "" {
		return w.may("%d takes %d of the store", i, cost), false
	}
	const how = ", charged and unheard by the store"
	if w.may("%d takes %d of its share"+how, i, cost) {
		return true, true
	}
	if w.may("%d is refused %d by its share"+how, i, cost) {
		return false, true
	}
	return w.may("%d takes %d of its share", i, cost), true
}

// refund gives a unit back, which may have left its window.
func (w *walk) refund() {
	n := w.rng.IntN(len(w.held))
	r := &w.held[n]
	if w.lines[r.process].state != "" && !r.byBackup {
		return
	}
	if err := w.limiters[r.process].RefundN(background, &r.d, 1); err != nil {
		w.t.Fatal(err)
	}
	age := int(w.clock.Now().Sub(r.d.At()) / time.Second)
	switch {
	case age >= ticks:
		w.path = append(w.path, "a unit that has left is given back")
	case r.byBackup:
		w.may("%d gives back a unit of its share, %d old", r.process, age)
	default:
		w.may("a unit of the store is given back, %d old", age)
	}
	if !r.d.Charged() {
		w.held = append(w.held[:n], w.held[n+1:]...)
	}
}

// walkTogether walks for a while and returns the first difference, "" if there is none.
func walkTogether(t *testing.T, seed uint64, setup fallbackSetup) string {
	t.Helper()
	setup.refunds = true
	w := newWalk(t, seed, setup)
	for range 300 {
		if w.step(); w.apart != "" {
			break
		}
	}
	return w.apart
}

// TestTheRealFallbackDoesWhatTheModelDoes: on long random walks each answer is the model's, and so is what the stores hold.
func TestTheRealFallbackDoesWhatTheModelDoes(t *testing.T) {
	for seed := range uint64(150) {
		if apart := walkTogether(t, seed, []fallbackSetup{halves, thirds, whole}[seed%3]); apart != "" {
			t.Fatalf("seed %d: %s", seed, apart)
		}
	}
}

// TestAnotherModelIsNotTheRealFallback: a walk tells the store from a model that is wrong.
func TestAnotherModelIsNotTheRealFallback(t *testing.T) {
	for name, wrong := range map[string]func(*fallbackSetup){
		"forgets":       func(c *fallbackSetup) { c.forgets = true },
		"never owes":    func(c *fallbackSetup) { c.neverOwes = true },
		"refunds twice": func(c *fallbackSetup) { c.refundsTwice = true },
	} {
		setup := whole
		wrong(&setup)
		if walkTogether(t, 1, setup) == "" {
			t.Errorf("a model that %s walks as the store does", name)
		}
	}
}

// TestRealProcessesCutOffOneAfterAnother meet the bound of the model: each has the share of those that were left.
func TestRealProcessesCutOffOneAfterAnother(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(1_700_000_000_000))
	redis := memstore.New(memstore.WithClock(clock.Now))
	var lines []*line
	var counts []*wrap.Replicas
	var limiters []*slidegate.Limiter
	for range beaters {
		l := &line{Store: redis}
		count, err := wrap.CountReplicas(l)
		if err != nil {
			t.Fatal(err)
		}
		backup := memstore.New(memstore.WithClock(clock.Now))
		store := wrap.Fallback(l, backup, wrap.WithReplicas(count.Live))
		lines, counts = append(lines, l), append(counts, count)
		limiters = append(limiters, slidegate.MustNew(store, slidegate.PerHour(shared)))
	}
	beatFor := func(d time.Duration) {
		for range d / (wrap.DefaultLife / 3) {
			clock.Advance(wrap.DefaultLife / 3)
			for _, count := range counts {
				if err := count.Beat(background); err != nil && !errors.Is(err, errLine) {
					t.Fatal(err)
				}
			}
		}
	}
	beatFor(time.Minute)
	admitted := 0
	take := func(i int) {
		for {
			ok, err := limiters[i].Allow(background, "k")
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return
			}
			admitted++
		}
	}
	take(beaters - 1) // all of the store, before anybody is cut off
	for i, line := range lines {
		line.state = "cut"
		take(i)
		beatFor(time.Minute)
	}
	if want := shared + shared/3 + shared/2 + shared/1; admitted != want {
		t.Errorf("%d were admitted in a window, by the model it is %d", admitted, want)
	}
}
