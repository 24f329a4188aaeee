package gatetest_test

import (
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

func TestOracle(t *testing.T) {
	gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store { return gatetest.NewOracle(clock) })
}

func TestMemoryStore(t *testing.T) {
	gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
		return memstore.New(memstore.WithClock(clock.Now))
	})
}
