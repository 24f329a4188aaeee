package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/bench"
)

// TestMain lets this test stand for the command where it is started as the process of a part.
func TestMain(m *testing.M) {
	flag.Parse()
	if *child != "" {
		measureHere(*child)
		return
	}
	os.Exit(m.Run())
}

// TestActiveKeysAreMeasuredInAProcessOfTheirOwn: fifty thousand logs are no less than their slots, and what they take is resident.
func TestActiveKeysAreMeasuredInAProcessOfTheirOwn(t *testing.T) {
	*keys = 50_000
	all, err := inChild("active/" + bench.LogTake + "/1")
	if err != nil {
		t.Fatal(err)
	}
	full, packed := all[0], all[1]
	if perKey := float64(packed.Heap) / float64(*keys); perKey < 32 || perKey > 136 {
		t.Errorf("a log of one charge takes %.1f bytes", perKey)
	}
	if full.Resident < packed.Heap/2 || full.Resident < packed.Resident {
		t.Errorf("as it is %+v, packed %+v", full, packed)
	}
}

func TestEntriesAreMeasured(t *testing.T) {
	*filled = 500_000
	all, err := inChild("entries/1000")
	if err != nil {
		t.Fatal(err)
	}
	if perEntry := float64(all[1].Heap) / float64(*filled); perEntry < 4 || perEntry > 10 {
		t.Errorf("an entry of a full log of 1,000 takes %.1f bytes", perEntry)
	}
}

// TestWhatIsIdleIsMeasured: the footprints are of the times that the table has.
func TestWhatIsIdleIsMeasured(t *testing.T) {
	*keys, *window, *rest = 1000, time.Second, 10*time.Millisecond
	all, err := inChild("idle/" + bench.CounterTake)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 || all[3].Heap > all[0].Heap {
		t.Errorf("got %+v", all)
	}
}
