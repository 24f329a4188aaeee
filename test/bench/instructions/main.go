// Instructions makes decisions, for a tool that counts the instructions of a process: the difference between two runs, divided by that of
// their decisions, is what one takes. The clock moves by a millisecond for every 16 decisions, whatever the machine does.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A clock stands still but for what it is told.
type clock struct {
	now   time.Time
	calls int
}

func (c *clock) step() {
	if c.calls++; c.calls%16 == 0 {
		c.now = c.now.Add(time.Millisecond)
	}
}

// cases prepare decisions of one kind and return what makes the next one.
var cases = map[string]func(*clock) func(){
	"log":             take("1000000000/1m"),
	"log-refused":     take("1/1d"),
	"counter":         take("1000000000/1m,counter"),
	"counter-refused": take("1/1d,counter"),
	"three-logs":      take("a=1000000000/1m", "b=1000000000/1h", "c=1000000000/1d"),
	"gate":            ask("1000000000/1m", httpgate.WithoutContext()),
	"gate-context":    ask("1000000000/1m"),
	"gate-refused":    ask("1/1d"),
}

func limiter(c *clock, texts ...string) *slidegate.Limiter {
	var limits []slidegate.Limit
	for _, text := range texts {
		l, err := slidegate.ParseLimit(text)
		if err != nil {
			panic(err) // they are ours
		}
		limits = append(limits, l)
	}
	return slidegate.MustNew(memstore.New(memstore.WithClock(func() time.Time { return c.now })), limits...)
}

func take(limits ...string) func(*clock) func() {
	return func(c *clock) func() {
		l, ctx := limiter(c, limits...), context.Background()
		return func() {
			if _, err := l.Take(ctx, "somebody"); err != nil {
				panic(err) // the memory store is always there
			}
		}
	}
}

type writer http.Header

func (w writer) Header() http.Header         { return http.Header(w) }
func (w writer) Write(b []byte) (int, error) { return len(b), nil }
func (w writer) WriteHeader(int)             {}

func ask(limit string, options ...httpgate.Option) func(*clock) func() {
	return func(c *clock) func() {
		h := httpgate.MustNew(limiter(c, limit), options...).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r, err := http.NewRequest(http.MethodGet, "http://example.com/orders/7", nil)
		if err != nil {
			panic(err)
		}
		r.RemoteAddr = "203.0.113.7:40123"
		w := writer{}
		return func() {
			clear(w)
			h.ServeHTTP(w, r)
		}
	}
}

func main() {
	name := flag.String("case", "log", "what is decided: one of "+fmt.Sprint(slices.Sorted(maps.Keys(cases))))
	calls := flag.Int("calls", 1000, "decisions")
	flag.Parse()
	prepare := cases[*name]
	if prepare == nil {
		fmt.Fprintf(os.Stderr, "instructions: no case %q: -h names them\n", *name)
		os.Exit(2)
	}
	c := &clock{now: time.UnixMilli(1_000_000_000_000)}
	next := prepare(c)
	for range *calls {
		c.step()
		next()
	}
}
