package wrap_test

import (
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// BenchmarkDenials measures a refusal that is remembered, and what it costs the others to be asked for.
func BenchmarkDenials(b *testing.B) {
	memory := memstore.New()
	b.Cleanup(func() { _ = memory.Close() })
	for name, store := range map[string]slidegate.Store{"bare": memory, "remembered": wrap.Denials(memory)} {
		l := slidegate.MustNew(store, slidegate.PerDay(1).Named("small"))
		for range 2 {
			l.Take(background, "user:1000000042")
		}
		b.Run("refused/"+name, func(b *testing.B) {
			for b.Loop() {
				l.Take(background, "user:1000000042")
			}
		})
		roomy := slidegate.MustNew(store, slidegate.Per(slidegate.MinWindow, slidegate.MaxQuota).Counter().Named("large"))
		b.Run("admitted/"+name, func(b *testing.B) {
			for b.Loop() {
				roomy.Take(background, "user:1000000042")
			}
		})
	}
}
