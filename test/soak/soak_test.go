package soak

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/servetest"
)

// A soak is one run: a stage, and what is measured of it.
type soak struct {
	*stage
	long   time.Duration
	begin  time.Time
	played map[string]int

	own, live, redis *series
	processes, heaps []*series // of the replicas, in their order
	watched          []*series // all of them
}

// TestSoak keeps everything at work for as long as -for says, lets things fail and change meanwhile, and then judges.
func TestSoak(t *testing.T) {
	own := ownHoldings()
	t.Cleanup(func() { awaitGivenBack(t, own, ownHoldings) }) // after all others
	s := &soak{long: *soakFor, stage: newStage(t, min(max(*soakFor/20, 4*time.Second), time.Minute).Truncate(window))}
	s.watch()
	before := s.warmUp()
	s.begin = time.Now()
	stop := s.measure()
	s.speak()
	s.played = s.conduct(s.long, min(max(s.long/240, 200*time.Millisecond), 5*time.Second))
	worked := time.Since(s.begin)
	s.hush()
	stop()

	s.checkExpiries()
	s.checkMemory()
	findings := s.checkHistory()
	s.checkAnswers()
	s.report(worked, findings)
	awaitGivenBack(t, before, s.holdings)
	s.reportHoldings(before)
	s.checkForgotten()
	s.checkEnd()
}

func (s *soak) watch() {
	room := float64(roomOfShort)
	if s.long > 10*time.Minute {
		room = 2 << 20
	}
	add := func(name string, isSteady bool) *series {
		one := &series{name: name, isSteady: isSteady, room: room}
		s.watched = append(s.watched, one)
		return one
	}
	s.own, s.live = add("this program", true), add("its live heap", true)
	s.redis = add("Redis: used_memory", true)
	for _, r := range s.replicas {
		s.processes = append(s.processes, add("serve: "+r.Name, r != s.open))
	}
	for _, r := range s.replicas {
		s.heaps = append(s.heaps, add("its live heap: "+r.Name, r != s.open))
	}
}

// warmUp lets all ask for a while, and returns what is held on to after that.
func (s *soak) warmUp() []holding {
	s.speak()
	last(window)
	s.hush()
	return s.holdings()
}

// measure looks at all memory, once a second or more rarely, until it is told to stop, and says how it goes.
func (s *soak) measure() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	every := func(pause time.Duration, do func()) {
		all.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					do()
				}
			}
		})
	}
	pause := min(max(s.long/1000, 200*time.Millisecond), 2*time.Second)
	every(pause, s.sample)
	every(pause, s.sampleRedis)
	every(min(max(s.long/60, 5*time.Second), time.Minute), func() { fmt.Fprintln(s.t.Output(), s.progress()) })
	return func() {
		cancel()
		all.Wait()
	}
}

func (s *soak) sample() {
	at := time.Since(s.begin)
	s.own.add(at, resident())
	s.live.add(at, liveHeap())
	for i, r := range s.replicas {
		_, text, err := r.Try("/metrics")
		if err != nil {
			continue // it is away
		}
		m := servetest.ParseMetrics(text)
		s.processes[i].add(at, m["process_resident_memory_bytes"])
		// The next collection comes when there is twice what the last one found in use, stacks and globals beside: garbage would be noise.
		s.heaps[i].add(at, m["go_memstats_next_gc_bytes"]/2)
	}
}

