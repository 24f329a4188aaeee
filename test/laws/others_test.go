package laws

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// OthersAreNeverTouched: whatever is done to a key by a limiter, no other key stands differently, of whatever bytes, and no limit of
// another name, window or algorithm. What was never touched is full.
//
// It is promised in docs/redis.md, What is stored, and in docs/algorithms.md, Several limits.
func OthersAreNeverTouched(t *rapid.T, open opener) {
	keys, plans := relatives.Draw(t, "keys"), strangers.Draw(t, "limiters")
	w := newWorld(t, open, plans)
	spots := map[spot]*book{}
	for i, p := range plans {
		for _, key := range keys {
			spots[spot{key, i}] = &book{limits: p}
			for _, s := range statesOf(w.peek(w.limiters[0][i], key, 0)) {
				if s.Remaining != s.Limit.Quota || s.ResetIn != 0 {
					t.Fatalf("%+q was never seen, and %d of %s remain", key, s.Remaining, s.Limit)
				}
			}
		}
	}
	// others returns how all stands but one spot, in the eyes of a process.
	others := func(process int, than spot) (all []string) {
		for i := range plans {
			for _, key := range keys {
				if at := (spot{key, i}); at != than {
					all = append(all, fmt.Sprintf("%+q by %d: %+v", key, i, statesOf(w.peek(w.limiters[process][i], key, 0))))
				}
			}
		}
		return all
	}
	verbs := []verb{take, take, allow, fill, refund, reset, pass}
	if w.outage != nil {
		verbs = append(verbs, leave, come)
	}
	for _, s := range historyOf(plans, len(w.stores), verbs).Draw(t, "history") {
		at := spot{rapid.SampledFrom(keys).Draw(t, "of"), s.version}
		if s.verb == pass || s.verb == leave || s.verb == come {
			w.play(s)
			continue
		}
		before := others(s.process, at)
		w.books[at.key] = spots[at]
		w.play(s, at.key)
		w.same(others(s.process, at), before, "what is not %+q by %#v, after %#v", at.key, plans[at.limiter], s)
	}
}

// A spot is where the state of a key is, by one of the limiters.
type spot struct {
	key     string
	limiter int
}

// strangers draws two limiters that share no limit, though some are alike but for the name, the window or the algorithm.
var strangers = rapid.Custom(func(t *rapid.T) []plan {
	limit := rapid.Custom(func(t *rapid.T) slidegate.Limit {
		window := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "window")
		l := slidegate.Per(window, rapid.Int64Range(1, 9).Draw(t, "quota")).Named(anyName.Draw(t, "name"))
		if rapid.Bool().Draw(t, "counter") {
			l = l.Counter()
		}
		return l
	})
	identity := func(l slidegate.Limit) string { return fmt.Sprint(l.Name, l.Window, l.Algorithm) }
	plans := make([]plan, 2)
	named := map[string]bool{}
	for n, l := range rapid.SliceOfNDistinct(limit, 2, 6, identity).Draw(t, "limits") {
		for i := range plans {
			place := (i + n) % 2
			if name := fmt.Sprint(place, l.Name); !named[name] {
				plans[place], named[name] = append(plans[place], l), true
				break
			}
		}
	}
	return plans
})
