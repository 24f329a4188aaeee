package rls_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
)

const plain = `
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: token
    rate_limit: {unit: hour, requests_per_unit: 1000}
  - key: free
    rate_limit: {unlimited: true}
  - key: none
    rate_limit: {unit: day, requests_per_unit: 0}
`

// TestWaitsAreOurOwn: a window slides, so it is over when the hit that is in the way leaves it, and in whole seconds.
func TestWaitsAreOurOwn(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	first := r.ask(entries("a=x")).GetStatuses()[0]
	if first.GetCode() != ok || first.GetDurationUntilReset().GetSeconds() != 60 || first.GetCurrentLimit().GetUnit() != pb.RateLimitResponse_RateLimit_MINUTE {
		t.Errorf("the first: %v", first)
	}
	r.clock.advance(20*time.Second + 1*time.Millisecond)
	if second := r.ask(entries("a=x")).GetStatuses()[0]; second.GetCode() != over || second.GetDurationUntilReset().GetSeconds() != 40 {
		t.Errorf("the second: %v", second)
	}
	r.clock.advance(39*time.Second + 998*time.Millisecond)
	if third := r.ask(entries("a=x")).GetStatuses()[0]; third.GetCode() != over || third.GetDurationUntilReset().GetSeconds() != 1 {
		t.Errorf("a millisecond early: %v", third)
	}
	r.clock.advance(time.Millisecond)
	r.expect("after the wait", ok, codes(ok), entries("a=x"))
	r.expect("another value", ok, codes(ok), entries("a=y"))
}

// TestEachDescriptorForItself: one that is over its limit keeps no other from being charged.
func TestEachDescriptorForItself(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	for i, overall := range codes(ok, over, over) {
		r.expect(fmt.Sprintf("request %d", i+1), overall, codes(overall, ok), entries("a=x"), entries("b=y"))
	}
	if left := r.left("b=y"); left != 7 {
		t.Errorf("%d left of 10 after three requests", left)
	}
}

// TestWhatIsNotLimited is OK, without a limit, and charges nothing.
func TestWhatIsNotLimited(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	for _, text := range []string{"other=x", "a=x,b=y", "free=x"} {
		for range 3 {
			answer := r.ask(entries(text))
			st := answer.GetStatuses()[0]
			if answer.GetOverallCode() != ok || st.GetCode() != ok || st.GetCurrentLimit() != nil || st.GetDurationUntilReset() != nil {
				t.Errorf("%s: %v", text, answer)
			}
			if want := map[bool]uint32{true: 1<<32 - 1}[text == "free=x"]; st.GetLimitRemaining() != want {
				t.Errorf("%s: %d remaining, want %d", text, st.GetLimitRemaining(), want)
			}
		}
	}
	answer, err := r.try(&pb.RateLimitRequest{Domain: "elsewhere", Descriptors: r.descriptors("a=x")})
	if err != nil || answer.GetOverallCode() != ok || len(answer.GetStatuses()) != 1 {
		t.Errorf("an unknown domain: %v, %v", answer, err)
	}
}

func (r *rig) descriptors(texts ...string) (all []*ratelimitv3.RateLimitDescriptor) {
	for _, text := range texts {
		all = append(all, entries(text))
	}
	return all
}

// TestNothingFitsALimitOfZero, not even a look.
func TestNothingFitsALimitOfZero(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	r.expect("a hit", over, codes(over), entries("none=x"))
	r.expect("a look", over, codes(over), hits(0, "none=x"))
	r.expect("a refund", ok, codes(ok), hits(-1, "none=x"))
	if st := r.ask(entries("none=x")).GetStatuses()[0]; st.GetDurationUntilReset().GetSeconds() != 86400 || st.GetCurrentLimit() == nil {
		t.Errorf("%v, want the limit and a wait of a day", st)
	}
}

