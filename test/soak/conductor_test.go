package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/servetest"
)

// An act is one thing that happens while all ask.
type act struct {
	name     string
	isReload bool // and not a fault
	isEarly  bool // it ends what is measured over the second half, so it is played in the first
	play     func(*stage)
}

// patience is for a busy machine.
const patience = 4 * servetest.Patience

// outage is longer than any call may wait, and than a circuit takes to open.
const outage = 1200 * time.Millisecond

// acts are played in this order, again and again.
var acts = []act{
	{"Redis stands still (SIGSTOP)", false, false, func(s *stage) { s.server.Freeze(); last(outage); s.server.Thaw() }},
	{"a quota is raised", true, false, func(s *stage) { s.reload(rules{20, 30, s.rules.hasExtra, false}) }},
	{"connections are cut", false, false, func(s *stage) { again(8, s.proxy.CutAll) }},
	{"a process is killed", false, false, func(s *stage) { s.open.Kill(); last(outage / 4); s.open.Start() }},
	{"a rule is added", true, false, func(s *stage) { s.reload(rules{s.rules.hot, s.rules.cost, true, false}) }},
	{"Redis is killed, and starts empty", false, true, (*stage).killRedis},
	{"answers come too late", false, false, func(s *stage) { s.proxy.Delay(2 * timeout); last(outage); s.proxy.Pass() }},
	{"a quota is lowered", true, false, func(s *stage) { s.reload(rules{10, 20, s.rules.hasExtra, false}) }},
	{"the network loses everything", false, false, func(s *stage) { s.proxy.Blackhole(); last(outage); s.proxy.Pass() }},
	{"the process with a share is killed", false, true, (*stage).killSharing},
	{"Redis forgets the scripts", false, false, func(s *stage) { again(8, func() { s.server.Do("SCRIPT", "FLUSH") }) }},
	{"a rule is removed", true, false, func(s *stage) { s.reload(rules{s.rules.hot, s.rules.cost, false, false}) }},
	{"answers are lost", false, false, func(s *stage) { again(8, func() { s.proxy.CutReply("evalsha", 1) }); s.proxy.Pass() }},
	{"a process is told to end (SIGTERM)", false, false, (*stage).endOpen},
	{"the process with its state in memory is killed", false, true, (*stage).killAlone},
	{"a wrong file is not taken", true, false, (*stage).reloadWrong},
	{"Redis forgets everything (FLUSHALL)", false, true, (*stage).flush},
}

func last(d time.Duration) { <-time.After(d) }

// again does something eight times a second.
func again(n int, do func()) {
	for range n {
		do()
		last(time.Second / 8)
	}
}

// conduct plays all acts in their order until the time is over, and once at least, with gaps in between.
func (s *stage) conduct(long, gap time.Duration) (played map[string]int) {
	played = map[string]int{}
	begin := time.Now()
	for round := 0; ; round++ {
		for _, a := range acts {
			if round > 0 && time.Since(begin) >= long {
				return played
			}
			if a.isEarly && round > 0 && time.Since(begin) >= long/2 {
				continue
			}
			a.play(s)
			played[a.name]++
			if a.isReload {
				s.tally.reloads.Add(1)
			} else {
				s.tally.faults.Add(1)
			}
			last(min(gap, max(0, long-time.Since(begin))))
		}
	}
}

// during returns the span that something takes.
func during(do func()) span {
	from := now()
	do()
	return span{from, now()}
}

func (s *stage) killRedis() {
	gone := during(func() { s.server.Kill(); last(outage); s.server.Start() })
	for _, l := range s.onRedis {
		l.forgot(gone)
	}
}

func (s *stage) flush() {
	gone := during(func() { s.server.Flush() })
	for _, l := range s.onRedis {
		l.forgot(gone)
	}
}

func (s *stage) killSharing() {
	gone := during(func() { s.sharing.Kill(); s.sharing.Start() })
	for _, l := range s.ofShares {
		l.resharded(gone)
	}
}

func (s *stage) killAlone() {
	gone := during(func() { s.alone.Kill(); s.alone.Start() })
	for _, l := range s.inAlone {
		l.forgot(gone)
	}
}

func (s *stage) endOpen() {
	s.open.Signal(syscall.SIGTERM)
	s.open.AwaitEnd()
	s.open.Start()
}

// reload writes rules, tells all processes, and waits until they say that they decide by them.
func (s *stage) reload(r rules) {
	s.t.Helper()
	for _, of := range [][]*ledger{s.ofShares, s.inAlone} {
		of[0].budgets[0].change(r.hot)
		of[0].budgets[1].change(s.wideOf(r.hot).Quota)
		of[1].budgets[0].change(r.cost)
	}
	s.write(r)
	s.rules = r
	for _, at := range s.replicas {
		at.Signal(syscall.SIGHUP)
	}
	for _, at := range s.replicas {
		redistest.Await(s.t, patience, at.Name+" decides by the new rules", func() bool { return s.decides(at, r) })
	}
	for _, of := range [][]*ledger{s.ofShares, s.inAlone} {
		for _, b := range slices.Concat(of[0].budgets, of[1].budgets) {
			b.settle()
		}
	}
}

// decides tells whether a process says that it has rules. It is asked for what it has read, and not for a decision, which
// needs a Redis in time.
func (s *stage) decides(at *servetest.Replica, r rules) bool {
	request, err := http.NewRequest(http.MethodGet, at.Door(servetest.Admin)+"/v1/rules", nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := s.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var told struct {
		Rules []struct {
			Name   string   `json:"name"`
			Limits []string `json:"limits"`
		} `json:"rules"`
	}
	if json.NewDecoder(response.Body).Decode(&told) != nil {
		return false
	}
	first := map[string]string{}
	for _, rule := range told.Rules {
		first[rule.Name] = rule.Limits[0]
	}
	return first["hot"] == "hot:"+burst(r.hot).String() && first[costly] == costly+":"+burst(r.cost).String() &&
		(first[extra] != "") == r.hasExtra
}

// reloadWrong writes a file that is wrong, wants all processes to say so, and writes the old one.
func (s *stage) reloadWrong() {
	s.t.Helper()
	before := s.rules
	before.isWrong = true
	s.write(before)
	for _, at := range s.replicas {
		at.Signal(syscall.SIGHUP)
	}
	for _, at := range s.replicas {
		redistest.Await(s.t, patience, at.Name+" says that its rules are wrong", func() bool {
			return at.Metrics()["slidegate_config_last_reload_successful"] == 0
		})
	}
	s.reload(s.rules)
	for _, at := range s.replicas {
		redistest.Await(s.t, patience, at.Name+" says that its rules are right", func() bool {
			return at.Metrics()["slidegate_config_last_reload_successful"] == 1
		})
	}
}

// describe says how often each act was played.
func describe(played map[string]int) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(played)) {
		lines = append(lines, fmt.Sprintf("%4d  %s", played[name], name))
	}
	return lines
}
