package wrap_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// countReplicas returns n counts over one store.
func countReplicas(t *testing.T, store slidegate.Store, n int) []*wrap.Replicas {
	t.Helper()
	all := make([]*wrap.Replicas, n)
	for i := range all {
		r, err := wrap.CountReplicas(store)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = r
	}
	return all
}

func live(all []*wrap.Replicas) (counts []int) {
	for _, r := range all {
		counts = append(counts, r.Live())
	}
	return counts
}

// TestReplicasAreCounted: whoever comes is believed at once, whoever goes when a life of beats has seen it, whether it said so
// or not, and a store that cannot be asked changes nothing.
func TestReplicasAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		defer memory.Close()
		store := newSwitch(memory)
		all := countReplicas(t, store, 3)
		beat := func(each ...*wrap.Replicas) {
			t.Helper()
			for range 2 { // the first of a round does not know of the last
				for _, r := range each {
					if err := r.Beat(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		wants := func(what string, want ...int) {
			t.Helper()
			for i, got := range live(all[:len(want)]) {
				if got != want[i] {
					t.Errorf("%s: %v, want %v", what, live(all), want)
					return
				}
			}
		}
		wants("before anything is known", 1, 1, 1)
		beat(all...)
		wants("all beat", 3, 3, 3)
		<-time.After(wrap.DefaultLife - time.Millisecond)
		beat(all[:2]...)
		wants("one is late", 3, 3)
		<-time.After(time.Millisecond)
		beat(all[:2]...)
		wants("its life is over, and not yet believed", 3, 3)
		beat(all[:2]...)
		beat(all[:2]...)
		wants("it is gone", 2, 2)

		store.off(slidegate.ErrUnavailable)
		if err := all[0].Beat(t.Context()); !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("a store that cannot be asked: %v", err)
		}
		<-time.After(10 * wrap.DefaultLife)
		wants("as last seen", 2, 2)
		store.on()
		beat(all[0]) // the store has forgotten all
		wants("one is back, and the other may be", 2)
		beat(all[:2]...)
		wants("both are", 2, 2)

		if err := all[1].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		beat(all[0])
		beat(all[0])
		wants("one has left", 1)
	})
}

// TestReplicasRun: the count is kept by itself, and who ends is off it at once.
func TestReplicasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		all := countReplicas(t, store, 3)
		var ends []context.CancelFunc
		for _, r := range all {
			ctx, end := context.WithCancel(t.Context())
			ends = append(ends, end)
			go r.Run(ctx)
			<-time.After(time.Second) // two that beat at one instant may see each other twice
		}
		<-time.After(wrap.DefaultLife)
		if got := live(all); got[0] != 3 || got[1] != 3 || got[2] != 3 {
			t.Errorf("%v live", got)
		}
		ends[2]()
		synctest.Wait()
		if late := countReplicas(t, store, 1)[0]; late.Beat(t.Context()) != nil || late.Live() != 3 || late.Leave(t.Context()) != nil {
			t.Errorf("who comes then sees %d", late.Live())
		}
		<-time.After(2 * wrap.DefaultLife)
		if got := live(all); got[0] != 2 || got[1] != 2 {
			t.Errorf("%v live, of two that run", got)
		}
		ends[0]()
		ends[1]()
		synctest.Wait()
		if n := store.Len(); n > 1 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// TestBadReplicas: an error says what is allowed.
func TestBadReplicas(t *testing.T) {
	for want, build := range map[string]func() (*wrap.Replicas, error){
		"the store is nil": func() (*wrap.Replicas, error) { return wrap.CountReplicas(nil) },
		"a life of 2ms: allowed is 3ms to 1h0m0s": func() (*wrap.Replicas, error) {
			return wrap.CountReplicas(memstore.New(), wrap.WithLife(2*time.Millisecond))
		},
		"a life of 2h0m0s: allowed is 3ms to 1h0m0s": func() (*wrap.Replicas, error) { return wrap.CountReplicas(memstore.New(), wrap.WithLife(2*time.Hour)) },
		"a life of 10.0001ms: allowed is 3ms to 1h0m": func() (*wrap.Replicas, error) {
			return wrap.CountReplicas(memstore.New(), wrap.WithLife(10*time.Millisecond+100))
		},
	} {
		if _, err := build(); !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