// TestRequestsThatCannotBeDecided are errors that say what is allowed.
func TestRequestsThatCannotBeDecided(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	override := func(unit typev3.RateLimitUnit, multiplier uint32) []*ratelimitv3.RateLimitDescriptor {
		d := entries("a=x")
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: unit, UnitMultiplier: wrapperspb.UInt32(multiplier)}
		return []*ratelimitv3.RateLimitDescriptor{d}
	}
	for _, c := range []struct {
		domain string
		d      []*ratelimitv3.RateLimitDescriptor
		want   string
	}{
		{"", r.descriptors("a=x"), "rate limit domain must not be empty"},
		{"d", nil, "rate limit descriptor list must not be empty"},
		{"d", make([]*ratelimitv3.RateLimitDescriptor, 1001), "1001 descriptors: allowed are 1 to 1000"},
		{"d", override(typev3.RateLimitUnit_UNKNOWN, 1), "the unit UNKNOWN of a limit: allowed is SECOND, MINUTE, HOUR, DAY, MONTH or YEAR"},
		{"d", override(typev3.RateLimitUnit_DAY, 0), "the unit_multiplier 0 of a limit in units of a day: allowed is 1 to 3650"},
		{"d", override(typev3.RateLimitUnit_DAY, 3651), "the unit_multiplier 3651 of a limit"},
	} {
		_, err := r.try(&pb.RateLimitRequest{Domain: c.domain, Descriptors: c.d})
		if status.Code(err) != grpccodes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestLimitsOfRequests win over those of rules and count under the same key; where nothing is configured they count as well.
func TestLimitsOfRequests(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	with := func(text string, requests uint32, multiplier *wrapperspb.UInt32Value) *ratelimitv3.RateLimitDescriptor {
		d := entries(text)
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: multiplier}
		return d
	}
	r.expect("by the rule", ok, codes(ok), entries("a=x"))
	st := r.ask(with("a=x", 5, nil)).GetStatuses()[0]
	if st.GetCode() != ok || st.GetLimitRemaining() != 3 || st.GetCurrentLimit().GetRequestsPerUnit() != 5 || st.GetCurrentLimit().GetUnitMultiplier() != nil {
		t.Errorf("by the request: %v", st)
	}
	r.expect("by the rule again", over, codes(over), entries("a=x"))
	r.expect("nothing at all", over, codes(over), with("a=x", 0, nil))
	r.expect("not configured", ok, codes(ok), with("any=1", 1, nil))
	r.expect("not configured, again", over, codes(over), with("any=1", 1, nil))
	st = r.ask(with("any=1", 1, wrapperspb.UInt32(30))).GetStatuses()[0]
	if st.GetCode() != ok || st.GetDurationUntilReset().GetSeconds() != 1800 || st.GetCurrentLimit().GetUnitMultiplier().GetValue() != 30 {
		t.Errorf("in thirty minutes: %v", st)
	}
}

// TestALookChangesNothing, and says whether there is room for one.
func TestALookChangesNothing(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	for range 3 {
		r.expect("before", ok, codes(ok), hits(0, "a=x"))
	}
	r.expect("a hit", ok, codes(ok), entries("a=x"))
	r.expect("after", over, codes(over), hits(0, "a=x"))
}

// TestUsageThatIsReportedWhenItIsOver: what no longer fits uses up what is left, so that looks refuse from then on, however
// large the reports are.
func TestUsageThatIsReportedWhenItIsOver(t *testing.T) {
	for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		r := inMemory(t, plain, rls.Options{Algorithm: algorithm})
		r.expect("room for all", ok, codes(ok), hits(990, "token=u"))
		r.expect("a look", ok, codes(ok), hits(0, "token=u"))
		st := r.ask(hits(200, "token=u")).GetStatuses()[0]
		if st.GetCode() != over || st.GetLimitRemaining() != 0 {
			t.Errorf("%s: room for ten of two hundred: %v", algorithm, st)
		}
		r.expect("a look", over, codes(over), hits(0, "token=u"))
		r.expect("more than ever fits", over, codes(over), hits(5000, "token=v"))
		r.expect("a look", over, codes(over), hits(0, "token=v"))
	}
}

// TestTheWaitOfWhatUsedUpTheRest is that until the same fits.
func TestTheWaitOfWhatUsedUpTheRest(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	r.ask(hits(990, "token=u"))
	r.clock.advance(30 * time.Minute)
	for _, c := range []struct{ hits, wait int64 }{{200, 1800}, {1000, 3600}, {5000, 3600}} {
		if st := r.ask(hits(c.hits, "token=u")).GetStatuses()[0]; st.GetDurationUntilReset().GetSeconds() != c.wait {
			t.Errorf("%d hits: wait %s, want %d s", c.hits, st.GetDurationUntilReset().AsDuration(), c.wait)
		}
	}
}

// TestWhatWasOverIsOver, also where there is room again before the answer is made.
func TestWhatWasOverIsOver(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	r.ask(hits(990, "token=u"))
	r.clock.step.Store(time.Hour.Milliseconds() / 2)
	r.clock.advance(time.Minute)
	r.expect("as it leaves", over, codes(over), hits(200, "token=u"))
}

