package redisscript

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

var background = context.Background()

// errNewer is the error of a call that met a value of a newer format.
var errNewer = fmt.Errorf("%w: written by a newer version", slidegate.ErrUnavailable)

// errReplaced is found where a value of ours was taken for garbage.
var errReplaced = errors.New("a sound value was replaced")

// A scripts is a [slidegate.Store] that does nothing but run the scripts over one connection.
type scripts struct {
	conn                *redistest.Conn
	take, refund, reset string          // hashes
	charges             string          // another
	clock               *gatetest.Clock // nil for the server's
	prefix              string
	replaced            int64 // values that were replaced
	told                int64 // the clock as the last refund, reset or list told it
}

// newScripts returns the scripts on a server, on a clock that is set by hand or, if that is nil, the server's.
func newScripts(t testing.TB, s *redistest.Server, clock *gatetest.Clock) *scripts {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	load := func(name string) string { return s.Text("SCRIPT", "LOAD", source(t, name)) }
	return &scripts{conn: conn, take: load("take"), refund: load("refund"), reset: load("reset"), charges: load("charges"), clock: clock}
}

// A library keeps the scripts that a store runs, and runs none.
type library map[string]string

var errRead = errors.New("read, and not run")

func (l library) Run(_ context.Context, s *redisstore.Script, _, _ []string) ([]int64, error) {
	l[s.Name()] = s.Source()
	return nil, errRead
}

// source returns the text of a script as the store sends it.
func source(t testing.TB, name string) string {
	t.Helper()
	l := library{}
	plan, err := redisstore.New(l, redisstore.WithTimeout(time.Minute)).Bind([]slidegate.Limit{slidegate.PerSecond(1).Named("a")})
	if err != nil {
		t.Fatal(err)
	}
	_, taken := plan.Take(background, "k", 1)
	_, listed := plan.(slidegate.ChargesPlan).Charges(background, "k", 1)
	for _, err := range []error{taken, plan.Refund(background, "k", slidegate.Answer{}, 1), plan.Reset(background, "k"), listed} {
		if !errors.Is(err, errRead) {
			t.Fatal(err)
		}
	}
	return l[name]
}

// run runs a script and returns the integers it replied.
func (s *scripts) run(hash string, keys, args []string) ([]int64, error) {
	if err := s.send(hash, keys, args); err != nil {
		return nil, err
	}
	return s.receive()
}

// send runs a script and does not wait.
func (s *scripts) send(hash string, keys, args []string) error {
	command := append([]string{"EVALSHA", hash, strconv.Itoa(len(keys))}, keys...)
	return s.conn.Send(append(command, args...)...)
}

// receive returns the integers that the next script replied.
func (s *scripts) receive() ([]int64, error) {
	reply, err := s.conn.Receive()
	if err != nil {
		return nil, err
	}
	numbers := make([]int64, len(reply.([]any)))
	for i, n := range reply.([]any) {
		numbers[i] = n.(int64)
	}
	return numbers, nil
}

func (s *scripts) now() string {
	if s.clock == nil {
		return ""
	}
	return decimal(s.clock.Now().UnixMilli())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// arguments returns what a refund is told of a limit.
func arguments(l slidegate.Limit) []string {
	algorithm := "l"
	if l.Algorithm == slidegate.SlidingCounter {
		algorithm = "c"
	}
	return []string{algorithm, decimal(l.Quota), decimal(l.Window.Milliseconds()), decimal(max(1, l.Resolution.Milliseconds()))}
}

// question returns what the script that decides is told of limits.
func question(mode, clock string, limits []slidegate.Limit) []string {
	var bounds, resolutions []string
	for _, l := range limits {
		bounds = append(bounds, decimal(l.Quota), decimal(l.Window.Milliseconds()))
		switch {
		case l.Algorithm == slidegate.SlidingCounter:
			mode += "c"
		case l.Resolution > time.Millisecond:
			mode += "r"
			resolutions = append(resolutions, decimal(l.Resolution.Milliseconds()))
		default:
			mode += "l"
		}
	}
	if clock != "" {
		mode, bounds = strings.ToUpper(mode[:1])+mode[1:], append(bounds, clock)
	}
	return slices.Concat([]string{mode}, bounds, resolutions)
}

// key returns where the state of a limit lives.
func (s *scripts) key(key string, l slidegate.Limit) string {
	return fmt.Sprintf("%s{%s}:%s:%d:%s", s.prefix, key, l.Name, l.Window.Milliseconds(), l.Algorithm)
}

func (s *scripts) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	return &scriptPlan{s, limits}, nil
}

type scriptPlan struct {
	s      *scripts
	limits []slidegate.Limit
}

func (p *scriptPlan) keys(key string) (keys []string) {
	for _, l := range p.limits {
		keys = append(keys, p.s.key(key, l))
	}
	return keys
}

