package bench

import (
	"runtime"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// heap returns the bytes of the objects that are reachable now.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fill asks once for every one of the many keys, as strings that only the limiter may keep.
func fill(l Limiter) {
	for i := range ManyKeys {
		l.Take(Key(i))
	}
}

// HeapPerKey returns the bytes that a contender holds for each of the many keys when all count.
func HeapPerKey(c Contender) float64 {
	before := heap()
	l := c.Open(100, time.Hour)
	fill(l)
	held := heap() - before
	l.Take(Key(0)) // or the limiter would be garbage by now
	l.Close()
	return float64(held) / ManyKeys
}

// KeptWhenIdle returns the share of its heap that a contender still holds after every window is
// over and nobody has asked it anything since: it is given settle, in waits of a window.
func KeptWhenIdle(c Contender, window, settle time.Duration, sleep func(time.Duration)) float64 {
	before := heap()
	l := c.Sweeping(100, window)
	fill(l)
	full := heap() - before
	kept := full
	for waited := time.Duration(0); waited < settle && kept*100 > full; waited += window {
		sleep(window)
		kept = heap() - before
	}
	l.Take(Key(0)) // as above
	l.Close()
	return float64(kept) / float64(full)
}

// BytesPerEntry returns what an entry takes in full logs of the given number of entries.
func BytesPerEntry(entries int) float64 {
	const keys = 1000
	before, now := heap(), time.UnixMilli(1_000_000_000_000)
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	l := take(slidegate.MustNew(store, slidegate.PerDay(int64(entries))))
	for range entries {
		now = now.Add(7 * time.Millisecond)
		for k := range keys {
			if v, _ := l(Key(k)); v != Allowed {
				panic("bench: a log is full too early")
			}
		}
	}
	held := heap() - before
	_ = store.Close()
	return float64(held) / float64(keys*entries)
}
