package redisscript

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// sizes are those of packed numbers: bytes, what the first of them says, and the least number that does not fit.
var sizes = []struct {
	bytes int
	head  uint64
	below int64
}{{1, 0, 1 << 7}, {2, 0x80, 1 << 14}, {3, 0xC0, 1 << 21}, {4, 0xE0, 1 << 28}, {5, 0xF0, 1 << 35}, {6, 0xF8, 1 << 42}, {8, 0xFC, 1 << 53}}

// packed writes a number as the format has it.
func packed(n int64) string {
	for _, size := range sizes {
		if n < size.below {
			return string(bigEndian(size.head<<(8*(size.bytes-1))+uint64(n), size.bytes))
		}
	}
	return ""
}

// TestNumbersArePacked in the very bytes that the format says, up to the largest that a double holds, and read back; of one
// that is cut short nothing is read.
func TestNumbersArePacked(t *testing.T) {
	shared, _, ok := strings.Cut(source(t, "reset"), "-- reset forgets")
	if !ok {
		t.Fatal("what the scripts share does not end before the script")
	}
	server := redistest.Standalone(t)
	script := shared + `
local s = put(tonumber(ARGV[1]))
local n, after = get('\0' .. s .. '\255', 2)
local short = 0
for size = 0, #s - 1 do
  if get(s:sub(1, size), 1) == nil then short = short + 1 end
end
local units, gap, stop = next_entry(put(2 * 5 + 1) .. s, 1)
return {s, string.format('%.0f', n), after, short, string.format('%.0f', units), gap, stop}`
	from := int64(0)
	for _, size := range sizes {
		for _, n := range []int64{from, from + 1, (from + size.below) / 2, size.below - 2, size.below - 1} {
			reply, ok := server.Do("EVAL", script, "0", decimal(n)).([]any)
			if !ok || len(reply) != 7 {
				t.Fatalf("%d: %v", n, reply)
			}
			bytes := int64(size.bytes)
			want := []any{packed(n), decimal(n), 2 + bytes, bytes, decimal(n), int64(5), 2 + bytes}
			for i := range want {
				if reply[i] != want[i] {
					t.Errorf("%d: bytes, number, end, what was cut short, units, gap, end are %v, want %v", n, reply, want)
					break
				}
			}
		}
		from = size.below
	}
}

// TestNumbersThatTakeAByteMore: charges that are as long apart, and counters of as many units, as a number of so many bytes can
// say, or just not.
func TestNumbersThatTakeAByteMore(t *testing.T) {
	server := redistest.Standalone(t)
	log, counter := slidegate.PerDay(100).Named("log"), slidegate.PerDay(1<<30).Named("counter").Counter()
	for _, bits := range []int{6, 7, 13, 14, 20, 21} {
		for n := int64(1<<bits - 1); n <= 1<<bits+1; n++ {
			s := newScripts(t, server, newClock())
			s.prefix = decimal(n)
			logs, counters := newTwins(s, []slidegate.Limit{log}), newTwins(s, []slidegate.Limit{counter})
			for _, step := range []struct {
				twins   *twins
				advance int64
				cost    int64
			}{
				{logs, 0, 1}, {logs, n, 1}, {logs, 1, 1}, {logs, n, 2}, {logs, n, 1},
				{counters, 0, n - 1}, {counters, 0, 1}, {counters, 0, 1},
				{counters, counter.Window.Milliseconds(), 1}, {counters, 0, 1}, {counters, 0, 1},
			} {
				step.twins.advance(step.advance)
				if err := step.twins.take(0, "k", step.cost); err != nil {
					t.Fatal(err)
				}
				if err := step.twins.agree(step.twins.limits[0][0], 90); err != nil {
					t.Fatalf("%d: %v", n, err)
				}
			}
			if s.replaced > 0 {
				t.Errorf("%d: %d values of our own were not understood", n, s.replaced)
			}
		}
	}
}
