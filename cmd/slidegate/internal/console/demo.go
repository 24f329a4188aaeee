package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

func demo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show ten requests at one instant against a limit of three",
		Long:  "Demo sends ten requests at one instant, on a clock that stands still, to a limit of three a second, and prints the verdicts.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store := memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(0) }))
			limiter, err := slidegate.New(store, slidegate.PerSecond(3))
			if err != nil {
				return err
			}
			verdicts := make([]string, 10)
			for i := range verdicts {
				ok, err := limiter.Allow(cmd.Context(), "demo")
				if err != nil {
					return err
				}
				verdicts[i] = fmt.Sprint(ok)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(verdicts, ","))
			return err
		},
	}
}
