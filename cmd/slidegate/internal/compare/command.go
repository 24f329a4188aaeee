// Package compare holds a log to two policies and tells what differs: which requests and which clients.
package compare

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

const long = `Compare holds the requests of a log to two policies, each as if it were alone, and tells which
requests and which clients they treat differently. Nothing is sent anywhere.

A policy is limits with ; between them, as in 'burst=10/1s;100/1m', or the name of a file of rules,
which is read as serve reads it. A file whose name looks like a limit is written ./NAME.

The status is 0 where every request has the same verdict, 1 where one has not, and 2 where
something is wrong, as that of diff is.`

const example = `  slidegate compare rules.yaml rules.new.yaml access.log.gz
  slidegate compare 60/1m 'burst=10/1s;100/1m' access.log access.log.1
  slidegate compare 60/1m 60/1m,counter --json access.log`

const (
	statusDifferent = 1
	statusTrouble   = 2
)

// Command returns the command "compare".
func Command() *cobra.Command {
	var flags source.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "compare A B LOG…|-",
		Short:   "Hold a log to two policies and tell what differs",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 3 {
				return config.Usagef("compare: %d arguments: allowed are two policies and at least one log, or - for standard input", len(args))
			}
			key := ""
			if cmd.Flags().Changed("key") {
				key = flags.Key
			}
			c := comparison{stderr: cmd.ErrOrStderr()}
			if err := c.parse(&flags, args, key, cmd.InOrStdin()); err != nil {
				return trouble(err)
			}
			var report *Report
			err := source.Interruptible(cmd.Context(), func(ctx context.Context) (err error) {
				report, err = c.run(ctx)
				return err
			})
			if err != nil {
				return trouble(err)
			}
			write := report.write
			if asJSON {
				write = report.writeJSON
			}
			if err := cmp.Or(write(cmd.OutOrStdout()), c.cut); err != nil {
				return trouble(err)
			}
			if report.differs() {
				return &config.ExitError{Status: statusDifferent}
			}
			return nil
		},
	}
	flags.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as a JSON object")
	return cmd
}

// trouble is an error whose status is not that of a difference.
func trouble(err error) error {
	var problems rules.Problems
	var usage *config.UsageError
	if errors.As(err, &problems) || errors.As(err, &usage) {
		return err
	}
	return &config.ExitError{Status: statusTrouble, Err: err}
}

// A comparison is one call of the command, checked.
type comparison struct {
	policies [2]*rehearse.Policy
	source   *source.Source
	book     *rehearse.Book
	stderr   io.Writer
	cut      error // of a file that could not be read to its end
}

func (c *comparison) parse(flags *source.Flags, args []string, key string, stdin io.Reader) (err error) {
	for i := range c.policies {
		if c.policies[i], err = rehearse.Parse(args[i], key); err != nil {
			return err
		}
	}
	if c.source, err = flags.Parse("compare", args[2:], stdin); err != nil {
		return err
	}
	c.book = rehearse.NewBook(c.policies[0], c.policies[1])
	c.source.Ask(c.book.Subjects)
	return nil
}

// run reads the log and decides it twice.
func (c *comparison) run(ctx context.Context) (*Report, error) {
	l, tl, err := c.source.Read(ctx, c.stderr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer tl.Close()
	if err := cmp.Or(c.policies[0].Missed(), c.policies[1].Missed()); err != nil && tl.Len() > 0 {
		return nil, err
	}
	c.book.Of(&tl.Subjects)
	t := &tally{}
	if err := c.decide(ctx, tl, t); err != nil {
		return nil, err
	}
	if err := source.NothingRead(l, tl); err != nil {
		return nil, err
	}
	c.cut = source.CutShort(l)
	return newReport(c, l, tl, t), nil
}

func (c *comparison) decide(ctx context.Context, tl *timeline.Timeline, t *tally) error {
	var judges [2]*rehearse.Judge
	var memories [2]*rehearse.Memory
	for i, p := range c.policies {
		var err error
		if judges[i], memories[i], err = p.Judge(rehearse.AsGiven, i); err != nil {
			return err
		}
	}
	err := source.Each(ctx, c.stderr, "deciding", tl, func(e *timeline.Event) error {
		asked := c.book.Asked(e)
		var refused [2]bool
		for i, judge := range judges {
			v, err := judge.Decide(ctx, e, asked)
			if err != nil {
				return err
			}
			refused[i] = !v.Admitted
		}
		if e.Op == accesslog.Take { // a peek asks for nothing, and a reset is no request
			t.take(e, asked.Client, refused)
		}
		return nil
	})
	return cmp.Or(err, memories[0].Forgotten(), memories[1].Forgotten())
}
