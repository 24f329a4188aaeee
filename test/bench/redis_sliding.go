package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
)

// A Sliding asks logs that stay full while they slide: each charge comes when the one of a window ago has
// just left. Charges come at uneven times.
type Sliding struct {
	redis   *Redis
	log     *Scripted
	window  time.Duration
	cost    int64
	offsets []time.Duration // of the charges, in the window
	keys    []string
	next    int // charge
	queue   queue
}

// slidingStart is a time at which windows of up to a day begin.
var slidingStart = time.UnixMilli(1_000_000_000_000).Truncate(24 * time.Hour)

// NewSliding returns logs of so many charges of a cost in a window, empty yet.
func NewSliding(r *Redis, log *Scripted, window time.Duration, charges int, cost int64, keys int) *Sliding {
	s := &Sliding{redis: r, log: log, window: window, cost: cost, offsets: uneven(window, charges)}
	log.queue = &s.queue
	for k := range keys {
		s.keys = append(s.keys, "u:"+strconv.Itoa(7+k))
	}
	return s
}

// uneven returns n times within a window, in their order.
func uneven(window time.Duration, n int) []time.Duration {
	random, step := rand.New(rand.NewPCG(seed, 5)), window/time.Duration(n)
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = (time.Duration(i)*step + time.Duration(random.Int64N(int64(step)))).Truncate(time.Millisecond)
	}
	return times
}

// Fill makes the charges of a number of windows.
func (s *Sliding) Fill(windows int) *Sliding {
	for range windows * len(s.offsets) {
		s.charge()
	}
	s.flush(true)
	return s
}

// now is when charge i is made.
func (s *Sliding) now(i int) time.Time {
	n := len(s.offsets)
	return slidingStart.Add(time.Duration(i/n)*s.window + s.offsets[i%n])
}

// charge makes the next charge of every key.
func (s *Sliding) charge() {
	s.next++
	s.ask(true)
}

// refuse asks every key again at the time of the last charge.
func (s *Sliding) refuse() { s.ask(false) }

// ask queues a request of every key at the time of the last charge, with all or none of them to be admitted.
func (s *Sliding) ask(admit bool) {
	for _, k := range s.keys {
		s.log.Take(s.now(s.next-1), k, s.cost)
	}
	if s.queue.n >= atOnce {
		s.flush(admit)
	}
}

// atOnce is about how many commands Redis finds waiting.
const atOnce = 128

func (s *Sliding) flush(admit bool) {
	want := 0
	if admit {
		want = s.queue.n
	}
	if n := s.redis.flushQueue(&s.queue, s.log.verdict); n != want {
		panic(fmt.Sprintf("bench: at charge %d %d requests are admitted, want %d", s.next, n, want))
	}
}

// Allowed returns the server's microseconds for a script that admits, over some calls.
func (s *Sliding) Allowed(calls int) float64 { return s.measure(s.charge, true, calls) }

// Denied is Allowed for a script that refuses.
func (s *Sliding) Denied(calls int) float64 { return s.measure(s.refuse, false, calls) }

// Processor returns the microseconds of CPU that the server spends on a decision that admits, or on one that refuses, over some
// calls: reading and answering included.
func (s *Sliding) Processor(admit bool, calls int) float64 {
	ask := s.refuse
	if admit {
		ask = s.charge
	}
	rounds, before := max(1, calls/len(s.keys)), s.redis.Processor()
	for range rounds {
		ask()
	}
	s.flush(admit)
	return micros(s.redis.Processor()-before) / float64(rounds*len(s.keys))
}

// Remove removes the logs.
func (s *Sliding) Remove() { must(s.redis.logs.Do("FLUSHDB")) }

func (s *Sliding) measure(ask func(), admit bool, calls int) float64 {
	n, took := s.redis.scripts()
	for range max(1, calls/len(s.keys)) {
		ask()
	}
	s.flush(admit)
	nAfter, tookAfter := s.redis.scripts()
	return micros(tookAfter-took) / float64(nAfter-n)
}

// A Packed is a log, or a counter, whose memory is measured.
type Packed struct {
	Name    string
	Limit   slidegate.Limit
	Charges int  // of one unit in a window
	Slides  bool // and it is measured after a window more
	Rival   bool // a sorted set
}

// PackedLogs returns what is measured, with times that are uneven and far apart: a day is the window. Keys are
// short: they are a part of what is measured.
func PackedLogs() (all []Packed) {
	for _, quota := range Quotas() {
		limit, slides := slidegate.PerDay(int64(quota)).Named("api"), true
		all = append(all,
			Packed{fmt.Sprintf("slidegate-log-%d", quota), limit, quota, slides, false},
			Packed{fmt.Sprintf("sorted-set-%d", quota), limit, quota, slides, true})
	}
	million := slidegate.PerDay(1_000_000).Named("api")
	million.Resolution = time.Minute
	return append(all,
		Packed{LogOfMinutes, million, 80_000, false, false},
		Packed{"slidegate-counter", slidegate.PerDay(1000).Counter().Named("api"), 400, true, false})
}

// LogOfMinutes has 80,000 of a million units a day, at a resolution of a minute.
const LogOfMinutes = "slidegate-log-80000-by-minutes"

// Quotas returns those at which logs are measured.
func Quotas() []int { return []int{10, 100, 1000, 10_000} }

// Memory returns the bytes that a log takes in Redis when it is full and has slid, and the most that it took at any
// of a hundred times and more.
func (p *Packed) Memory(r *Redis) (now, most int64) {
	log := Ours(r, "slidegate", p.Limit)
	if p.Rival {
		log = SortedSet(r, "sorted-set", p.Limit)
	}
	s, charges := NewSliding(r, log, p.Limit.Window, p.Charges, 1, 1), p.Charges
	if p.Slides {
		charges *= 2
	}
	for i := range charges {
		s.charge()
		if i%max(1, charges/200) == 0 {
			s.flush(true)
			most = max(most, r.memory(log.stored))
		}
	}
	s.flush(true)
	now = r.memory(log.stored)
	must(r.logs.Do("DEL", log.stored))
	return now, max(now, most)
}

// memory returns the bytes that a key takes, with its name and all that belongs to it.
func (r *Redis) memory(stored string) int64 {
	n, _ := must(r.logs.Do("MEMORY", "USAGE", stored, "SAMPLES", "0")).(int64)
	return n
}
