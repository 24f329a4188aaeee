package laws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// A plan is the limits of a limiter.
type plan []slidegate.Limit

// GoString writes a plan as a failure shows it.
func (p plan) GoString() string {
	texts := make([]string, len(p))
	for i, l := range p {
		texts[i] = l.String()
	}
	return strings.Join(texts, " ")
}

// smallest returns the largest cost that every limit can ever admit.
func (p plan) smallest() int64 {
	return slices.MinFunc(p, func(a, b slidegate.Limit) int { return int(max(-1, min(1, a.Quota-b.Quota))) }).Quota
}

// with returns the plan with every quota replaced.
func (p plan) with(quota func(int64) int64) plan {
	p = slices.Clone(p)
	for i := range p {
		p[i].Quota = quota(p[i].Quota)
	}
	return p
}

// Windows, in milliseconds, and quotas: mostly so small that a few requests fill them, and of every size.
var (
	anyWindow = rapid.OneOf(
		rapid.Int64Range(1, 8), rapid.Int64Range(1, 60), rapid.Int64Range(1, 5000), rapid.Int64Range(1, 5000),
		rapid.Int64Range(1, slidegate.MaxWindow.Milliseconds()), rapid.Just(slidegate.MaxWindow.Milliseconds()),
	)
	shortWindow = rapid.Int64Range(1, 20)
	anyQuota    = rapid.OneOf(
		rapid.Int64Range(1, 4), rapid.Int64Range(1, 12), rapid.Int64Range(1, 12), rapid.Int64Range(1, 1000),
		rapid.Int64Range(1, slidegate.MaxQuota), rapid.Just(int64(slidegate.MaxQuota)),
	)
)

// limitOf draws a limit without a name, a log of any resolution or a counter.
func limitOf(window *rapid.Generator[int64]) *rapid.Generator[slidegate.Limit] {
	return rapid.Custom(func(t *rapid.T) slidegate.Limit {
		ms := window.Draw(t, "window")
		l := slidegate.Per(time.Duration(ms)*time.Millisecond, anyQuota.Draw(t, "quota"))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 2:
			return l.Counter()
		case 3:
			return l.WithResolution(anyResolution(t, ms))
		}
		return l
	})
}

func anyResolution(t *rapid.T, window int64) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Int64Range(1, min(window, 10)), rapid.Int64Range(1, window)).Draw(t, "resolution")) * time.Millisecond
}

// planOf draws one to eight limits by the names a, b, c, ….
func planOf(window *rapid.Generator[int64]) *rapid.Generator[plan] {
	return rapid.Custom(func(t *rapid.T) plan {
		limits := plan(rapid.SliceOfN(limitOf(window), 1, slidegate.MaxLimits).Draw(t, "limits"))
		roomy := rapid.IntRange(0, 3).Draw(t, "roomy") == 3 // so that logs become long
		for i := range limits {
			limits[i].Name = string(rune('a' + i))
			if roomy {
				limits[i].Quota = max(limits[i].Quota, 200)
			}
		}
		return limits
	})
}

// revised draws the same plan by other quotas and resolutions: its state is shared.
func revised(p plan) *rapid.Generator[plan] {
	return rapid.Custom(func(t *rapid.T) plan {
		next := p.with(func(q int64) int64 {
			return rapid.OneOf(rapid.Just(q), rapid.Int64Range(1, q), rapid.Int64Range(q, min(2*q, slidegate.MaxQuota)), anyQuota).Draw(t, "quota")
		})
		for i := range next {
			if next[i].Algorithm == slidegate.SlidingLog && rapid.Bool().Draw(t, "at another resolution") {
				next[i].Resolution = anyResolution(t, next[i].Window.Milliseconds())
			}
		}
		return next
	})
}

// versionsOf draws a plan and up to two changes of it.
func versionsOf(window *rapid.Generator[int64]) *rapid.Generator[[]plan] {
	return rapid.Custom(func(t *rapid.T) []plan {
		first := planOf(window).Draw(t, "plan")
		return append([]plan{first}, rapid.SliceOfN(revised(first), 0, 2).Draw(t, "changes")...)
	})
}

// A verb is what is done in a step.
type verb string

const (
	take   verb = "take"
	allow  verb = "allow"
	fill   verb = "fill"  // take all that there is room for
	crowd  verb = "crowd" // take again and again, a little later each time, until one is refused
	peek   verb = "peek"
	refund verb = "refund"
	reset  verb = "reset"
	pass   verb = "pass" // time
	back   verb = "back" // the clock is set back
	leave  verb = "leave"
	come   verb = "come" // Redis does
)

// A step is one thing that is done.
type step struct {
	verb    verb
	version int // of the plan
	process int
	cost    int64
	ms      int64 // of pass and back, and between those of a crowd
	n       int   // which receipt, of a refund; how many takes at most, of a crowd
}

