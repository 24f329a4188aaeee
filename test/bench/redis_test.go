package bench_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/bench"
)

func onRedis(t testing.TB) (*bench.Redis, []bench.Contender) {
	r := bench.NewRedis(t)
	return r, bench.RedisContenders(func() string { return r.Addr })
}

func TestRedisContendersDecideAlike(t *testing.T) {
	_, contenders := onRedis(t)
	for _, c := range contenders {
		l := c.Open(5, 24*time.Hour)
		var count [bench.Failed + 1]int
		for range 8 {
			v, _ := l.Take(c.Name)
			count[v]++
		}
		l.Close()
		if count != [...]int{bench.Denied: 3, bench.Allowed: 5, bench.Failed: 0} {
			t.Errorf("%s: of 8 decisions at a quota of 5 so many were denied, allowed and failed: %v", c.Name, count)
		}
	}
}

// TestRedisLoads also says what is promised of every decision by itself: one short script.
func TestRedisLoads(t *testing.T) {
	r, contenders := onRedis(t)
	for _, w := range bench.Loads() {
		w.For, w.Keys = 20*time.Millisecond, w.Keys[:100]
		for _, c := range contenders {
			p, err := w.Run(r, c)
			if err != nil {
				t.Error(err)
			}
			if p.Count[bench.Allowed] != p.Decisions || p.Decisions < w.Callers {
				t.Errorf("%s, %s: of %d decisions so many were denied, allowed and failed: %v", w.Name, c.Name, p.Decisions, p.Count)
			}
			for _, f := range bench.Figures() {
				if f.Of(&p) <= 0 {
					t.Errorf("%s, %s: %s is %v", w.Name, c.Name, f.Name, f.Of(&p))
				}
			}
			promises(t, w, c.Name, &p)
		}
	}
}

func promises(t *testing.T, w bench.Load, contender string, p *bench.Pace) {
	alone := w.Callers == 1 || strings.HasSuffix(contender, "-alone")
	if !bench.IsOurs(contender) || !alone {
		return
	}
	if p.Scripts != 1 {
		t.Errorf("%s, %s: %v scripts a decision, want 1", w.Name, contender, p.Scripts)
	}
	// What INFO takes is a part of the bytes; among few decisions it would be much.
	if p.Decisions > 500 && p.Bytes > 300+10_000/float64(p.Decisions) {
		t.Errorf("%s, %s: %.0f bytes a decision, want at most 300", w.Name, contender, p.Bytes)
	}
}

func TestSortedSetAnswersAsOurLog(t *testing.T) {
	r, random := bench.NewRedis(t), rand.New(rand.NewPCG(1, 2))
	limit := slidegate.Per(time.Minute, 7) // keys expire by the server's clock
	ours, rival := bench.Ours(r, "slidegate", limit), bench.SortedSet(r, "sorted-set", limit)
	for now, i := time.UnixMilli(1e12), 0; i < 2000; i++ {
		now = now.Add(time.Duration(random.IntN(12_000)) * time.Millisecond)
		cost := int64(1 + random.IntN(3))
		if our, their := ours.Take(now, "somebody", cost), rival.Take(now, "somebody", cost); our != their {
			t.Fatalf("request %d of cost %d: ours answers %+v, the sorted set %+v", i, cost, our, their)
		}
	}
}

func TestScriptsAreMeasured(t *testing.T) {
	r, limit := bench.NewRedis(t), slidegate.PerHour(10)
	for name, log := range map[string]*bench.Scripted{
		"ours":       bench.Ours(r, "slidegate", limit, slidegate.Per(2*time.Hour, 20)),
		"sorted set": bench.SortedSet(r, "sorted-set", limit),
	} {
		s := bench.NewSliding(r, log, time.Hour, 10, 1, 2).Fill(2)
		if allowed, denied := s.Allowed(50), s.Denied(50); allowed <= 0 || denied <= 0 {
			t.Errorf("%s: %v µs to admit and %v µs to refuse", name, allowed, denied)
		}
	}
}

func TestRedisLogsArePacked(t *testing.T) {
	r := bench.NewRedis(t)
	for _, p := range bench.PackedLogs() {
		if p.Rival && p.Charges > 100 {
			continue
		}
		now, most := p.Memory(r)
		t.Logf("%s: %d bytes, and %d at most", p.Name, now, most)
		for part, got := range map[string]int64{"redis-memory": now, "redis-memory-most": most} {
			if want, ok := bench.Most(part, p.Name); got < 1 || ok && float64(got) > want {
				t.Errorf("%s of %s: %d bytes, want at most %v", part, p.Name, got, want)
			}
		}
	}
}

// TestAnAttackIsRememberedAndRefused as it is without: the same share, for a tenth of the calls.
func TestAnAttackIsRememberedAndRefused(t *testing.T) {
	r := bench.NewRedis(t)
	attack := bench.Attack{Callers: 4, For: 100 * time.Millisecond}
	for _, remembered := range []bool{false, true} {
		b := attack.Bear(r, remembered)
		if b.Count[bench.Failed] > 0 || b.Count[bench.Denied]*10 < b.Decisions*8 || b.Count[bench.Allowed] == 0 {
			t.Errorf("remembered %v: of %d so many were denied, allowed and failed: %v", remembered, b.Decisions, b.Count)
		}
		if most := map[bool]float64{false: 1, true: 0.2}[remembered]; b.Calls > most {
			t.Errorf("remembered %v: %v calls a decision, want at most %v", remembered, b.Calls, most)
		}
	}
}
