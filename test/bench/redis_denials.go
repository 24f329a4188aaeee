package bench

import (
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/wrap"
)

// The names of the two who bear an [Attack].
const (
	Asked      = "slidegate-log-asked"
	Remembered = "slidegate-log-remembered"
)

// An Attack is many callers of whom most are refused: nine requests of ten come from ten keys that have used up their quota
// of an hour, the rest from everybody else.
type Attack struct {
	Callers int
	For     time.Duration
}

// A Bout is how a limiter bore an attack.
type Bout struct {
	Decisions int
	Count     [Failed + 1]int // by verdict
	Took      time.Duration   // a decision, by the wall clock
	Calls     float64         // of the store, a decision
}

// Bear measures our log in Redis, with its refusals remembered or not.
func (a Attack) Bear(r *Redis, remembered bool) Bout {
	r.flush()
	client, stop := throughRueidis(r.Addr)
	defer stop()
	var store slidegate.Store = redisstore.New(client, redisstore.WithTimeout(3*time.Second))
	answered := func() uint64 { return 0 }
	if remembered {
		denials := wrap.Denials(store)
		store, answered = denials, func() uint64 { return denials.Stats().Answered }
	}
	l := Limiter{Take: take(slidegate.MustNew(store, slidegate.PerHour(100)))}
	keys := attackKeys()
	for range 101 {
		for _, refused := range keys[:10] {
			l.Take(refused)
		}
	}
	before, start := answered(), time.Now()
	b := a.drive(l, keys, start.Add(a.For))
	b.Took = time.Since(start) / time.Duration(b.Decisions)
	b.Calls = 1 - float64(answered()-before)/float64(b.Decisions)
	return b
}

// attackKeys returns the ten keys that are refused, and then everybody else.
func attackKeys() (keys []string) {
	for i := range 10_010 {
		keys = append(keys, Key(i))
	}
	return keys
}

func (a Attack) drive(l Limiter, keys []string, until time.Time) (b Bout) {
	var done sync.WaitGroup
	var mu sync.Mutex
	for i := range a.Callers {
		done.Go(func() {
			var count [Failed + 1]int
			for n := i * 10_000 / a.Callers; ; n++ {
				key := keys[n%10]
				if n%10 == 9 {
					key = keys[10+n/10%10_000]
				}
				v, _ := l.Take(key)
				count[v]++
				if n%10 == 0 && !time.Now().Before(until) {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for v, n := range count {
				b.Count[v] += n
				b.Decisions += n
			}
		})
	}
	done.Wait()
	return b
}
