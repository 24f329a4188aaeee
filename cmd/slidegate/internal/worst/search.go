// Package worst searches for the pattern of arrivals that gets the most through one true window of a
// limit: what a client can do who knows how it counts.
//
// A policy is asked as a client would ask it, on a virtual clock. Two facts make that a search that
// ends. First, of all patterns that begin at some time, the greedy one, which takes whatever there is
// room for as soon as there is, has been admitted most at every later time: no limit answers a larger
// past with a smaller total. So only the time to begin remains, and it matters by its place between
// the edges of aligned windows alone. Second, what the greedy pattern takes from the first of several
// beginnings to the end of the last one's window bounds them all, so that most need not be tried.
package worst

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/slidegate/slidegate"
)

// A Way is a way to count.
type Way string

// The ways that are compared. The sliding log and the sliding counter are those of the store; the
// fixed window and GCRA, with a burst of the whole quota, are what others do.
const (
	Log     Way = "log"
	Counter Way = "counter"
	Fixed   Way = "fixed"
	GCRA    Way = "gcra"
)

// Ways returns all of them, in the order of reports.
func Ways() []Way { return []Way{Log, Counter, Fixed, GCRA} }

// A Found is what a search found.
type Found struct {
	// Worst is how many units the witness gets through one window.
	Worst int64 `json:"worst"`

	// Bound is how many no pattern exceeds. Worst is the true maximum where the two are equal.
	Bound int64 `json:"bound"`

	// Witness is the pattern, in the order of time. Each take is admitted, and all of them lie in one
	// half-open window that begins with the first.
	Witness []Take `json:"witness"`
}

// A Take is units that are taken at one time, in milliseconds since the Unix epoch. Its JSON is an
// event that replay reads.
type Take struct {
	T    int64  `json:"t"`
	Key  string `json:"key"`
	Cost int64  `json:"cost"`
}

const (
	// maxTakes is how many takes a pattern has at most, which bounds the memory. It is more than the units
	// that two windows of fineQuota let through.
	maxTakes = 100_000

	// effort is how often a policy is looked at before the search ends with what it has.
	effort = 1_000_000

	// fineQuota is the largest quota whose units are waited for one by one.
	fineQuota = 10_000

	// maxPeriod bounds the beginnings that are tried, and keeps all times far within the years of four digits.
	maxPeriod = 10_000_000_000_000
)

// Search looks for the most that gets through one window of the limit policy[target], which is counted
// in a way, while the other limits of the policy hold as they are. The limits have names. What it finds
// depends on its arguments alone, and it takes bounded time and memory at any quota and window.
func Search(policy []slidegate.Limit, target int, way Way) (Found, error) {
	return within(effort, policy, target, way)
}

// within is Search with another effort.
func within(effort int, policy []slidegate.Limit, target int, way Way) (Found, error) {
	s, err := newSearch(policy, target, way)
	if err != nil {
		return Found{}, err
	}
	defer s.close()
	s.effort = effort
	s.run()
	witness := s.witness(policy[target].Name)
	return Found{s.best, s.bound, witness}, s.err()
}

// beginnings is how many times to begin Flood tries.
const beginnings = 200

// Flood returns how many units get through the first window of somebody who knows nothing and asks at every
// millisecond. That depends on when they begin: what is returned is the median of 200 times to begin, or of all
// where there are fewer, evenly spread over the places between the edges of aligned windows. Its arguments
// are those of [Search].
func Flood(policy []slidegate.Limit, target int, way Way) (int64, error) {
	s, err := newSearch(policy, target, way)
	if err != nil {
		return 0, err
	}
	defer s.close()
	n := min(beginnings, s.period)
	all := make([]int64, n)
	for i := range all {
		s.flood(int64(i)*(s.period/n), s.window, s.step, func(_, units int64) { all[i] += units })
	}
	slices.Sort(all)
	return all[n/2], s.err()
}

// Bound returns how many units no pattern gets through one window of policy[target], by argument and
// not by search: what the limit bounds by itself, and what the others bound in as many of their
// windows as cover one of its.
func Bound(policy []slidegate.Limit, target int, way Way) int64 {
	limit := policy[target]
	bound := alone(limit, way)
	for i, l := range policy {
		if i == target {
			continue
		}
		most := alone(l, Way(l.Algorithm.String()))
		if n := int64((limit.Window + l.Window - 1) / l.Window); n <= bound/most {
			bound = min(bound, n*most)
		}
	}
	return bound
}

// alone is what gets through one window of a limit that stands alone. docs/worst.md has the arguments.
func alone(l slidegate.Limit, way Way) int64 {
	window := l.Window.Milliseconds()
	switch {
	case way == Counter:
		return max(l.Quota, 2*l.Quota-2*l.Quota/window)
	case way == GCRA:
		return 2*l.Quota - (l.Quota+window-1)/window
	case way == Fixed && window > 1:
		return 2 * l.Quota
	}
	return l.Quota
}

// A search is one call of Search. Times are in milliseconds.
type search struct {
	models []model
	store  *store // one of them, or nil

	window   int64
	smallest int64   // quota
	edges    []int64 // lengths of aligned windows
	period   int64   // after which all edges lie as before
	step     int64   // units that are waited for while searching
	exact    bool    // what the greedy pattern takes is a bound
	looks    int
	effort   int // looks at most, or a little more

	best, begin int64 // the most so far, and when its window begins
	bound       int64 // no pattern gets more
}

