package redisscript

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// A course is what is asked of a script for one measurement: the same calls of the same keys at the same times.
type course struct {
	name    string
	hash    string
	limits  []slidegate.Limit // what is asked
	held    int               // charges that are held of each key at the start
	cost    int64
	pace    float64 // charges that leave for each call of a key
	clocks  []int64 // of each key
	samples []float64
}

const (
	keysMeasured  = 16
	callsMeasured = 400 // of all keys, in a round
)

// A bench measures courses side by side, in rounds that take turns.
type bench struct {
	s      *scripts
	server *redistest.Server
	d      draw
}

func (b *bench) keys(c *course, key int) (keys []string) {
	for i := range c.limits {
		keys = append(keys, fmt.Sprintf("slidegate:{%s:%d}:%d", c.name, key, i))
	}
	return keys
}

func (b *bench) command(c *course, key int, limits []slidegate.Limit, cost int64) []string {
	command := []string{"EVALSHA", c.hash, decimal(int64(len(limits)))}
	command = append(command, b.keys(c, key)...)
	command = append(command, question("t", "", limits)...)
	if cost != 1 {
		command = append(command, decimal(cost))
	}
	return append(command, decimal(c.clocks[key]/1000), decimal(c.clocks[key]%1000*1000))
}

// step moves the clock of a key on to its next call: uneven times.
func (b *bench) step(c *course, key int, pace float64) {
	if c.held == 0 || pace == 0 {
		return
	}
	gap := float64(c.limits[0].Window.Milliseconds()) / float64(c.held) * pace
	c.clocks[key] += int64(b.d.ExpFloat64()*gap + b.d.Float64())
}

