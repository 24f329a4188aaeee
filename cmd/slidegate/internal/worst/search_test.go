package worst

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// policyOf reads limits between spaces and names them.
func policyOf(t testing.TB, text string) []slidegate.Limit {
	t.Helper()
	policy, err := parse(strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// room is the definition of what a limit has room for at the end of arrivals, one for each millisecond
// since 0. It shares nothing with the models.
func room(l slidegate.Limit, way Way, arrivals []int64) int64 {
	now, window := int64(len(arrivals)-1), l.Window.Milliseconds()
	sum := func(from, to int64) (units int64) {
		for t := max(0, from); t < to; t++ {
			units += arrivals[t]
		}
		return units
	}
	start := now / window * window
	switch way {
	case Counter:
		return l.Quota - sum(start-window, start)*(start+window-now)/window - sum(start, now+1)
	case Fixed:
		return l.Quota - sum(start, now+1)
	case GCRA: // no span of time holds more than the burst and what comes back in it
		least := l.Quota
		for from := range now + 1 {
			least = min(least, l.Quota+(now-from)*l.Quota/window-sum(from, now+1))
		}
		return least
	}
	resolution, used := max(1, l.Resolution.Milliseconds()), int64(0)
	for t, units := range arrivals {
		recorded := (int64(t) + resolution - 1) / resolution * resolution
		if now-recorded < window {
			used += units
		}
	}
	return l.Quota - used
}

// everyPattern tries all arrivals of a span of milliseconds that a policy admits, and returns the most in one window.
func everyPattern(policy []slidegate.Limit, target int, way Way, span int64) (most int64) {
	arrivals := make([]int64, 0, span)
	window := int(policy[target].Window.Milliseconds())
	var next func()
	next = func() {
		inWindow := int64(0)
		for _, units := range arrivals[max(0, len(arrivals)-window):] {
			inWindow += units
		}
		if most = max(most, inWindow); len(arrivals) == cap(arrivals) {
			return
		}
		arrivals = append(arrivals, 0)
		free := int64(slidegate.MaxQuota)
		for i, l := range policy {
			counted := Way(l.Algorithm.String())
			if i == target {
				counted = way
			}
			free = min(free, room(l, counted, arrivals))
		}
		for units := range max(0, free) + 1 {
			arrivals[len(arrivals)-1] = units
			next()
		}
		arrivals = arrivals[:len(arrivals)-1]
	}
	next()
	return most
}

// A tiny is a policy of which all patterns can be tried, of as many milliseconds as make a period of the edges
// and two windows, or nearly so.
type tiny struct {
	policy string
	span   int64
}

// somePolicies returns policies of three limits of all kinds, drawn.
func somePolicies() (all []tiny) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		var b strings.Builder
		for i := range 3 {
			window := 1 + rng.IntN(4)
			kind := []string{"", ",counter", fmt.Sprintf(",resolution=%dms", 1+rng.IntN(window))}[rng.IntN(3)]
			fmt.Fprintf(&b, " %d=%d/%dms%s", i, 1+rng.IntN(3), window, kind)
		}
		all = append(all, tiny{b.String(), 12})
	}
	return all
}

// TestTheSearchFindsTheTrueMaximum: of all patterns that there are, with and without a past, none gets
// more through a window, and the search knows it.
func TestTheSearchFindsTheTrueMaximum(t *testing.T) {
	for _, c := range append(somePolicies(), []tiny{
		{"1/1ms", 6}, {"3/1ms", 6}, {"2/2ms", 7}, {"5/2ms", 6}, {"1/3ms", 12}, {"2/3ms", 11}, {"3/3ms", 10},
		{"4/3ms", 8}, {"1/4ms", 14}, {"2/4ms", 12}, {"3/4ms", 9}, {"1/5ms", 15}, {"2/5ms", 13}, {"1/6ms", 18},
		{"2/4ms,resolution=2ms", 12}, {"2/3ms,resolution=2ms", 12},
		{"a=1/2ms b=2/4ms", 14}, {"a=1/2ms b=2/4ms,counter", 14}, {"a=1/2ms,counter b=2/3ms,counter", 14},
		{"a=2/3ms b=2/4ms,counter", 15}, {"a=1/3ms,resolution=3ms b=2/4ms", 17}, {"a=1/2ms b=3/5ms,counter c=2/3ms", 15},
	}...) {
		policy := policyOf(t, c.policy)
		for target := range policy {
			for _, way := range Ways() {
				found, err := Search(policy, target, way)
				if err != nil {
					t.Fatal(err)
				}
				if most := everyPattern(policy, target, way, c.span); found.Worst != most || found.Bound != most {
					t.Errorf("%s, limit %d by %s: found %d of at most %d, the true maximum is %d", c.policy, target, way, found.Worst, found.Bound, most)
				}
			}
		}
	}
}