const modes = `
domain: d
descriptors:
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: q1
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: q2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: base
    rate_limit: {unit: minute, requests_per_unit: 1, name: base}
  - key: more
    rate_limit: {unit: minute, requests_per_unit: 5, name: more, replaces: [{name: base}]}
`

// TestModes: what is in shadow mode never refuses nor keeps others from refusing; rules in quota mode refuse only together.
func TestModes(t *testing.T) {
	for name, o := range map[string]rls.Options{"each": {}, "together": {Together: true}, "remote": {Remote: true}, "together, remote": {Together: true, Remote: true}} {
		t.Run(name, func(t *testing.T) {
			r := inMemory(t, modes, o)
			for i := range 3 {
				r.expect(fmt.Sprintf("shadow %d", i), ok, codes(ok, ok), entries("shadow=x"), entries("plain=x"))
			}
			if st := r.ask(entries("shadow=x")).GetStatuses()[0]; st.GetLimitRemaining() != 0 || st.GetDurationUntilReset().GetSeconds() < 1 {
				t.Errorf("a shadow over its limit: %v", st)
			}
			r.expect("plain", over, codes(ok, over), entries("shadow=x"), entries("plain=x"))

			r.expect("both quotas", ok, codes(ok, ok), entries("q1=x"), entries("q2=x"))
			r.expect("one quota", ok, codes(over, ok), entries("q1=x"), entries("q2=x"))
			r.expect("no quota", over, codes(over, over), entries("q1=x"), entries("q2=x"))

			for i := range 3 {
				r.expect(fmt.Sprintf("replaced %d", i), ok, codes(ok, ok), entries("base=x"), entries("more=x"))
			}
			if left := r.left("base=x"); left != 1 {
				t.Errorf("%d left of what was replaced", left)
			}
		})
	}
}

// TestModesOfAll rules: quota mode, and shadow mode, which leaves the statuses as they are.
func TestModesOfAll(t *testing.T) {
	r := inMemory(t, plain, rls.Options{Quota: true})
	r.expect("one of two left", ok, codes(ok, ok), entries("a=x"), entries("b=x"))
	r.expect("one of two left", ok, codes(over, ok), entries("a=x"), entries("b=x"))
	r.expect("none", over, codes(over), entries("a=x"))
	r = inMemory(t, plain, rls.Options{Shadow: true, Headers: &rls.DefaultHeaders})
	r.expect("shadow", ok, codes(ok), entries("a=x"))
	r.expect("shadow", ok, codes(over), entries("a=x"))
	if answer := r.ask(entries("a=x")); len(answer.GetResponseHeadersToAdd()) != 3 {
		t.Errorf("%v: a request that passes is told when to retry", answer)
	}
}

// TestTogether: a refused request is charged for in no descriptor, and each status still says how it stands.
func TestTogether(t *testing.T) {
	for name, c := range map[string]struct {
		first, others []*ratelimitv3.RateLimitDescriptor // the last of others refuses the second time
		left          map[string]uint32
	}{
		"in one act":        {nil, []*ratelimitv3.RateLimitDescriptor{entries("b=x"), entries("a=x")}, map[string]uint32{"b=x": 9}},
		"different hits":    {nil, []*ratelimitv3.RateLimitDescriptor{hits(3, "b=x"), entries("a=x")}, map[string]uint32{"b=x": 7}},
		"one rule twice":    {nil, []*ratelimitv3.RateLimitDescriptor{entries("b=x"), entries("b=y"), entries("a=x")}, map[string]uint32{"b=x": 9, "b=y": 9}},
		"one key twice":     {nil, []*ratelimitv3.RateLimitDescriptor{entries("b=x"), entries("b=x"), entries("a=x")}, map[string]uint32{"b=x": 8}},
		"a look that fails": {[]*ratelimitv3.RateLimitDescriptor{entries("a=x")}, []*ratelimitv3.RateLimitDescriptor{entries("b=x"), hits(0, "a=x")}, map[string]uint32{"b=x": 9}},
		"a refund":          {nil, []*ratelimitv3.RateLimitDescriptor{hits(2, "token=x"), hits(-1, "token=x"), entries("a=x")}, map[string]uint32{"token=x": 999}},
		"many": {nil, []*ratelimitv3.RateLimitDescriptor{entries("b=1"), entries("b=2"), entries("b=3"), entries("b=4"), entries("b=5"), entries("b=6"), entries("b=7"), entries("b=8"), entries("b=9"), entries("a=x")},
			map[string]uint32{"b=1": 9, "b=9": 9}},
	} {
		t.Run(name, func(t *testing.T) {
			r := inMemory(t, plain, rls.Options{Together: true})
			all := make([]pb.RateLimitResponse_Code, len(c.others))
			for i := range all {
				all[i] = ok
			}
			if c.first == nil {
				r.expect("the first", ok, all, c.others...)
			} else {
				r.expect("the first", ok, codes(ok), c.first...)
				r.expect("the rest of the first", ok, codes(ok), c.others[0])
			}
			all[len(all)-1] = over
			for range 3 {
				r.expect("refused", over, all, c.others...)
			}
			for text, want := range c.left {
				if got := r.left(text); got != want {
					t.Errorf("%d left of %s, want %d", got, text, want)
				}
			}
		})
	}
	r := inMemory(t, plain, rls.Options{Together: true})
	r.ask(entries("a=x"))
	if st := r.ask(hits(3, "b=x"), entries("a=x")).GetStatuses()[0]; st.GetCode() != ok || st.GetLimitRemaining() != 10 {
		t.Errorf("%v: it shows what was given back", st)
	}
	r.expect("more than ever fits", over, codes(ok, over), entries("b=x"), hits(1001, "token=x"))
	if b, token := r.left("b=x"), r.left("token=x"); b != 10 || token != 1000 {
		t.Errorf("%d and %d left: something was charged", b, token)
	}
}

