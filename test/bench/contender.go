package bench

import "time"

// A Verdict is what a limiter answered.
type Verdict uint8

// The verdicts.
const (
	Denied Verdict = iota
	Allowed
	Failed // neither: the limiter returned an error
)

func verdict(allowed bool, err error) Verdict {
	switch {
	case err != nil:
		return Failed
	case allowed:
		return Allowed
	}
	return Denied
}

// A Limiter decides requests of keys. Take returns the verdict and a number made of all else that the
// call answered, so that nothing of it is optimized away.
type Limiter struct {
	Take  func(key string) (v Verdict, rest int64)
	Close func()
}

// A Contender is a way to limit keys in memory.
type Contender struct {
	Name string

	// Open makes an empty limiter of quota units a window.
	Open func(quota int64, window time.Duration) Limiter

	// OpenSweeping is Open for limiters that are to drop idle keys soon after their window is over,
	// as far as they can be told to. It is nil where they cannot.
	OpenSweeping func(quota int64, window time.Duration) Limiter
}

// Sweeping opens the contender with what it has to drop idle keys.
func (c *Contender) Sweeping(quota int64, window time.Duration) Limiter {
	if c.OpenSweeping != nil {
		return c.OpenSweeping(quota, window)
	}
	return c.Open(quota, window)
}

// Baseline is the contender that ratios are taken to.
const Baseline = "go-limiter"

// Contenders returns all that decide keys in memory, the baseline first.
func Contenders() []Contender { return append(rivals(), ours()...) }

// Find returns the contender of a name. It panics if there is none.
func Find(name string) Contender {
	for _, c := range Contenders() {
		if c.Name == name {
			return c
		}
	}
	panic("bench: no contender " + name)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
