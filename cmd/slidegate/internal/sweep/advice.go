package sweep

import (
	"cmp"
	"math"
	"slices"

	"github.com/slidegate/slidegate"
)

// An Aim is what a quota is to do.
type Aim struct {
	Share float64 // of the clients that are not hunted may be refused at most, 0 to 1
	Given bool    // somebody asked for Share
	Catch bool    // every client that is hunted is to be refused
}

// Advice is the quota over one window that serves an aim, and why.
type Advice struct {
	Quota int64

	// Least is the smallest quota that refuses no more than the share, and Most the largest that catches all who are hunted. Where
	// nobody is hunted, Quota is Least and Most is 0.
	Least, Most int64

	// Serves tells whether Quota does all that was aimed at. It cannot where Least is above Most: then Quota is Least, unless
	// only catching was asked for. Nor can it where no quota is large enough: then Quota is the largest there is.
	Serves bool

	ClientsRefused int64
	NextPeak       int64 // the highest peak that Quota does not refuse; 0 if it refuses all
	Caught         int64 // of the hunted

	// RequestsRefused is how many of the requests of clients that are not hunted it refuses, as the quotas around it tell; High is
	// -1 where none below was tried.
	RequestsRefused Range

	Uncertainty Range // of Least
	Days        []Day // what each day would have needed
}

// Advise returns the quota that serves an aim.
func (c *Curve) Advise(aim Aim) Advice {
	least := c.Others.Quota(aim.Share)
	isPossible := least <= slidegate.MaxQuota
	least = min(least, slidegate.MaxQuota)
	a := Advice{Quota: least, Least: least, Serves: isPossible, Uncertainty: c.Others.Uncertainty(aim.Share), Days: c.Days}
	if aim.Catch && c.Hunted.Clients > 0 {
		a.Most = c.Hunted.peaks[0] - 1
		switch {
		case !aim.Given && a.Most > 0:
			a.Quota = a.Most
		case a.Least <= a.Most:
			a.Quota = between(a.Least, a.Most)
		default:
			a.Serves = false
		}
	}
	a.ClientsRefused = c.Others.ClientsRefused(a.Quota)
	if kept := c.Others.Clients - a.ClientsRefused; kept > 0 {
		a.NextPeak = c.Others.peaks[kept-1]
	}
	a.Caught = c.Hunted.ClientsRefused(a.Quota)
	a.RequestsRefused = c.requestsRefused(a.Quota)
	a.RequestsRefused.Low = max(a.RequestsRefused.Low, a.ClientsRefused) // each at least once
	return a
}

// between returns a number in the middle of two as people see quotas, by ratio, and as round as it may be.
func between(low, high int64) int64 {
	middle := int64(math.Sqrt(float64(low) * float64(high)))
	for step := int64(math.Pow10(int(math.Log10(float64(max(middle, 1)))))); step > 1; step /= 10 {
		for _, round := range []int64{middle / step * step, (middle + step/2) / step * step} {
			if round >= low && round <= high {
				return round
			}
		}
	}
	return min(max(middle, low), high)
}

// requestsRefused tells it from the quotas that were tried beside it. A larger quota refuses fewer.
func (c *Curve) requestsRefused(quota int64) Range {
	if c.Others.ClientsRefused(quota) == 0 {
		return Range{}
	}
	above, isTried := slices.BinarySearch(c.Quotas, quota)
	r := Range{High: -1}
	if above < len(c.Quotas) {
		r.Low = c.Others.Refused[above]
	}
	if isTried {
		r.High = r.Low
	} else if above > 0 {
		r.High = c.Others.Refused[above-1]
	}
	return r
}

// Best returns the place of the curve whose advice hurts the others least while it does all that was aimed at, or most of it.
func Best(curves []Curve, advice []Advice) int {
	places := make([]int, len(advice))
	for i := range places {
		places[i] = i
	}
	return slices.MinFunc(places, func(i, j int) int {
		a, b := &advice[i], &advice[j]
		return cmp.Or(
			-cmp.Compare(truth(a.Serves), truth(b.Serves)),
			-cmp.Compare(a.Caught, b.Caught),
			cmp.Compare(a.ClientsRefused, b.ClientsRefused),
			-cmp.Compare(room(a), room(b)),
			cmp.Compare(curves[i].Window, curves[j].Window),
		)
	})
}

// room is how far apart the two ends are by which a quota may be off.
func room(a *Advice) float64 {
	if a.Least == 0 {
		return 0
	}
	return float64(a.Most) / float64(a.Least)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
