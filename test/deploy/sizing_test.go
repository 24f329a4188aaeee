package deploy

import (
	"fmt"
	"math"
	"regexp"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/test/redistest"
)

// A held is a limit, and how many entries a key has in its log.
type held struct {
	limit   slidegate.Limit
	entries int
}

// inMemory is the formula of docs/operations.md for a key in the memory store.
func inMemory(all []held) float64 {
	bytes := 64 + 24*len(all)
	for _, h := range all {
		if h.entries > 1 {
			bytes += 128 + 8*room(h)
		}
	}
	return 1.25 * float64(bytes)
}

// room is how many entries a log has room for: it grows before it is full.
func room(h held) int {
	most := h.limit.Quota
	if r := h.limit.Resolution; r > time.Millisecond {
		most = min(most, int64(h.limit.Window/r)+1)
	}
	n := 1
	for n <= h.entries {
		n *= 2
	}
	return min(n, int(most))
}

// inRedis is the formula of docs/operations.md for a key in Redis.
func inRedis(all []held) (bytes float64) {
	for _, h := range all {
		if h.entries == 0 { // a counter
			bytes += 180
		} else {
			bytes += 260 + 7*float64(h.entries)
		}
	}
	return bytes
}

// An example is a row of the table of sizes.
type example struct {
	store        string
	held         []held
	key, hundred float64
}

var exampleRow = regexp.MustCompile("(?m)^\\| (memory|Redis) \\| (`.*`) \\| ([\\d, ]+) \\| (\\d+) \\| ([\\d.]+) MB \\|$")

func examples(t *testing.T) (all []example) {
	t.Helper()
	for _, row := range exampleRow.FindAllStringSubmatch(readFile(t, "docs", "operations.md"), -1) {
		e := example{store: row[1], key: number(t, row[4]), hundred: number(t, row[5])}
		entries := strings.Split(row[3], ", ")
		for i, text := range strings.Fields(strings.ReplaceAll(row[2], "`", "")) {
			limit, err := slidegate.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			e.held = append(e.held, held{limit, int(number(t, entries[i]))})
		}
		all = append(all, e)
	}
	if len(all) != 6 {
		t.Fatalf("%d examples are read", len(all))
	}
	return all
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, " ", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// formula is what a key of an example takes by the formula of its store.
func (e example) formula() float64 {
	if e.store == "memory" {
		return inMemory(e.held)
	}
	return inRedis(e.held)
}

// TestExamplesAreByTheFormula: the page and this file have the same formulas, and the numbers follow from them.
func TestExamplesAreByTheFormula(t *testing.T) {
	page := readFile(t, "docs", "operations.md")
	for _, formula := range []string{
		"    1.25 × keys × (64 + 24 × limits + the sum over logs of more than one entry of (128 + 8 × room)) bytes\n",
		"    keys × the sum over the limits of (260 + 7 × entries) bytes\n\nwith 180 for a counter",
	} {
		if !strings.Contains(page, formula) {
			t.Errorf("the page does not have\n%s", formula)
		}
	}
	largest := map[string]float64{}
	for _, e := range examples(t) {
		if got := math.Round(e.formula()); got != e.key || math.Abs(e.hundred-got/10) > 0.001 {
			t.Errorf("%s, %v: %v bytes a key, and the page says %v and %v MB for 100 000", e.store, e.held, got, e.key, e.hundred)
		}
		largest[e.store] = max(largest[e.store], e.hundred)
	}
	want := fmt.Sprintf("need %.0f MB for a process that holds them in memory, or `maxmemory` %.0f MB.", 2*largest["memory"]+46, 1.5*largest["Redis"])
	if !strings.Contains(page, want) {
		t.Errorf("the page does not say: %s", want)
	}
}

// TestTheCPUOfRedisIsAsMeasured: the example is by the table of docs/redis.md.
func TestTheCPUOfRedisIsAsMeasured(t *testing.T) {
	measured := regexp.MustCompile(`(?m)^\| 16, each by itself \| ([\d.]+) \|`).FindStringSubmatch(readFile(t, "docs", "redis.md"))
	if measured == nil {
		t.Fatal("docs/redis.md does not have the row")
	}
	want := fmt.Sprintf("at %s µs, are %.2f of a core", measured[1], 20_000*number(t, measured[1])/1e6)
	if !strings.Contains(strings.ReplaceAll(readFile(t, "docs", "operations.md"), "\n", " "), want) {
		t.Errorf("docs/operations.md does not say: %s", want)
	}
}

// TestTheFormulaIsNoLessThanTheTable of docs/redis.md, which has what MEMORY USAGE says: a key with an expiry takes
// as much in the tables of the server beside.
func TestTheFormulaIsNoLessThanTheTable(t *testing.T) {
	const beside = 56
	rows := regexp.MustCompile(`(?m)^\| a log of ([\d ]+) entr(?:y|ies) \| ([\d ]+) \|$`).FindAllStringSubmatch(readFile(t, "docs", "redis.md"), -1)
	for _, row := range rows {
		entries, most := number(t, row[1]), number(t, row[2])
		if said := inRedis([]held{{slidegate.PerHour(1), int(entries)}}); said < most+beside {
			t.Errorf("%v entries: by the formula %v bytes, by the table %v and %d beside", entries, said, most, beside)
		}
	}
	if len(rows) < 5 {
		t.Errorf("only %d rows are read", len(rows))
	}
}

// A clock is told the time.
type clock struct{ now time.Time }

func newClock() *clock           { return &clock{time.UnixMilli(1_796_032_800_000)} }
func (c *clock) time() time.Time { return c.now }

// fill charges keys so that each has the entries that are wanted: of two limits, the first ones in the last second.
func fill(t *testing.T, store slidegate.Store, c *clock, keys int, all []held) {
	t.Helper()
	limits := make([]slidegate.Limit, len(all))
	for i, h := range all {
		limits[i] = h.limit
	}
	l := slidegate.MustNew(store, limits...)
	charge := func() {
		for k := range keys {
			d, err := l.Take(background, fmt.Sprintf("ip:203.%d.%d.%d", k>>16, k>>8&255, k&255))
			if err != nil || !d.Allowed {
				t.Fatal(d.Allowed, err)
			}
		}
	}
	for i := range max(1, all[len(all)-1].entries) {
		if i > 0 {
			c.now = c.now.Add(time.Minute)
		}
		charge()
	}
	for range all[0].entries - 1 {
		c.now = c.now.Add(17 * time.Millisecond)
		if len(all) > 1 {
			charge()
		}
	}
}

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func measuredInMemory(t *testing.T, all []held) float64 {
	const keys = 8000
	c := newClock()
	store := memstore.New(memstore.WithClock(c.time))
	before := heap()
	fill(t, store, c, keys, all)
	took := heap() - before
	goruntime.KeepAlive(store)
	return float64(took) / keys
}

func measuredInRedis(t *testing.T, all []held) float64 {
	keys := 1000
	if all[0].entries <= 2 {
		keys = 4000 // so that what the server needs for itself does not show
	}
	server := redistest.Standalone(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1})
	defer client.Close()
	c := newClock()
	store := redisstore.New(goredis.New(client), redisstore.WithClock(c.time), redisstore.WithTimeout(patience))
	fill(t, store, c, 1, all) // connect, and load the script
	server.Do("FLUSHDB")
	before := server.Info("memory")["used_memory"]
	fill(t, store, c, keys, all)
	return (number(t, server.Info("memory")["used_memory"]) - number(t, before)) / float64(keys)
}

