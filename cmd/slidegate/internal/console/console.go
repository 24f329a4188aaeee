// Package console is the command line: the commands, their errors, and what the program ends with.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
	"github.com/slidegate/slidegate/memstore"
)

// Version is set by the release build; otherwise it is what the build knows of itself.
var Version = ""

// The statuses that the program ends with.
const (
	statusOK      = 0
	statusFailure = 1 // something went wrong while it ran
	statusUsage   = 2 // it was asked for what cannot be done, and did nothing
)

// Run runs the command line and returns the status to end with. Errors are one sentence on stderr.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	started := false
	root := command(&started)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return statusOK
	}
	fmt.Fprintf(stderr, "slidegate: %s\n", sentence(err))
	var usage *config.UsageError
	if errors.As(err, &usage) || errors.Is(err, slidegate.ErrInvalidLimit) || !started {
		fmt.Fprintln(stderr, "Run 'slidegate --help' or 'slidegate COMMAND --help' for what is possible.")
		return statusUsage
	}
	return statusFailure
}

// sentence is an error on one line, without the program's name in it.
func sentence(err error) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "slidegate: ", "")
}

func command(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "slidegate",
		Short: "Exact rate limits by sliding windows, in front of anything",
		Long: `Slidegate holds clients to limits by sliding windows: exactly, with all limits of a
request charged or none, and with a time to retry that is true to the millisecond.

  serve    stands in front of a service, or answers itself, and refuses what is too much
  replay   runs a log through the same limits: who would have been refused, and when
  demo     shows ten requests against a limit of three

A limit is written [name=]QUOTA/WINDOW[,counter][,resolution=DUR]. Windows are written
500ms, 10s, 15m, 1h, 7d. A log, the default, is exact; a counter takes constant memory and
lets up to twice the quota through one true window to somebody who tries.`,
		Example: `  slidegate serve --limit burst=20/1s --limit sustained=100/1m
  slidegate serve --limit 100/1m --upstream http://127.0.0.1:3000 --listen :8080 --admin 127.0.0.1:9090
  slidegate replay --limit 60/1m access.log.gz`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*started = true
			return config.Environment(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("slidegate {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &config.UsageError{Err: fmt.Errorf("%s: %w", cmd.Name(), err)}
	})
	for _, sub := range []*cobra.Command{serve.Command(), replay.Command(), demo()} {
		config.Describe(sub)
		root.AddCommand(sub)
	}
	return root
}

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

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
