// Package console is the command line: the commands, their errors, and what the program ends with.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/ask"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/compare"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/explain"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/operate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	rlsrules "github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/sweep"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/worst"
)

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
	var exit *config.ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return exit.Status
	}
	if lines := problems(err); lines != "" {
		fmt.Fprintln(stderr, lines)
		return statusUsage
	}
	fmt.Fprintf(stderr, "slidegate: %s\n", sentence(err))
	if exit != nil {
		return exit.Status
	}
	var usage *config.UsageError
	if errors.As(err, &usage) || errors.Is(err, slidegate.ErrInvalidLimit) || !started {
		fmt.Fprintln(stderr, "Run 'slidegate --help' or 'slidegate COMMAND --help' for what is possible.")
		return statusUsage
	}
	return statusFailure
}

// problems are what is wrong with files that the command is about: a line each, which begins with the file and the line in
// it. Of other errors there are none.
func problems(err error) string {
	if wrong, ok := err.(rlsrules.Problems); ok {
		return strings.Join(wrong, "\n")
	}
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		return wrong.Error()
	}
	return ""
}

// sentence is an error on one line, without the program's name in it, and without the password of a
// URL, which may be where none belongs. What is wrong with rule files has a line each.
func sentence(err error) string {
	if errors.Is(err, rlsrules.ErrInvalid) {
		return err.Error()
	}
	text := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "slidegate: ", "")
	return credentials.ReplaceAllString(text, "${1}xxxxx@")
}

var credentials = regexp.MustCompile(`(://[^\s/:@]*:)\S*@`)

const long = `Slidegate holds clients to limits by sliding windows: exactly, with all limits of a
request charged or none, and with a time to retry that is true to the millisecond.

  serve    stands in front of a service, or answers itself, and refuses what is too much
  check    says what is wrong with a file of rules, and diff what a change of it means
  replay   runs a log through the same limits: who would have been refused, and when
  compare  says what two policies would do differently on a log
  explain  says why a request of a log would have been refused, and until when
  sweep    tries many limits on a log at once, and advises one
  worst    searches for what gets the most through one window of a limit
  peek     shows how a key stands in Redis; take and reset change it
  admin    looks into the keys of a running server, resets, bans and unbans them
  demo     shows ten requests against a limit of three

A limit is written [name=]QUOTA/WINDOW[,counter][,resolution=DUR]. Windows are written
500ms, 10s, 15m, 1h, 7d. A log, the default, is exact; a counter takes constant memory and
lets up to twice the quota through one true window to somebody who tries.

Every flag is also an environment variable: --on-store-error is SLIDEGATE_ON_STORE_ERROR.
Read on in docs/command.md, or at https://github.com/slidegate/slidegate.`

// command makes the commands. started becomes true once the command line has been understood.
func command(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "slidegate",
		Short: "Exact rate limits by sliding windows, in front of anything",
		Long:  long,
		Example: `  slidegate serve --limit burst=20/1s --limit sustained=100/1m
  slidegate serve --limit 100/1m --upstream http://127.0.0.1:3000 --listen :8080 --admin 127.0.0.1:9090
  slidegate serve --limit 100/1m --store redis://127.0.0.1:6379/0
  slidegate serve --config rules.yaml
  slidegate check rules.yaml
  slidegate peek ip:203.0.113.9 --limit 100/1m --store redis://127.0.0.1:6379/0
  slidegate replay --limit 60/1m access.log.gz`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*started = true
			for _, name := range config.Unknown(cmd.Root()) {
				fmt.Fprintf(cmd.ErrOrStderr(), "slidegate: the environment variable %s has no effect: no flag has that name\n", name)
			}
			return config.Environment(cmd)
		},
	}
	root.SetVersionTemplate("slidegate {{.Version}}\n")
	root.SetFlagErrorFunc(config.FlagError)
	commands := append(ask.Commands(), operate.Command(), serve.Command(version()), replay.Command(), sweep.Command(), compare.Command(), explain.Command(), worst.Command(), demo(), check(), diff())
	for _, sub := range commands {
		config.Describe(sub)
		root.AddCommand(sub)
	}
	root.SetHelpCommand(help())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		completion.RunE = showHelp // so that a shell nobody knows is an error
	}
	return root
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return config.Usagef("help: unknown command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