// TestALimitAloneReachesItsBound, which is the one that docs/worst.md argues for, at any size.
func TestALimitAloneReachesItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		l := slidegate.Limit{Quota: magnitude(rng, slidegate.MaxQuota), Window: time.Duration(magnitude(rng, slidegate.MaxWindow.Milliseconds())) * time.Millisecond}
		q, w := l.Quota, l.Window.Milliseconds()
		want := map[Way]int64{Log: q, Counter: max(q, 2*q-2*q/w), Fixed: 2 * q, GCRA: 2*q - (q+w-1)/w}
		if w == 1 {
			want[Fixed] = q
		}
		for _, way := range Ways() {
			found, err := Search([]slidegate.Limit{l.Named("a")}, 0, way)
			if err != nil || found.Worst != want[way] || found.Bound != want[way] || len(found.Witness) > 3 {
				t.Errorf("%s by %s: %d of at most %d in %d takes, %v; want %d", l, way, found.Worst, found.Bound, len(found.Witness), err, want[way])
			}
		}
	}
}

// magnitude returns a number from 1 to most, of every magnitude alike.
func magnitude(rng *rand.Rand, most int64) int64 {
	n := int64(1)
	for n <= most/10 && rng.IntN(9) > 0 {
		n *= 10
	}
	return 1 + rng.Int64N(min(most, 10*n))
}

// policies are such as people have, and some that nobody has.
var policies = []string{
	"100/2s", "100/2s,counter", "100/2s,resolution=500ms", "7/13ms,counter", "1000000000/1h,counter", "1000000/1d",
	"burst=10/1s sustained=100/1m", "burst=10/1s sustained=100/1m,counter", "a=5/1s,counter b=30/1m,counter c=1000/1d,counter",
	"a=7/7s,counter b=11/13s,counter c=20/31s,counter d=50/101s,counter", "a=3/100ms b=20/1s,resolution=50ms c=100/10s,counter",
	"burst=1000/1s,counter hour=1000000/1h,counter",
	"a=1/1s b=2/3s c=3/5s d=4/8s e=5/13s,counter f=6/21s g=7/34s h=8/55s,counter",
}

// TestTheWitnessIsAdmitted by the command that people check it with: every take of it, and together they are
// what was said, within one window.
func TestTheWitnessIsAdmitted(t *testing.T) {
	for _, text := range policies {
		policy := policyOf(t, text)
		for target, limit := range policy {
			for _, way := range []Way{Log, Counter} {
				found, err := within(20_000, policy, target, way)
				if err != nil {
					t.Fatal(err)
				}
				counted := slices.Clone(policy)
				counted[target].Algorithm = slidegate.SlidingLog
				if way == Counter {
					counted[target].Algorithm, counted[target].Resolution = slidegate.SlidingCounter, 0
				}
				checkWitness(t, fmt.Sprintf("%s, %s by %s", text, limit, way), &found, limit.Window)
				if got := replayed(t, counted, found.Witness); got != found.Worst {
					t.Errorf("%s, %s by %s: the replay admits %d, the search says %d", text, limit, way, got, found.Worst)
				}
			}
		}
	}
}

// checkWitness checks what needs no limiter: the sum, the order, the window, the bounds.
func checkWitness(t *testing.T, name string, f *Found, window time.Duration) {
	t.Helper()
	units, before := int64(0), int64(-1)
	for _, take := range f.Witness {
		if take.T <= before || take.Cost < 1 {
			t.Fatalf("%s: %+v after %d", name, take, before)
		}
		units, before = units+take.Cost, take.T
	}
	if units != f.Worst || f.Worst > f.Bound || before-f.Witness[0].T >= window.Milliseconds() || len(f.Witness) > maxTakes {
		t.Errorf("%s: %d takes of %d units until %d; said are %d of at most %d", name, len(f.Witness), units, before, f.Worst, f.Bound)
	}
}

