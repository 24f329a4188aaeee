package history

import (
	"math"

	"github.com/slidegate/slidegate/internal/window"
)

// MaxBuckets is how many buckets a [Series] has at most.
const MaxBuckets = 240

// Counts are requests, by what became of them.
type Counts struct{ Admitted, Refused int64 }

// A Series is what became of requests over time, in buckets of one width that follow one another. The zero value is empty
// and ready to use.
type Series struct {
	Start   int64 // milliseconds since 1970, a multiple of Width
	Width   int64 // milliseconds
	Buckets []Counts
}

// Total returns the sum of all buckets.
func (s *Series) Total() (sum Counts) {
	for _, b := range s.Buckets {
		sum.Admitted += b.Admitted
		sum.Refused += b.Refused
	}
	return sum
}

// add counts a request at a time that is not before that of the one before. Where the buckets would become too many they
// become wider.
func (s *Series) add(at int64, became outcome) {
	if len(s.Buckets) == 0 {
		s.Start, s.Width = at, 1
	}
	for (at-s.Start)/s.Width >= MaxBuckets {
		s.widen()
	}
	i := int((at - s.Start) / s.Width)
	for len(s.Buckets) <= i {
		s.Buckets = append(s.Buckets, Counts{})
	}
	s.Buckets[i].add(became)
}

func (c *Counts) add(became outcome) {
	if became == refused {
		c.Refused++
	} else {
		c.Admitted++
	}
}

// widen folds the buckets into those of the next width.
func (s *Series) widen() {
	width := wider(s.Width)
	start := window.Floor(s.Start, width)
	var folded []Counts
	for i, b := range s.Buckets {
		at := int((s.Start + int64(i)*s.Width - start) / width)
		for len(folded) <= at {
			folded = append(folded, Counts{})
		}
		folded[at].Admitted += b.Admitted
		folded[at].Refused += b.Refused
	}
	s.Start, s.Width, s.Buckets = start, width, folded
}

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// widths are what people count time in. Each is a multiple of the one before, so that buckets can be folded.
var widths = []int64{
	1, 10, 100,
	second, 5 * second, 15 * second,
	minute, 5 * minute, 15 * minute,
	hour, 3 * hour, 6 * hour, 12 * hour,
	day,
}

// wider returns the width after one: beyond a day twice as much.
func wider(width int64) int64 {
	for _, w := range widths {
		if w > width {
			return w
		}
	}
	if width > math.MaxInt64/4 {
		return math.MaxInt64 / 2
	}
	return 2 * width
}
