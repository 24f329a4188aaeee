package sweep

import (
	"math"
	"slices"
)

// A Curve is what the quotas over one window would have made of the log.
type Curve struct {
	Window int64   // milliseconds
	Quotas []int64 // ascending
	Others Group   // all clients but the hunted
	Hunted Group
	Days   []Day // what each day of the log would have needed for its clients that are not hunted
}

// A Group is some clients, and what became of them over one window.
type Group struct {
	Clients, Requests int64
	Refused           []int64 // requests, by quota
	peaks             []int64 // of clients, ascending
}

// Curves ends the pass and returns what came of it, by window.
func (p *Pass) Curves() []Curve {
	p.endDay()
	p.began = false
	curves := make([]Curve, len(p.windows))
	for w, length := range p.windows {
		curves[w] = Curve{
			Window: length, Quotas: p.quotas, Days: p.days[w],
			Others: p.group(w, false, p.requests-p.hunt, p.tallies[w].others), Hunted: p.group(w, true, p.hunt, p.tallies[w].hunted),
		}
	}
	return curves
}

// Peak returns the most that a client asked for in any window, by the client's number and the window's index: 0 if it never
// came.
func (p *Pass) Peak(key uint32, w int) int64 {
	if int(key) >= len(p.clients) || p.clients[key].of == nil {
		return 0
	}
	return p.clients[key].of[w].peak
}

func (p *Pass) group(w int, isHunted bool, requests int64, refused []int64) Group {
	g := Group{Requests: requests, Refused: refused}
	for i := range p.clients {
		if c := &p.clients[i]; c.of != nil && c.isHunted == isHunted {
			g.peaks = append(g.peaks, c.of[w].peak)
		}
	}
	slices.Sort(g.peaks)
	g.Clients = int64(len(g.peaks))
	return g
}

// ClientsRefused returns how many clients a quota, any quota, would have refused at least once.
func (g *Group) ClientsRefused(quota int64) int64 {
	first, _ := slices.BinarySearch(g.peaks, quota+1)
	return g.Clients - int64(first)
}

// Percentile returns the peak that a share of the clients, 0 to 1, does not go beyond: 0.5 is the median. Without clients it
// is 0.
func (g *Group) Percentile(share float64) int64 { return percentile(g.peaks, share) }

func percentile(ascending []int64, share float64) int64 {
	if len(ascending) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(ascending))))
	return ascending[min(max(rank, 1), len(ascending))-1]
}

// Quota returns the least quota that refuses at most a share of the clients, 0 to 1; without clients 1.
func (g *Group) Quota(share float64) int64 { return leastQuota(g.peaks, share) }

func leastQuota(ascending []int64, share float64) int64 {
	if len(ascending) == 0 {
		return 1
	}
	mayBeRefused := min(int(share*float64(len(ascending))), len(ascending)-1)
	return ascending[len(ascending)-1-mayBeRefused]
}

// A Range is from the least to the greatest.
type Range struct{ Low, High int64 }

// Uncertainty returns between which quotas the one for a share of clients lies with a confidence of 95 %, if other clients of
// the same kind came: the order statistics whose ranks a binomial count of clients above it would leave out no more than that
// often. Where there are too few clients to tell an upper end, High is 0.
func (g *Group) Uncertainty(share float64) Range {
	n := len(g.peaks)
	if n == 0 {
		return Range{}
	}
	low, high := binomialRanks(n, 1-share)
	r := Range{Low: g.peaks[max(low, 1)-1]}
	if high <= n {
		r.High = g.peaks[high-1]
	}
	return r
}

// binomialRanks returns ranks, from 1, between which the quantile of a share lies in 95 % of samples of n: low may be 0 and high
// n+1, where the sample does not tell.
func binomialRanks(n int, share float64) (low, high int) {
	const tail = 0.025
	sum := 0.0
	low, high = 0, n+1
	foundLow := false
	for k := 0; k <= n; k++ {
		sum += binomial(n, k, share)
		if !foundLow && sum > tail {
			low, foundLow = k, true
		}
		if sum >= 1-tail {
			return low, min(k+1, n+1)
		}
	}
	return low, high
}

// binomial returns how likely k of n are, each with a share.
func binomial(n, k int, share float64) float64 {
	if share <= 0 || share >= 1 {
		if (share >= 1) == (k == n) && (share >= 1 || k == 0) {
			return 1
		}
		return 0
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c + float64(k)*math.Log(share) + float64(n-k)*math.Log1p(-share))
}

// A Day is a day of the log, in UTC, and the least quota that would have served its clients.
type Day struct {
	Number int64 // days since the Unix epoch
	Quota  int64
}
