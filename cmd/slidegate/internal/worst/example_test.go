package worst_test

import (
	"fmt"
	"os"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/worst"
)

func ExampleCommand() {
	cmd := worst.Command()
	cmd.SetArgs([]string{"10/1s,counter"})
	cmd.SetOut(os.Stdout)
	if err := cmd.Execute(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 10/1s,counter, which counts by a sliding counter
	//           worst  bound  quotas  witness
	// log          10     10    1.00  10 at 0s
	// counter      20     20    2.00  10 at 999ms, 10 at 1.901s
	// fixed        20     20    2.00  10 at 999ms, 10 at 1s
	// gcra         19     19    1.90  10 at 0s, 9 at 999ms
}

func ExampleSearch() {
	policy := []slidegate.Limit{
		slidegate.PerSecond(10).Named("burst"),
		slidegate.PerMinute(100).Counter().Named("sustained"),
	}
	found, err := worst.Search(policy, 1, worst.Counter)
	if err != nil {
		fmt.Println(err)
		return
	}
	last := len(found.Witness) - 1
	fmt.Printf("%d of at most %d, from %d ms to %d ms\n", found.Worst, found.Bound, found.Witness[0].T, found.Witness[last].T)
	// Output: 185 of at most 185, from 50625 ms to 110624 ms
}