// decide asks for several decisions of one key in one call.
func (p *scriptPlan) decide(mode, key string, costs ...int64) ([]slidegate.Answer, error) {
	if err := p.ask(mode, key, costs...); err != nil {
		return nil, err
	}
	return p.answers(len(costs))
}

// ask is decide without waiting for the answers.
func (p *scriptPlan) ask(mode, key string, costs ...int64) error {
	args, keys := question(mode, p.s.now(), p.limits), []string(nil)
	ones := true
	for _, cost := range costs {
		keys = append(keys, p.keys(key)...)
		ones = ones && cost == 1
	}
	for i := 0; i < len(costs) && !ones; i++ {
		args = append(args, decimal(costs[i]))
	}
	return p.s.send(p.s.take, keys, args)
}

// answers returns those to the next question that was asked, of so many decisions.
func (p *scriptPlan) answers(decisions int) ([]slidegate.Answer, error) {
	reply, err := p.s.receive()
	if err != nil {
		return nil, err
	}
	answers, rest := make([]slidegate.Answer, decisions), reply[1:]
	for i := range answers {
		if answers[i], rest, err = p.answer(reply[0], rest); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d numbers too many in a reply of %d", len(rest), len(reply))
	}
	return answers, nil
}

// answer reads the part of a reply that one decision has, and returns what is behind it.
func (p *scriptPlan) answer(now int64, reply []int64) (a slidegate.Answer, rest []int64, err error) {
	next := func() (n int64) {
		if len(reply) == 0 {
			err = errors.New("a reply is too short")
			return 0
		}
		n, reply = reply[0], reply[1:]
		return n
	}
	first := next()
	if first < 0 {
		return a, nil, errNewer
	}
	a.Allowed, a.Now = first%2 == 1, now
	p.s.replaced += first % 64 / 2
	head := first / 64
	for i, l := range p.limits {
		if i > 0 {
			head = next()
		}
		r := slidegate.Reading{Units: head / 4, At: now}
		if window := l.Window.Milliseconds(); l.Algorithm == slidegate.SlidingCounter {
			r.At = int64(math.Floor(float64(now)/float64(window))) * window
		}
		if head&1 > 0 {
			r.At = next()
		}
		if head&2 > 0 {
			r.Back = next()
		}
		a.Readings[i] = r
	}
	return a, reply, err
}

func (p *scriptPlan) one(mode, key string, cost int64) (slidegate.Answer, error) {
	answers, err := p.decide(mode, key, cost)
	if err != nil {
		return slidegate.Answer{}, err
	}
	return answers[0], nil
}

func (p *scriptPlan) Take(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.one("t", key, cost)
}

func (p *scriptPlan) Peek(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.one("p", key, cost)
}

func (p *scriptPlan) Refund(_ context.Context, key string, charged slidegate.Answer, cost int64) error {
	args := []string{p.s.now(), decimal(cost)}
	for i, l := range p.limits {
		args = append(append(args, arguments(l)...), decimal(charged.Readings[i].At))
	}
	return p.act(p.s.refund, key, args)
}

func (p *scriptPlan) Reset(_ context.Context, key string) error {
	return p.act(p.s.reset, key, []string{p.s.now()})
}

func (p *scriptPlan) act(hash, key string, args []string) error {
	reply, err := p.s.run(hash, p.keys(key), args)
	if err != nil {
		return err
	}
	if len(reply) != 2 || reply[1] != 1 && reply[1] != -1 {
		return fmt.Errorf("reply %v, want now and a status", reply)
	}
	p.s.told = reply[0]
	if c := p.s.clock; c != nil && p.s.told != c.Now().UnixMilli() {
		return fmt.Errorf("now is %d, it was told %d", p.s.told, c.Now().UnixMilli())
	}
	if reply[1] < 0 {
		return errNewer
	}
	return nil
}

// list returns at most so many charges of one limit that count, the oldest first.
func (s *scripts) list(key string, l slidegate.Limit, most int) (all []charged, err error) {
	a := arguments(l)
	reply, err := s.run(s.charges, []string{s.key(key, l)}, []string{s.now(), decimal(int64(most)), a[0], a[2]})
	switch {
	case err != nil:
		return nil, err
	case len(reply) == 2 && reply[1] == -1:
		return nil, errNewer
	case len(reply) < 3 || reply[1] != 1 || int64(len(reply)) != 3+2*reply[2]:
		return nil, fmt.Errorf("reply %v, want now, a status, and so many charges", reply)
	}
	s.told = reply[0]
	for rest := reply[3:]; len(rest) > 0; rest = rest[2:] {
		all = append(all, charged{rest[0], rest[1]})
	}
	return all, nil
}

// start is where clocks set by hand begin: no multiple of a common window.
const start = 1_757_750_412_345

func newClock() *gatetest.Clock { return gatetest.NewClock(time.UnixMilli(start)) }
