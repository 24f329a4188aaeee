package memstore_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

var timed = []struct {
	name   string
	limits []slidegate.Limit
}{
	{"log", []slidegate.Limit{slidegate.PerMinute(100)}},
	{"counter", []slidegate.Limit{slidegate.PerMinute(100).Counter()}},
	{"three", []slidegate.Limit{slidegate.PerSecond(10), slidegate.PerMinute(100), slidegate.PerHour(1000).Counter()}},
}

// The rivals stand beside these in the module test/bench.

func BenchmarkTake(b *testing.B) {
	for _, c := range timed {
		b.Run(c.name, func(b *testing.B) {
			store := memstore.New()
			defer store.Close()
			limiter := slidegate.MustNew(store, c.limits...)
			b.ReportAllocs()
			for b.Loop() {
				if d, err := limiter.Take(context.Background(), "user:42"); err != nil || d.Remaining() < 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAllow(b *testing.B) {
	for _, c := range timed {
		b.Run(c.name, func(b *testing.B) {
			store := memstore.New()
			defer store.Close()
			limiter := slidegate.MustNew(store, c.limits...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.Allow(context.Background(), "user:42"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFlood is a new key each time at a full store: what it costs to evict.
func BenchmarkFlood(b *testing.B) {
	for _, c := range timed {
		b.Run(c.name, func(b *testing.B) {
			store := memstore.New(memstore.WithMaxKeys(100_000))
			defer store.Close()
			limiter := slidegate.MustNew(store, c.limits...)
			keys := make([]string, 1_000_000)
			for i := range keys {
				keys[i] = strconv.Itoa(i)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				limiter.Allow(context.Background(), keys[i%len(keys)])
				i++
			}
		})
	}
}