func (s *soak) sampleRedis() {
	reply, err := s.server.Try("INFO", "memory")
	text, _ := reply.(string)
	_, rest, ok := strings.Cut(text, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r")
	used, parseErr := strconv.ParseFloat(digits, 64)
	if err == nil && ok && parseErr == nil { // else it is away
		s.redis.add(time.Since(s.begin), used)
	}
}

func (s *soak) progress() string {
	var serving []string
	for _, one := range s.processes {
		serving = append(serving, mib(one.last()))
	}
	return fmt.Sprintf("%s  %d requests, %d admitted, %d undecided, %d faults, %d reloads; %s and %d goroutines here, serve %s, Redis %s",
		time.Since(s.begin).Round(time.Second), s.tally.asked(), s.tally.verdicts[admitted].Load(), s.undecided(),
		s.tally.faults.Load(), s.tally.reloads.Load(), mib(s.own.last()), runtime.NumGoroutine(), strings.Join(serving, ", "), mib(s.redis.last()))
}

func (s *soak) undecided() int64 {
	return s.tally.verdicts[passed].Load() + s.tally.verdicts[turnedAway].Load() + s.tally.verdicts[lost].Load()
}

// checkExpiries wants every key in Redis to go by itself.
func (s *soak) checkExpiries() {
	keys, stay, err := expiries(s.server)
	if err != nil {
		s.t.Fatal(err)
	}
	if stay > 0 {
		s.t.Errorf("of %d keys in Redis %d have no expiry", keys, stay)
	}
}

// expiries counts the keys of a Redis, and of these those that do not go by themselves.
func expiries(server *redistest.Server) (keys, stay int, err error) {
	conn, err := server.Dial()
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	for _, key := range server.Keys() {
		left, err := conn.Do("PTTL", key)
		if err != nil {
			return 0, 0, err
		}
		keys++
		if left == int64(-1) { // -2 is of one that has just gone
			stay++
		}
	}
	return keys, stay, nil
}

// awaitGivenBack wants goroutines, descriptors and connections to be what they were.
func awaitGivenBack(t *testing.T, before []holding, measure func() []holding) {
	t.Helper()
	var over []string
	defer func() {
		if t.Failed() && len(over) > 0 {
			t.Logf("held on to:\n%s", strings.Join(over, "\n"))
		}
	}()
	redistest.Await(t, servetest.Patience, "what the load took is given back", func() bool {
		over = kept(before, measure())
		return len(over) == 0
	})
}

// checkForgotten wants nothing to be stored once all windows are over.
func (s *soak) checkForgotten() {
	within := 2*s.wide + servetest.Patience
	redistest.Await(s.t, within, "DBSIZE is 0", func() bool { return s.server.Int("DBSIZE") == 0 })
	redistest.Await(s.t, within, "the memory stores are empty", func() bool { return s.memory.Len()+s.backup.Len() == 0 })
	redistest.Await(s.t, within, "slidegate_tracked_keys is 0", func() bool { return s.alone.Metrics()["slidegate_tracked_keys"] == 0 })
}

// checkEnd tells the processes to end, and looks at what they said. No key may be in it.
func (s *soak) checkEnd() {
	for _, at := range s.replicas {
		at.Signal(syscall.SIGTERM)
		at.AwaitEnd()
		for line := range strings.Lines(at.Said()) {
			for _, bad := range []string{"panic", "DATA RACE", "hot-", "new-"} {
				if strings.Contains(line, bad) {
					s.t.Errorf("%s said %s", at.Name, line)
				}
			}
		}
	}
}

// checkMemory wants no memory to grow.
func (s *soak) checkMemory() {
	for _, one := range s.watched {
		if one.isSteady && one.growth() != "" {
			s.t.Error(one.growth())
		}
	}
}

// checkHistory wants no window to hold too much. The fullest of each limit has to be a quarter full at least, by the
// smallest quota it had: what nobody reaches for shows nothing.
func (s *soak) checkHistory() (all []finding) {
	history, err := s.history.entries()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range s.ledgers {
		all = append(all, l.judge(history[l.id])...)
		delete(history, l.id)
	}
	for _, f := range all {
		if f.violations > 0 {
			s.t.Errorf("%s, %s: %d windows hold too much: %s", f.ledger, f.limit, f.violations, f.first)
		}
		if f.most < f.least/4 {
			s.t.Errorf("%s, %s: the fullest window has %d, want %d at least: all is asked for", f.ledger, f.limit, f.most, f.least/4)
		}
	}
	return all
}

// checkAnswers wants every answer to be one that was promised.
func (s *soak) checkAnswers() {
	if first := s.tally.firstWrong.Load(); first != nil {
		s.t.Errorf("%d answers were wrong, the first of %s", s.tally.verdicts[wrong].Load(), *first)
	}
	if s.tally.verdicts[refused].Load() == 0 || s.undecided() == 0 {
		s.t.Error("nobody was refused, or no fault kept anybody from being decided")
	}
}

// report prints what there was, and draws it if it is told to.
func (s *soak) report(worked time.Duration, findings []finding) {
	out := s.t.Output()
	fmt.Fprintf(out, "\n%s: %d takes, %d peeks, %d refunds, %d resets, %d keys; longest window %s\n", worked.Round(time.Second),
		s.tally.takes.Load(), s.tally.peeks.Load(), s.tally.refunds.Load(), s.tally.resets.Load(), hotKeys+newKeys.Load()/6, s.wide)
	for v := range verdicts {
		fmt.Fprintf(out, "%10d %s\n", s.tally.verdicts[v].Load(), v)
	}
	fmt.Fprintf(out, "\n%d faults, %d reloads\n%s\n", s.tally.faults.Load(), s.tally.reloads.Load(), strings.Join(describe(s.played), "\n"))
	s.reportFindings(out, findings)
	s.reportMemory(out)
	if *plotFile != "" {
		if err := os.WriteFile(*plotFile, []byte(plot("Memory during a soak of "+worked.Round(time.Second).String(), s.watched[:len(s.watched)-len(s.heaps)])), 0o644); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *soak) reportFindings(out io.Writer, findings []finding) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwho\tlimit\tkeys\tadmissions\tnot judged\tfullest window\tquota at most\tviolations")
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", f.ledger, f.limit, f.keys, f.admitted, f.unsure, f.most, f.quota, f.violations)
	}
	w.Flush()
}

func (s *soak) reportMemory(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmemory\thalf way\tend\tmean\tgrowth of the second half\tnoise")
	for _, one := range s.watched {
		points := one.all()
		if len(points) < 3 {
			continue
		}
		t := trendOf(points)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.name, mib(points[len(points)/2].value), mib(points[len(points)-1].value), mib(t.mean), mib(t.grown), mib(t.noise))
	}
	w.Flush()
}

func (s *soak) reportHoldings(before []holding) {
	w := tabwriter.NewWriter(s.t.Output(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nheld on to\tbefore\tafter")
	for i, after := range s.holdings() {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\n", after.name, before[i].value, after.value)
	}
	w.Flush()
}
