package bans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

var background = context.Background()

// newPair returns a list and a store behind it, on one clock.
func newPair(t testing.TB) (*List, *memstore.Store, *gatetest.Clock) {
	clock := gatetest.NewClock(time.UnixMilli(1_700_000_000_123))
	store := memstore.New(memstore.WithClock(clock.Now))
	t.Cleanup(func() { store.Close() })
	list := NewList(nil)
	list.now = clock.Now
	return list, store, clock
}

func (l *List) mustAdd(t testing.TB, key string, length time.Duration) {
	t.Helper()
	if _, err := l.Add(background, key, length, ""); err != nil {
		t.Fatal(err)
	}
}

// TestABanEndsWhenItSays: whatever the limits, retry is what is left of the ban, to the millisecond, and a banned
// request is charged to nobody.
func TestABanEndsWhenItSays(t *testing.T) {
	for _, limits := range [][]slidegate.Limit{
		{slidegate.PerMinute(10)}, {slidegate.PerMinute(10).Counter()}, {slidegate.Per(time.Hour, 1)},
		{slidegate.Per(time.Millisecond, 1_000_000_000_000).Counter()}, {slidegate.Per(24*time.Hour, 7).Counter()},
		{slidegate.PerSecond(10).Named("a"), slidegate.PerHour(1000).Named("b").Counter(), slidegate.PerDay(99).Named("c").WithResolution(time.Minute)},
	} {
		smallest := int64(slidegate.MaxQuota)
		for _, l := range limits {
			smallest = min(smallest, l.Quota)
		}
		for _, cost := range []int64{1, (smallest + 1) / 2, smallest} {
			for _, length := range []time.Duration{time.Millisecond, 1234 * time.Millisecond, 90 * time.Hour} {
				t.Run(fmt.Sprint(limits, cost, length), func(t *testing.T) { banEnds(t, limits, cost, length) })
			}
		}
	}
}

func banEnds(t *testing.T, limits []slidegate.Limit, cost int64, length time.Duration) {
	list, store, clock := newPair(t)
	l := slidegate.MustNew(list.Wrap(store), limits...)
	list.mustAdd(t, "k", length)
	for _, ahead := range []time.Duration{0, length / 2, length - time.Millisecond} {
		clock.Advance(ahead - clock.Now().Sub(time.UnixMilli(1_700_000_000_123)))
		left := length - ahead
		left = time.Duration((left + time.Millisecond - 1).Milliseconds()) * time.Millisecond
		for verb, ask := range map[string]func(context.Context, string, int64) (slidegate.Decision, error){"take": l.TakeN, "peek": l.PeekN} {
			d, err := ask(background, "k", cost)
			if err != nil || d.Allowed || d.RetryAfter() != left || d.Remaining() != 0 {
				t.Fatalf("%s after %s: %v, %v, want retry in %s", verb, ahead, d, err, left)
			}
		}
		if ok, err := l.Allow(background, "k"); ok || err != nil {
			t.Fatalf("after %s: %v, %v", ahead, ok, err)
		}
	}
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys were charged", n)
	}
	clock.Advance(time.Millisecond)
	if d, err := l.TakeN(background, "k", cost); err != nil || !d.Allowed {
		t.Errorf("when it is over: %v, %v", d, err)
	}
}

