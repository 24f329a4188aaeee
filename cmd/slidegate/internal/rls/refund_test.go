package rls_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
)

// TestRefunds give back the newest units, as many as asked for and as there are, by either algorithm.
func TestRefunds(t *testing.T) {
	for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		for _, c := range []struct {
			charges []int64 // a second apart
			refunds []int64
			want    uint32 // left of 1000
		}{
			{nil, []int64{5}, 1000},
			{[]int64{100}, []int64{30}, 930},
			{[]int64{100}, []int64{100}, 1000},
			{[]int64{100}, []int64{101}, 1000},
			{[]int64{100}, []int64{5000}, 1000},
			{[]int64{100, 1, 2, 50}, []int64{60}, 907},
			{[]int64{1, 1, 1, 1, 1, 1, 1, 1}, []int64{5}, 997},
			{[]int64{1000}, []int64{1000}, 1000},
			{[]int64{400, 600}, []int64{601}, 601},
			{[]int64{3, 5, 7}, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 994},
		} {
			r := inMemory(t, plain, rls.Options{Algorithm: algorithm})
			for _, n := range c.charges {
				r.expect("a charge", ok, codes(ok), hits(n, "token=x"))
				r.clock.advance(time.Second)
			}
			for _, n := range c.refunds {
				r.expect("a refund", ok, codes(ok), hits(-n, "token=x"))
			}
			if left := r.left("token=x"); left != c.want {
				t.Errorf("%s: %d less %d: %d left, want %d", algorithm, c.charges, c.refunds, left, c.want)
			}
		}
	}
}

// TestARefundIsOfTheNewest: what was spent first still leaves first.
func TestARefundIsOfTheNewest(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	r.ask(hits(400, "token=x"))
	r.clock.advance(30 * time.Minute)
	r.ask(hits(500, "token=x"))
	st := r.ask(hits(-500, "token=x")).GetStatuses()[0]
	if st.GetLimitRemaining() != 600 || st.GetDurationUntilReset().GetSeconds() != 1800 {
		t.Errorf("%v, want 600 left and the rest in half an hour", st)
	}
}

// TestRefundsOfACounterReachTheWindowBefore.
func TestRefundsOfACounterReachTheWindowBefore(t *testing.T) {
	r := inMemory(t, plain, rls.Options{Algorithm: slidegate.SlidingCounter})
	r.ask(hits(500, "token=x"))
	r.clock.advance(time.Hour)
	r.ask(hits(100, "token=x"))
	r.ask(hits(-600, "token=x"))
	if left := r.left("token=x"); left != 1000 {
		t.Errorf("%d left, want all", left)
	}
}

// TestRefundsNeverGiveTooMuch: of charges and refunds at once no unit comes back twice.
func TestRefundsNeverGiveTooMuch(t *testing.T) {
	for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		r := inMemory(t, plain, rls.Options{Algorithm: algorithm})
		r.ask(hits(500, "token=x"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.storm(40, hits(3, "token=x"))
		}()
		r.storm(20, hits(-4, "token=x"))
		<-done
		if left := r.left("token=x"); left < 1000-500-120 || left > 1000-500-120+80 {
			t.Errorf("%s: %d left: 500 and 120 were charged, and up to 80 came back", algorithm, left)
		}
	}
}

// TestRefundsOfManyEntriesAreBounded: they end, with what they came to.
func TestRefundsOfManyEntriesAreBounded(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	for range 100 {
		r.ask(hits(1, "token=x"))
		r.clock.advance(time.Second)
	}
	st := r.ask(hits(-90, "token=x")).GetStatuses()[0]
	if left := st.GetLimitRemaining(); left <= 900 || left > 990 {
		t.Errorf("%d left: want more than 900 and no more than 990", left)
	}
}
