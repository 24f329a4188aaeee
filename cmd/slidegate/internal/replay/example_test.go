package replay_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

func ExampleCommand() {
	cmd := replay.Command()
	cmd.SetArgs([]string{"--limit", "2/1s", "--format", "jsonl", "-"})
	cmd.SetIn(strings.NewReader(`{"t": "2026-11-30T10:00:00.100Z", "key": "a"}
{"t": "2026-11-30T10:00:00.200Z", "key": "a"}
{"t": "2026-11-30T10:00:00.300Z", "key": "a"}
{"t": "2026-11-30T10:00:01.100Z", "key": "a"}
`))
	cmd.SetOut(os.Stdout)
	if err := cmd.Execute(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// standard input, read as jsonl
	// 2026-11-30T10:00:00.1Z to 2026-11-30T10:00:01.1Z
	//
	// events        4
	// admitted      3   75.0 %
	// refused       1   25.0 %
	//   by 2/1s     1
	// keys          1
	// keys refused  1  100.0 %
	// out of order  0
	// unreadable    0
	//
	// worst keys       refused      admitted
	// a                      1             3
}
