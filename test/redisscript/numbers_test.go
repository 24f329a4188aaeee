package redisscript

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// TestNumbersArePacked in as many bytes as the format says, up to the largest that a double holds, and read back; of one that
// is cut short nothing is read.
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
return {#s, string.format('%.0f', n), after, short, string.format('%.0f', units), gap, stop}`
	from := int64(0)
	for _, size := range []struct{ bytes, below int64 }{{1, 1 << 7}, {2, 1 << 14}, {3, 1 << 21}, {4, 1 << 28}, {5, 1 << 35}, {6, 1 << 42}, {8, 1 << 53}} {
		for _, n := range []int64{from, from + 1, (from + size.below) / 2, size.below - 2, size.below - 1} {
			reply, ok := server.Do("EVAL", script, "0", decimal(n)).([]any)
			if !ok || len(reply) != 7 {
				t.Fatalf("%d: %v", n, reply)
			}
			want := []any{size.bytes, decimal(n), 2 + size.bytes, size.bytes, decimal(n), int64(5), 2 + size.bytes}
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