// fill brings every key to where the course begins.
func (b *bench) fill(t testing.TB, c *course) {
	c.clocks = make([]int64, keysMeasured)
	open := slices.Clone(c.limits)
	for i := range open {
		open[i].Quota = slidegate.MaxQuota
	}
	for key := range c.clocks {
		c.clocks[key] = start
		for range c.held {
			b.step(c, key, 0.98)
			if _, err := b.s.conn.Do(b.command(c, key, open, c.cost)...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// round runs a course once, pipelined, and keeps the server's time for a call in microseconds.
func (b *bench) round(t testing.TB, c *course) {
	var text strings.Builder
	for i := range callsMeasured {
		b.step(c, i%keysMeasured, c.pace)
		command := b.command(c, i%keysMeasured, c.limits, c.cost)
		fmt.Fprintf(&text, "*%d\r\n", len(command))
		for _, a := range command {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	before := b.spent()
	if err := b.s.conn.SendRaw([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	for range callsMeasured {
		if _, err := b.s.conn.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	c.samples = append(c.samples, (b.spent()-before)/callsMeasured)
}

// spent returns the microseconds that the server has spent in EVALSHA so far.
func (b *bench) spent() (usec float64) {
	var calls float64
	fmt.Sscanf(b.server.Info("commandstats")["cmdstat_evalsha"], "calls=%g,usec=%g", &calls, &usec)
	return usec
}

// median returns the middle of what was measured.
func (c *course) median() float64 {
	sorted := slices.Sorted(slices.Values(c.samples))
	return sorted[len(sorted)/2]
}

// clock is put in front of a script, and what TIME replies is replaced by two arguments that follow the others. So
// every decision can be measured at a time that was chosen, and costs what it costs on the server's clock.
const clock = "local microseconds, seconds = table.remove(ARGV), table.remove(ARGV)\n"

// timed returns a script with that clock.
func timed(t testing.TB, source string) string {
	const time = "redis.call('TIME')"
	if strings.Count(source, time) != 1 {
		t.Fatal("the script reads its clock elsewhere")
	}
	return clock + strings.Replace(source, time, "("+time+" and {seconds, microseconds})", 1)
}

// newBench loads the sorted set's script, and take.
func newBench(t testing.TB) (b *bench, take, set string) {
	server := redistest.Standalone(t)
	b = &bench{s: newScripts(t, server, newClock()), server: server, d: draw{rand.New(rand.NewPCG(1, 2))}}
	text, err := os.ReadFile("sortedset.lua")
	if err != nil {
		t.Fatal(err)
	}
	load := func(source string) string { return server.Text("SCRIPT", "LOAD", timed(t, source)) }
	return b, load(source(t, "take")), load(string(text))
}

// full returns a limit a minute of twice what is held, so that charges are admitted, or of just that.
func full(held, times int64) []slidegate.Limit {
	return []slidegate.Limit{slidegate.Per(time.Minute, held*times)}
}

// measure runs two courses in rounds that take turns and reports the medians and their ratio.
func (b *bench) measure(t *testing.B, ours, theirs course, name string) {
	b.fill(t, &ours)
	b.fill(t, &theirs)
	for t.Loop() {
		b.round(t, &ours)
		b.round(t, &theirs)
	}
	t.ReportMetric(ours.median(), "µs/call")
	t.ReportMetric(theirs.median(), "µs/"+name)
	t.ReportMetric(ours.median()/theirs.median(), "ratio")
	t.ReportMetric(float64(b.s.memory(t, b.keys(&ours, 0)[0])), "B")
	t.ReportMetric(float64(b.s.memory(t, b.keys(&theirs, 0)[0])), "B/"+name)
	t.ReportMetric(0, "ns/op")
}

// BenchmarkSortedSet measures the server's time for a call of take next to a sorted set that answers the same
// questions. One iteration is a round of 400 calls of each; 60 are enough: -benchtime=60x.
func BenchmarkSortedSet(t *testing.B) {
	for _, c := range []course{
		{name: "allowed/10", limits: full(10, 2), held: 10, cost: 1, pace: 1},
		{name: "allowed/100", limits: full(100, 2), held: 100, cost: 1, pace: 1},
		{name: "allowed/1000", limits: full(1000, 2), held: 1000, cost: 1, pace: 1},
		{name: "allowed/10000", limits: full(10_000, 2), held: 10_000, cost: 1, pace: 1},
		{name: "denied/10", limits: full(10, 1), held: 10, cost: 1},
		{name: "denied/100", limits: full(100, 1), held: 100, cost: 1},
		{name: "denied/1000", limits: full(1000, 1), held: 1000, cost: 1},
		{name: "denied/10000", limits: full(10_000, 1), held: 10_000, cost: 1},
		{name: "cost100/1000", limits: full(1000, 2), held: 10, cost: 100, pace: 1},
		{name: "cost100/10000", limits: full(10_000, 2), held: 100, cost: 100, pace: 1},
	} {
		t.Run(c.name, func(t *testing.B) {
			b, take, set := newBench(t)
			ours, theirs := c, c
			ours.name, ours.hash, theirs.name, theirs.hash = "ours", take, "set", set
			b.measure(t, ours, theirs, "sorted-set-call")
		})
	}
}

// BenchmarkLimits measures a call of take for three limits, or for a counter, next to one for one log.
func BenchmarkLimits(t *testing.B) {
	small := course{name: "one", limits: full(10, 2), held: 10, cost: 1, pace: 1}
	large := course{name: "one", limits: full(1000, 2), held: 1000, cost: 1, pace: 1}
	counter := []slidegate.Limit{full(1000, 2)[0].Counter()}
	for _, c := range []struct {
		name   string
		limits []slidegate.Limit
		one    course
	}{
		{"three/10", slices.Repeat(small.limits, 3), small},
		{"three/1000", slices.Repeat(large.limits, 3), large},
		{"three/1000/third-is-full", slices.Concat(large.limits, large.limits, full(1000, 1)), large},
		{"counter", counter, large},
		{"three/counter", slices.Repeat(counter, 3), large},
	} {
		t.Run(c.name, func(t *testing.B) {
			b, take, _ := newBench(t)
			ours, theirs := c.one, c.one
			ours.name, ours.limits, ours.hash, theirs.hash = "other", c.limits, take, take
			b.measure(t, ours, theirs, "one-log")
		})
	}
}
