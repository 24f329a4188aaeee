package sweep

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
)

// crowd returns the curve of clients with these peaks, of whom the first few are hunted.
func crowd(quotas []int64, hunted int, peaks ...int64) Curve {
	p := New([]int64{60_000}, quotas, false, 0, func(key uint32) bool { return int(key) < hunted })
	for key, peak := range peaks {
		for range peak {
			p.Add(uint32(key), 0, 1)
		}
	}
	return p.Curves()[0]
}

// colossal is the curve of one client that asks for more than any quota has.
func colossal() Curve {
	p := New([]int64{60_000}, []int64{1}, false, 0, nobody)
	for range 20 {
		p.Add(0, 0, beyond)
	}
	return p.Curves()[0]
}

// TestAdvice: what is advised, and whether it does what was aimed at.
func TestAdvice(t *testing.T) {
	quotas := []int64{1, 2, 5, 10, 20, 50, 100}
	for _, row := range []struct {
		about  string
		curve  Curve
		aim    Aim
		quota  int64
		serves bool
		others int64 // refused
		caught int64
	}{
		{"nobody is to be refused", crowd(quotas, 0, 3, 7, 30), Aim{Given: true}, 30, true, 0, 0},
		{"one of three may be", crowd(quotas, 0, 3, 7, 30), Aim{Given: true, Share: 0.34}, 7, true, 1, 0},
		{"all may be", crowd(quotas, 0, 3, 7, 30), Aim{Given: true, Share: 1}, 3, true, 2, 0},
		{"those to catch alone count", crowd(quotas, 2, 40, 60, 5, 30), Aim{Catch: true}, 39, true, 0, 2},
		{"any quota of 8 to 899", crowd(quotas, 1, 900, 8, 2), Aim{Catch: true, Given: true}, 80, true, 0, 1},
		{"both cannot be had", crowd(quotas, 2, 4, 90, 8, 2), Aim{Catch: true, Given: true}, 8, false, 0, 1},
		{"one to catch asks once only", crowd(quotas, 1, 1, 8, 2), Aim{Catch: true}, 8, false, 0, 0},
		{"no quota is large enough", colossal(), Aim{Given: true}, slidegate.MaxQuota, false, 1, 0},
		{"nobody came", crowd(quotas, 0), Aim{Given: true}, 1, true, 0, 0},
	} {
		a := row.curve.Advise(row.aim)
		if a.Quota != row.quota || a.Serves != row.serves || a.ClientsRefused != row.others || a.Caught != row.caught {
			t.Errorf("%s: advised %d, serves %t, refuses %d, catches %d: want %d, %t, %d, %d", row.about,
				a.Quota, a.Serves, a.ClientsRefused, a.Caught, row.quota, row.serves, row.others, row.caught)
		}
	}
}

// TestBetween is in the middle as people see it, as round as it may be, and never outside.
func TestBetween(t *testing.T) {
	for _, row := range [][3]int64{{1, 1, 1}, {8, 899, 80}, {1, 100, 10}, {37, 38, 37}, {95, 105, 100}, {120, 130, 120}, {123, 129, 125}, {1, 1 << 40, 1_000_000}} {
		if got := between(row[0], row[1]); got != row[2] {
			t.Errorf("between %d and %d: %d, want %d", row[0], row[1], got, row[2])
		}
	}
	for low := int64(1); low < 200; low++ {
		for high := low; high < 400; high += 7 {
			if got := between(low, high); got < low || got > high {
				t.Fatalf("between %d and %d: %d", low, high, got)
			}
		}
	}
}

// TestRequestsRefusedAreBetweenTheQuotasTried: what a quota that was not tried refuses is bounded by those beside it.
func TestRequestsRefusedAreBetweenTheQuotasTried(t *testing.T) {
	c := crowd([]int64{2, 5, 10}, 0, 3, 7, 30)
	for quota, want := range map[int64]Range{2: {34, 34}, 4: {27, 34}, 5: {27, 27}, 9: {20, 27}, 10: {20, 20}, 20: {0, 20}, 1: {34, -1}, 30: {}} {
		if got := c.requestsRefused(quota); got != want {
			t.Errorf("quota %d: %v, want %v", quota, got, want)
		}
	}
}

// TestReasonsAreTold in words.
func TestReasonsAreTold(t *testing.T) {
	c := crowd([]int64{2, 5, 10, 50}, 2, 40, 60, 5, 30)
	r := Report{Algorithm: "log", MaxClientsRefused: 0.5}
	r.fill([]Curve{c}, Aim{Share: 0.5, Given: true, Catch: true})
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"To refuse at most 50.0 % of the clients, and to catch those to catch:",
		"10/1m\n  refuses 1 of 2 clients (50.0 %), and 20 of their requests\n  the highest of the others had 5\n  catches 2 of 2: any quota from 5 to 39 does",
		"of other clients like these it would have to be at least 5; 2 are too few to say how much at most",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, b.String())
		}
	}
}