// TestTogetherIsExact: of many requests at once over two limits the tighter admits as many as it may, and the other is
// charged for those.
func TestTogetherIsExact(t *testing.T) {
	r := inMemory(t, plain, rls.Options{Together: true})
	if n := r.storm(30, entries("b=x"), entries("token=x")); n != 10 {
		t.Errorf("%d admitted, want 10", n)
	}
	if left := r.left("token=x"); left != 990 {
		t.Errorf("%d left, want 990", left)
	}
}

// storm sends a request many times at once, and returns how many were admitted.
func (r *rig) storm(n int, descriptors ...*ratelimitv3.RateLimitDescriptor) int64 {
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			answer, err := r.try(&pb.RateLimitRequest{Domain: "d", Descriptors: descriptors})
			if err != nil {
				r.Error(err)
			} else if answer.GetOverallCode() == ok {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	return admitted.Load()
}

// TestUnits: weeks, months and years are of 7, 30 and 365 days, and a large limit has few entries and no less.
func TestUnits(t *testing.T) {
	for unit, seconds := range map[string]int64{"second": 1, "MINUTE": 60, "Hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400, "year": 365 * 86400} {
		r := inMemory(t, fmt.Sprintf("domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: %s, requests_per_unit: 2}\n", unit), rls.Options{})
		st := r.ask(entries("a=x")).GetStatuses()[0]
		if st.GetDurationUntilReset().GetSeconds() != seconds || !strings.EqualFold(st.GetCurrentLimit().GetUnit().String(), unit) {
			t.Errorf("%s: %v", unit, st)
		}
	}
	r := inMemory(t, "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1000000}\n", rls.Options{})
	r.expect("a million", ok, codes(ok), hits(1_000_000, "a=x"))
	r.clock.advance(24*time.Hour - time.Second)
	r.expect("a second before the day is over", over, codes(over), hits(1, "a=x"))
	r.clock.advance(time.Second + 24*time.Hour/1000)
	r.expect("a thousandth after it", ok, codes(ok), hits(1_000_000, "a=x"))
}

// TestASharedThreshold is one counter for all that the wildcard matches, and for nothing else.
func TestASharedThreshold(t *testing.T) {
	const text = "domain: d\ndescriptors:\n  - key: PATH\n    value: /api/*\n    share_threshold: %v\n    rate_limit: {unit: minute, requests_per_unit: 2}\n"
	shared, apart := inMemory(t, fmt.Sprintf(text, true), rls.Options{}), inMemory(t, fmt.Sprintf(text, false), rls.Options{})
	for _, c := range []struct {
		path string
		want pb.RateLimitResponse_Code
	}{{"/api/feed", ok}, {"/api/x", ok}, {"/api/y", over}, {"/other", ok}} {
		shared.expect(c.path, c.want, codes(c.want), entries("PATH="+c.path))
		apart.expect(c.path, ok, codes(ok), entries("PATH="+c.path))
	}
}
