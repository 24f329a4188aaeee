// Package explain tells why a request of a log would have been refused: by which limit, what filled its window, what has
// to leave first, and when the request would have been admitted.
package explain

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/operate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
)

const long = `Explain tells why a request of a log would have been refused: by which rule and limit, which requests
filled its window, which of them has to leave first and when, and from when on the request would
have been admitted. Nothing is sent anywhere.

KEY is who is counted, as reports name it: an address, or the key of a rule as it is stored. The request
is the first of that key that is refused, or the first at --at or after it; --refusal says which one
if not the first.

With --limit what others did is passed over, since keys know nothing of each other. With --config all
requests are decided, since several clients may share the key of a rule.

With --server and no log it asks a running server how the key stands now, what counts against it and
when that leaves, as admin inspect does.`

const example = `  slidegate explain 203.0.113.9 --limit 60/1m access.log.gz
  slidegate explain ip:203.0.113.9 --config rules.yaml --at 2026-11-30T10:00:00Z access.log
  slidegate explain 203.0.113.9 --limit burst=10/1s --limit 100/1m --refusal 3 --json access.log
  slidegate explain ip:203.0.113.9 --server unix:/run/slidegate/admin.sock`

// options are what the command was told, as text.
type options struct {
	limits  []string
	config  string
	at      string
	refusal int

	server, tokenFile string

	json   bool
	source source.Flags
}

// Command returns the command "explain".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "explain KEY (--limit LIMIT… | --config FILE) LOG…|- | KEY --server PLACE",
		Short:   "Tell why a request of a log would have been refused",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.asksServer(cmd, args) {
				return o.ask(cmd, args)
			}
			r, err := o.search(args, cmd.Flags().Changed("key"), cmd.InOrStdin())
			if err != nil {
				return err
			}
			r.stderr = cmd.ErrOrStderr()
			var found *Explanation
			err = source.Interruptible(cmd.Context(), func(ctx context.Context) (err error) {
				found, err = r.run(ctx)
				return err
			})
			if err != nil {
				return err
			}
			write := found.write
			if o.json {
				write = found.writeJSON
			}
			return cmp.Or(write(cmd.OutOrStdout()), r.cut)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.limits, "limit", nil, config.LimitsUsage)
	f.StringVar(&o.config, "config", "", "the `file` of rules that serve would go by, in the place of --limit (default: none)")
	f.StringVar(&o.at, "at", "", "the `time` from which on to look for a refusal, as in 2026-11-30T10:00:00Z (default: the beginning of the log)")
	f.IntVar(&o.refusal, "refusal", 1, "which refusal to explain, counted from 1")
	f.StringVar(&o.server, "server", "", "where the admin door of a running server is, unix:/`PATH` or http://HOST:PORT, in the place of a log (default: none)")
	f.StringVar(&o.tokenFile, "admin-token-file", "", "the `file` with its token, which may also be in $"+config.AdminToken+" (default: none is shown)")
	f.BoolVar(&o.json, "json", false, "print the explanation as a JSON object, with every request that filled a window")
	o.source.Add(cmd)
	return cmd
}

// asksServer tells whether a server is asked. A variable may say where one is for other commands: it is no mistake with a log.
func (o *options) asksServer(cmd *cobra.Command, args []string) bool {
	return o.server != "" && (len(args) == 1 || config.IsOnCommandLine(cmd.Flags().Lookup("server")))
}

// ask asks a running server.
func (o *options) ask(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return config.Usagef("explain --server: %d arguments: allowed is a key: a server has no log to read", len(args))
	}
	err := config.RefuseFlags(cmd.Flags(), "it is about a log, and --server asks a running server",
		"limit", "config", "at", "refusal", "format", "field", "columns", "key", "strict", "spread")
	if err != nil {
		return err
	}
	text, err := operate.Inspect(cmd.Context(), o.server, o.tokenFile, args[0], o.json)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// search turns text into a search, or says what is wrong with it.
func (o *options) search(args []string, hasKey bool, stdin io.Reader) (*search, error) {
	switch {
	case len(args) < 2:
		return nil, config.Usagef("explain: %d arguments: allowed are a key and at least one log, or - for standard input", len(args))
	case o.config != "" && len(o.limits) > 0:
		return nil, config.Usagef("--limit with --config: limits stand in the rules of the file: give one of the two")
	case o.refusal < 1:
		return nil, config.Usagef("--refusal %d: allowed is a whole number from 1", o.refusal)
	}
	s := &search{nth: o.refusal, key: args[0]}
	if o.at != "" {
		at, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return nil, config.Usagef("--at %q: allowed is a time such as 2026-11-30T10:00:00Z", o.at)
		}
		s.from = at.UnixMilli()
		s.hasFrom = true
	}
	key := ""
	if hasKey {
		key = o.source.Key
	}
	read := func() (*rehearse.Policy, error) { return rehearse.Limits(o.limits, key) }
	if o.config != "" {
		read = func() (*rehearse.Policy, error) { return rehearse.File(o.config, key) }
	}
	var err error
	if s.policy, err = read(); err != nil {
		return nil, err
	}
	if s.source, err = o.source.Parse("explain", args[1:], stdin); err != nil {
		return nil, err
	}
	s.book = rehearse.NewBook(s.policy)
	s.source.Ask(s.subjects)
	return s, nil
}