// replayed returns how many units slidegate replay --verdicts admits.
func replayed(t *testing.T, policy []slidegate.Limit, witness []Take) (admitted int64) {
	t.Helper()
	var events, verdicts bytes.Buffer
	for e := json.NewEncoder(&events); len(witness) > 0; witness = witness[1:] {
		if err := e.Encode(witness[0]); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--verdicts", "--format", "jsonl", "-"}
	for _, l := range policy {
		args = append(args, "--limit", l.String())
	}
	cmd := replay.Command()
	cmd.SetArgs(args)
	cmd.SetIn(&events)
	cmd.SetOut(&verdicts)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(&verdicts); d.More(); {
		var v struct {
			Allowed bool
			Cost    int64
		}
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if v.Allowed {
			admitted += v.Cost
		}
	}
	return admitted
}

// TestTheSameIsFoundAgain, take for take.
func TestTheSameIsFoundAgain(t *testing.T) {
	policy := policyOf(t, "a=7/7s,counter b=11/13s,counter c=20/31s,counter")
	for _, way := range Ways() {
		first, _ := within(20_000, policy, 2, way)
		if again, err := within(20_000, policy, 2, way); err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%s: %v, and then %v, %v", way, first, again, err)
		}
	}
}

// TestPoliciesOfCountersAreSearchedToTheEnd where windows lie in one another, though there are millions of beginnings.
func TestPoliciesOfCountersAreSearchedToTheEnd(t *testing.T) {
	policy := policyOf(t, "burst=10/1s hour=1000/1h,counter day=10000/1d,counter")
	for target, want := range map[int]int64{0: 20, 2: 16239} {
		if found, err := Search(policy, target, Counter); err != nil || found.Worst != want || found.Bound != want {
			t.Errorf("%s: %d of at most %d, %v; want %d", policy[target], found.Worst, found.Bound, err, want)
		}
	}
}

// TestLargeQuotasAreTakenBeforeTheEdge: what is left behind between portions is not left to the next window.
func TestLargeQuotasAreTakenBeforeTheEdge(t *testing.T) {
	policy := policyOf(t, "burst=1000/1s,counter hour=1000000/1h,counter")
	if found, err := Search(policy, 1, Fixed); err != nil || found.Worst != 2_000_000 || found.Bound != 2_000_000 {
		t.Errorf("%d of at most %d, %v", found.Worst, found.Bound, err)
	}
}

// TestWaitsOfTheModelsAreTight: n units fit when the wait is over, and not a millisecond earlier.
func TestWaitsOfTheModelsAreTight(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		quota, window := 1+rng.Int64N(20), 1+rng.Int64N(20)
		for _, m := range []model{&fixed{quota: quota, window: window}, &gcra{quota: quota, window: window}} {
			at := rng.Int64N(50)
			for range 5 {
				at += rng.Int64N(window + 1)
				n := 1 + rng.Int64N(quota)
				room, wait := m.look(at, n)
				if (room >= n) != (wait == 0) {
					t.Fatalf("%+v at %d: room %d and a wait of %d for %d", m, at, room, wait, n)
				}
				for later := max(0, wait-1); later <= wait; later++ {
					if then, _ := m.look(at+later, n); (then >= n) != (later == wait) {
						t.Fatalf("%+v at %d: room %d after %d, the wait for %d is %d", m, at, then, later, n, wait)
					}
				}
				at += wait
				m.charge(at, n)
			}
		}
	}
}

// TestASearchEndsAndSaysWhatItDoesNotKnow: too many takes for a witness, and too many beginnings to try.
func TestASearchEndsAndSaysWhatItDoesNotKnow(t *testing.T) {
	for text, target := range map[string]int{
		"burst=10/1s year=1000000000/365d": 1,
		"a=1000/999ms,counter b=90000/99991ms,counter c=1000000/3599999ms,counter d=9000000/86399999ms,counter": 3,
	} {
		policy := policyOf(t, text)
		found, err := within(20_000, policy, target, Counter)
		if err != nil {
			t.Fatal(err)
		}
		checkWitness(t, text, &found, policy[target].Window)
		if found.Bound <= found.Worst {
			t.Errorf("%s: %d is given for the maximum", text, found.Worst)
		}
	}
}

// TestCoversBoundTheWhole: what a short limit lets through as often as its windows cover the long one's.
func TestCoversBoundTheWhole(t *testing.T) {
	for _, c := range []struct {
		policy string
		want   int64
	}{
		{"a=10/1s b=1000000/1m", 600}, {"a=10/1s b=1000000/61s", 610}, {"a=10/1s b=605/1m", 600}, {"a=10/999ms b=1000000/1s", 20}, {"a=10/1s,counter b=1000000/1m", 1200},
		{"a=1/1ms b=1000000000000/3650d", 315_360_000_000}, {"a=1000000000000/1ms b=1000000000000/3650d", 1_000_000_000_000},
	} {
		if got := Bound(policyOf(t, c.policy), 1, Log); got != c.want {
			t.Errorf("%s: %d, want %d", c.policy, got, c.want)
		}
	}
}