// TestWhomABanIsAbout.
func TestWhomABanIsAbout(t *testing.T) {
	list, _, clock := newPair(t)
	list.mustAdd(t, "ip:203.0.113.9", time.Hour)
	list.mustAdd(t, "domain:shop|header:X-Api-Key:abc", time.Minute)
	for key, want := range map[string]bool{
		"ip:203.0.113.9":                                       true,
		"ip:203.0.113.8":                                       false,
		"ip:203.0.113.90":                                      false,
		"domain:shop|ip:203.0.113.9":                           true,
		httpgate.Join("ip:203.0.113.9", "path:/a"):             true,
		httpgate.Join("path:/a", "ip:203.0.113.9"):             true,
		httpgate.Join("path:ip:203.0.113.9", "ip:1.1.1.1"):     false,
		"domain:shop|" + httpgate.Join("ip:203.0.113.9", "x"):  true,
		"header:X-Api-Key:abc":                                 false,
		"domain:shop|header:X-Api-Key:abc":                     true,
		"domain:blog|header:X-Api-Key:abc":                     false,
		"14:ip:203.0.113.9":                                    true,
		"99:ip:203.0.113.9":                                    false,
		"":                                                     false,
		"domain:":                                              false,
		"0:|14:ip:203.0.113.9":                                 false,
		httpgate.Join("14:ip:203.0.113.9", "a"):                false,
		httpgate.Join("header:A:14:ip:203.0.113.9|1:x", "b:c"): false,
	} {
		if got := !list.Banned(key).IsZero(); got != want {
			t.Errorf("%q: banned %v", key, got)
		}
	}
	clock.Advance(time.Minute)
	if all := list.All(); len(all) != 1 || all[0].Key != "ip:203.0.113.9" {
		t.Errorf("a minute later: %v", all)
	}
	if there, err := list.Remove(background, "ip:203.0.113.9"); !there || err != nil || list.Len() != 0 || !list.Banned("ip:203.0.113.9").IsZero() {
		t.Errorf("removed %v, %v; left is %v", there, err, list.All())
	}
	if there, err := list.Remove(background, "ip:203.0.113.9"); there || err != nil {
		t.Errorf("removed again %v, %v", there, err)
	}
}

// TestSeveralKeysInOneDecision: one that is banned refuses for all, and nothing is charged.
func TestSeveralKeysInOneDecision(t *testing.T) {
	list, store, _ := newPair(t)
	banning := list.Wrap(store)
	a, b := slidegate.MustNew(banning, slidegate.PerMinute(5).Named("a")), slidegate.MustNew(banning, slidegate.PerHour(5).Named("b").Counter())
	group, err := slidegate.NewGroup(a, b)
	if err != nil {
		t.Fatal(err)
	}
	list.mustAdd(t, "y", 90*time.Second)
	d, err := group.Take(background, "x", "y")
	if err != nil || d.Allowed || d.RetryAfter() != 90*time.Second || store.Len() != 0 {
		t.Errorf("%v, %v, %d keys", d, err, store.Len())
	}
	if d, err := group.Take(background, "x", "z"); err != nil || !d.Allowed {
		t.Errorf("of nobody banned: %v, %v", d, err)
	}
}

// TestAListIsBounded, and one that is over makes room.
func TestAListIsBounded(t *testing.T) {
	list, _, clock := newPair(t)
	full := table{}
	for i := range Most {
		key := fmt.Sprint("k", i)
		full[key] = Ban{Key: key, Until: clock.Now().Add(time.Duration(1+i) * time.Second)}
	}
	list.bans.Store(&full)
	if _, err := list.Add(background, "new", time.Minute, ""); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if _, err := list.Add(background, "k5", time.Minute, "again"); err != nil || list.Len() != Most {
		t.Errorf("one that is there: %v", err)
	}
	clock.Advance(time.Second)
	if _, err := list.Add(background, "new", time.Minute, ""); err != nil || list.Len() != Most {
		t.Errorf("when there is room: %v", err)
	}
}

// TestNobodyBannedCostsNothing: no allocation, with bans of others too.
func TestNobodyBannedCostsNothing(t *testing.T) {
	list, store, _ := newPair(t)
	l := slidegate.MustNew(list.Wrap(store), slidegate.PerMinute(1_000_000))
	l.Allow(background, "ip:203.0.113.9")
	for range 2 {
		if n := testing.AllocsPerRun(100, func() { l.Allow(background, "ip:203.0.113.9"); l.Take(background, "ip:203.0.113.9") }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		list.mustAdd(t, "ip:203.0.113.1", time.Hour)
	}
}

func keysOf(l *List) (keys []string) {
	for _, b := range l.All() {
		keys = append(keys, b.Key)
	}
	slices.Sort(keys)
	return keys
}
