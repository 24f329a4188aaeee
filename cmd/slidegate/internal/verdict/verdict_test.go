package verdict

import (
	"encoding/json"
	"testing"
)

// TestKeysAreJSON, whatever is in them.
func TestKeysAreJSON(t *testing.T) {
	for _, key := range []string{"a", `"`, `\`, "é", "\x00\x1f", "<&>", "\u2028", "\x7f", "😀"} {
		var got struct {
			T, Cost int64
			Op, Key string
			OK      bool
		}
		line := AppendReset(nil, &Request{Time: -1, Op: "reset", Key: key, Cost: 2})
		if err := json.Unmarshal(line, &got); err != nil || got.Key != key || got.T != -1 || got.Op != "reset" || got.Cost != 2 || !got.OK || line[len(line)-1] != '\n' {
			t.Errorf("%q became %s", key, line)
		}
	}
}