// GoString writes a step as a failure shows it.
func (s step) GoString() string {
	by := ""
	if s.version+s.process > 0 {
		by = fmt.Sprintf(" by plan %d of process %d", s.version, s.process)
	}
	switch s.verb {
	case take, peek:
		return fmt.Sprintf("%s %d%s", s.verb, s.cost, by)
	case refund:
		return fmt.Sprintf("refund %d of receipt %d", s.cost, s.n)
	case crowd:
		return fmt.Sprintf("crowd of %d, %d every %dms%s", s.n, s.cost, s.ms, by)
	case pass, back:
		return fmt.Sprintf("%s %dms", s.verb, s.ms)
	}
	return string(s.verb) + by
}

// costOf draws a cost that a plan can admit, small ones more often.
func costOf(p plan) *rapid.Generator[int64] {
	most := p.smallest()
	return rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, min(most, 3)), rapid.Int64Range(1, most))
}

// spanOf draws a time, in milliseconds, that means something to one of the limits.
func spanOf(p plan) *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		window := rapid.SampledFrom(p).Draw(t, "of").Window.Milliseconds()
		return rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, window/3+1), rapid.Int64Range(max(0, window-2), window+2), rapid.Int64Range(0, 2*window)).Draw(t, "ms")
	})
}

// stepOf draws a step of one of the verbs.
func stepOf(versions []plan, processes int, verbs []verb) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		s := step{verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
		switch s.verb {
		case leave, come:
		case pass, back:
			s.ms = spanOf(versions[0]).Draw(t, "span")
		default:
			s.process = rapid.IntRange(0, processes-1).Draw(t, "process")
			s.version = rapid.OneOf(rapid.Just(0), rapid.IntRange(0, len(versions)-1)).Draw(t, "version")
			s.cost = costOf(versions[s.version]).Draw(t, "cost")
			s.n = rapid.OneOf(rapid.IntRange(0, 15), rapid.IntRange(0, 15), rapid.IntRange(0, 15), rapid.IntRange(40, 80)).Draw(t, "n")
		}
		if s.verb == crowd {
			s.cost = min(s.cost, max(1, versions[s.version].smallest()/64))
			s.ms = rapid.Int64Range(1, max(1, rapid.SampledFrom(versions[0]).Draw(t, "of").Window.Milliseconds()/64)).Draw(t, "ms")
		}
		return s
	})
}

// historyOf draws steps, some fifteen of them.
func historyOf(versions []plan, processes int, verbs []verb) *rapid.Generator[[]step] {
	some := rapid.SliceOfN(stepOf(versions, processes, verbs), 0, 12)
	return rapid.Custom(func(t *rapid.T) []step {
		return slices.Concat(some.Draw(t, "steps"), some.Draw(t, "more"), some.Draw(t, "still more"))
	})
}

// Fragments of keys that name something where keys are put together, or are no text.
var fragments = []string{
	"a", "b", "{", "}", "{}", "}:a:1s", ":", "::", "%", "%7D", "%25", "%sha256:", ",counter", "\x00", "\xff", "\xfe", "\xc3", "é",
	"\r\n", " ", "*", "\\", "/", "?", "user:42",
}

// anyKey is any bytes, of any length.
var anyKey = rapid.OneOf(
	rapid.Map(rapid.SliceOfN(rapid.SampledFrom(fragments), 1, 3), func(parts []string) string { return strings.Join(parts, "") }),
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 12), func(b []byte) string { return string(b) }),
	rapid.Map(rapid.IntRange(0, 1<<9-1), func(n int) string { return strings.Repeat("long", 48+n>>5) + fmt.Sprint(n) }),
)

// relatives are two or three keys, of which some differ little.
var relatives = rapid.Custom(func(t *rapid.T) []string {
	first := anyKey.Draw(t, "key") + rapid.SampledFrom([]string{"", "\xff"}).Draw(t, "ends in")
	like := rapid.Custom(func(t *rapid.T) string {
		part := rapid.SampledFrom(fragments).Draw(t, "part")
		switch rapid.IntRange(0, 7).Draw(t, "how") {
		case 0:
			return first + part
		case 1:
			return part + first
		case 2:
			return first[:len(first)-1] + part
		case 3: // what is no UTF-8 by another byte
			return first[:len(first)-1] + rapid.SampledFrom([]string{"\xfe", "\x80", "\x00"}).Draw(t, "byte")
		case 4:
			return "{" + first + "}"
		case 5, 6: // as if the key ended before
			return first + "}:a"
		}
		return strings.ToUpper(first) + " "
	})
	others := rapid.OneOf(like, like, anyKey).Filter(func(k string) bool { return k != first })
	return append([]string{first}, rapid.SliceOfNDistinct(others, 1, 2, rapid.ID[string]).Draw(t, "others")...)
})

// anyName is a name that could be taken for a part of a key, or for an end of one and a name.
var anyName = rapid.OneOf(
	rapid.SampledFrom([]string{"a", "b", "a}:a", "a}:b"}), rapid.SampledFrom([]string{"a", "b", "a}:a", "a}:b"}),
	rapid.SampledFrom([]string{"a:1s", "a:1s,counter", "}:a", "%7D", ":", "a:", "A"}),
	rapid.StringMatching("[!-<>-~]{1,6}"),
)