// TestSizesAreNoLargerThanSaid, nor so much smaller that the formula would mislead.
func TestSizesAreNoLargerThanSaid(t *testing.T) {
	cases := examples(t)
	sustained := cases[0].held[1].limit
	for _, store := range []string{"memory", "Redis"} {
		for _, entries := range []int{1, 16, 33} {
			cases = append(cases, example{store: store, held: []held{{sustained, entries}}})
		}
	}
	cases = append(cases, example{store: "Redis", held: []held{{sustained, 2}}})
	for _, e := range cases {
		measure := map[string]func(*testing.T, []held) float64{"memory": measuredInMemory, "Redis": measuredInRedis}[e.store]
		took, said := measure(t, e.held), e.formula()
		t.Logf("%s, %v: %.0f bytes a key, by the formula %.0f", e.store, e.held, took, said)
		if took > said || took < said/3 {
			t.Errorf("%s, %v: %.0f bytes a key, by the formula %.0f", e.store, e.held, took, said)
		}
	}
}

// TestAHandfulTakesNoMoreThanOne: up to four charges minutes apart take in memory what the formula says of one.
func TestAHandfulTakesNoMoreThanOne(t *testing.T) {
	sustained := examples(t)[0].held[1].limit
	one := example{store: "memory", held: []held{{sustained, 1}}}.formula()
	for _, entries := range []int{2, 3, 4} {
		if took := measuredInMemory(t, []held{{sustained, entries}}); took > one {
			t.Errorf("%d entries: %.0f bytes a key, of one by the formula %.0f", entries, took, one)
		}
	}
}

// TestHowLongKeysAreHeld: a log's for a window after the last charge, a counter's for up to two.
func TestHowLongKeysAreHeld(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.PerHour(10), slidegate.PerHour(10).Counter()} {
		c := newClock()
		store := memstore.New(memstore.WithClock(c.time))
		d, err := slidegate.MustNew(store, limit).TakeN(background, "a", 10)
		if err != nil {
			t.Fatal(err)
		}
		longest := limit.Window
		if limit.Algorithm == slidegate.SlidingCounter {
			longest *= 2
		}
		if r := d.ResetAfter(); r > longest || r <= longest-limit.Window/2 {
			t.Errorf("%v: held for %v, want up to %v", limit, r, longest)
		}
	}
}