func newSearch(policy []slidegate.Limit, target int, way Way) (*search, error) {
	s := &search{window: policy[target].Window.Milliseconds(), smallest: slidegate.MaxQuota, step: 1, bound: Bound(policy, target, way)}
	largest := int64(0)
	for _, l := range policy {
		s.smallest, largest = min(s.smallest, l.Quota), max(largest, l.Quota)
	}
	if largest > fineQuota {
		s.step = max(1, min(s.smallest, largest/1000))
	}
	stored := slices.Delete(slices.Clone(policy), target, target+1)
	limit := policy[target]
	switch way {
	case Log:
		limit.Algorithm = slidegate.SlidingLog
		stored = append(stored, limit)
	case Counter:
		limit.Algorithm, limit.Resolution = slidegate.SlidingCounter, 0
		stored = append(stored, limit)
	case Fixed:
		s.models = append(s.models, &fixed{quota: limit.Quota, window: s.window})
		s.edges = append(s.edges, s.window)
	case GCRA:
		s.models = append(s.models, &gcra{quota: limit.Quota, window: s.window})
	}
	s.align(stored)
	if len(stored) == 0 {
		return s, nil
	}
	var err error
	s.store, err = newStore(stored)
	s.models = append(s.models, s.store)
	return s, err
}

// close ends the store, if there is one.
func (s *search) close() {
	if s.store != nil {
		_ = s.store.memory.Close()
	}
}

// err returns what the store should not have answered.
func (s *search) err() error {
	if s.store == nil {
		return nil
	}
	return s.store.err
}

// align finds the edges, and the period after which they lie as before.
func (s *search) align(stored []slidegate.Limit) {
	for _, l := range stored {
		if l.Algorithm == slidegate.SlidingCounter {
			s.edges = append(s.edges, l.Window.Milliseconds())
		} else if l.Resolution > 0 {
			s.edges = append(s.edges, l.Resolution.Milliseconds())
		}
	}
	s.period, s.exact = 1, s.step == 1
	for _, edge := range s.edges {
		more := edge / gcd(s.period, edge)
		if s.period > maxPeriod/more {
			s.exact = false
			continue
		}
		s.period *= more
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// A block is beginnings that follow one another, and what bounds them all.
type block struct{ first, n, bound int64 }

// run looks into the block with the highest bound first. When no bound exceeds the best, that is the true maximum.
func (s *search) run() {
	// These are the worst of most limits: after the edges, just before the first one, just before all.
	for _, first := range []int64{0, (s.window - 1) % s.period, s.period - 1} {
		s.measure(block{first, 1, s.bound})
	}
	open := &blocks{{0, s.period, s.bound}}
	for open.Len() > 0 && s.best < s.bound && s.looks < s.effort {
		b := heap.Pop(open).(block)
		if b.bound <= s.best || b.n == 1 {
			continue
		}
		half := b.n / 2
		for _, part := range []block{{b.first, half, b.bound}, {b.first + half, b.n - half, b.bound}} {
			if part.bound = s.measure(part); part.bound > s.best {
				heap.Push(open, part)
			}
		}
	}
	if !s.exact {
		return
	}
	bound := s.best
	for _, b := range *open {
		bound = max(bound, b.bound)
	}
	s.bound = min(s.bound, bound)
}

// measure tries the first beginning of a block, and returns what bounds them all.
func (s *search) measure(b block) (bound int64) {
	if b.n > s.window {
		return b.bound
	}
	best, all := int64(0), int64(0)
	s.flood(b.first, s.window+b.n-1, s.step, func(at, units int64) {
		if all += units; at < b.first+s.window {
			best = all
		}
	})
	if best > s.best {
		s.best, s.begin = best, b.first
	}
	return min(b.bound, all)
}

// flood takes whatever there is room for, from begin on for a span, whenever step units fit again and
// at the last moment. Steps above 1 leave some behind until then, so the last moment of each aligned
// window is one to take at as well. It ends early after maxTakes, which steps of 1 never reach, since they
// are for small quotas.
func (s *search) flood(begin, span, step int64, tell func(at, units int64)) {
	for _, m := range s.models {
		m.reset()
	}
	last := begin + span - 1
	at := begin
	for range maxTakes {
		room, wait := s.look(at, step)
		if room > 0 {
			for _, m := range s.models {
				m.charge(at, room)
			}
			tell(at, room)
			_, wait = s.look(at, step)
		}
		if at == last {
			return
		}
		next := min(at+wait, last)
		if step > 1 {
			next = s.beforeEdge(at, next)
		}
		at = next
	}
}

// look asks every model: there is room where all have some.
func (s *search) look(at, n int64) (room, wait int64) {
	s.looks++
	room = slidegate.MaxQuota
	for _, m := range s.models {
		r, w := m.look(at, n)
		room, wait = min(room, r), max(wait, w)
	}
	return room, wait
}

// beforeEdge returns the first last moment of an aligned window after a time, or next if that is earlier.
func (s *search) beforeEdge(at, next int64) int64 {
	for _, edge := range s.edges {
		moment := at - at%edge + edge - 1
		if moment == at {
			moment += edge
		}
		next = min(next, moment)
	}
	return next
}

// witness returns the best pattern in the fewest takes for which the largest steps do.
func (s *search) witness(name string) (takes []Take) {
	for step := s.smallest; ; step = max(s.step, step/2) {
		takes = takes[:0]
		units := int64(0)
		s.flood(s.begin, s.window, step, func(at, n int64) {
			takes = append(takes, Take{at, name, n})
			units += n
		})
		if units >= s.best || step == s.step {
			s.best = units
			return takes
		}
	}
}

// blocks is a heap: the highest bound first, then the smallest, then the latest, which is nearest to an edge.
type blocks []block

func (b blocks) Len() int      { return len(b) }
func (b blocks) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b blocks) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(b[j].bound, b[i].bound), cmp.Compare(b[i].n, b[j].n), cmp.Compare(b[j].first, b[i].first)) < 0
}
func (b *blocks) Push(x any) { *b = append(*b, x.(block)) }

func (b *blocks) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
