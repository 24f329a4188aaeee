// Package operate is the commands that speak to the admin door of a running server, for people at a terminal.
package operate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// The statuses that the program ends with, beside those of all commands.
const (
	statusRefused     = 1
	statusUnavailable = 3
)

// A verb is one of the commands.
type verb struct {
	name, args, short, path string
	member                  string // of every answer of a server
	hasRule                 bool   // it may be about one rule
	isList                  bool   // of charges that may be cut
	hasReason               bool
	print                   func(answer []byte) (string, error)
}

var inspect = verb{name: "inspect", args: "KEY", short: "Show how a key stands, what counts against it, and when that leaves", path: "/v1/inspect", member: "rules", hasRule: true, isList: true, print: printInspection}

var verbs = []verb{
	inspect,
	{name: "reset", args: "KEY", short: "Forget a key in every limit", path: "/v1/reset", member: "rules", hasRule: true, print: printReset},
	{name: "ban", args: "KEY LENGTH", short: "Refuse a key for a length of time, such as 1h", path: "/v1/ban", member: "until_t", hasReason: true, print: printBan},
	{name: "unban", args: "KEY", short: "End the bans of a key", path: "/v1/unban", member: "banned", print: printUnban},
	{name: "bans", short: "List the bans that are known", path: "/v1/bans", member: "bans", print: printBans},
	{name: "refusals", short: "List the refusals that came last, with the reason", path: "/v1/refusals", member: "refusals", print: printRefusals},
	{name: "rules", short: "Show the rules that hold, in JSON", path: "/v1/rules", member: "rules", print: printRules},
}

// Command returns the command "admin" with its verbs.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin VERB",
		Short: "Look into the keys of a running server, reset, ban and unban them",
		Long: `Admin asks the admin door of a running server, which serve opens with --admin. Through a socket
(unix:/PATH) whoever may use it may ask; at HOST:PORT it takes the token that serve was given.

KEY is the very key, such as ip:203.0.113.9. Every change is written to the server's audit log.

It ends with 0 if it was done, 1 if the server would not, 2 if it was called wrongly, and 3 if the
server could not be asked.`,
		Example: `  slidegate admin inspect ip:203.0.113.9 --server unix:/run/slidegate/admin.sock
  slidegate admin ban ip:203.0.113.9 1h --reason scraping --server http://127.0.0.1:9090`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return config.Usagef("admin: unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, v := range verbs {
		sub := v.command()
		config.Describe(sub)
		cmd.AddCommand(sub)
	}
	return cmd
}

// options are what a command was told, as text.
type options struct {
	server, tokenFile, rule, plan, reason string
	charges                               int
	json                                  bool
}

func (v verb) command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:               strings.TrimSpace(v.name + " " + v.args),
		Short:             v.short,
		Args:              v.checkArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, v, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.server, "server", "", "where the server's admin door is: unix:/`PATH` or http://HOST:PORT")
	f.StringVar(&o.tokenFile, "admin-token-file", "", "the `file` with its token, which may also be in $"+config.AdminToken+" (default: none is shown)")
	f.BoolVar(&o.json, "json", false, "print what the server answers, in JSON")
	if v.hasRule {
		f.StringVar(&o.rule, "rule", "", "the `name` of a rule, such as shop/login (default: all rules)")
		f.StringVar(&o.plan, "plan", "", "the `name` of a plan of it (default: that of the key)")
	}
	if v.isList {
		f.IntVar(&o.charges, "charges", defaultCharges, "how many charges of a limit to list, 0 to 10000")
	}
	if v.hasReason {
		f.StringVar(&o.reason, "reason", "", "why, in words for the list of bans and the audit log (default: none)")
	}
	return cmd
}

func (v verb) checkArgs(_ *cobra.Command, args []string) error {
	want := strings.Fields(v.args)
	if len(args) != len(want) || len(args) > 0 && args[0] == "" {
		if len(want) == 0 {
			return config.Usagef("admin %s: it takes no argument", v.name)
		}
		return config.Usagef("admin %s: name %s, such as ip:203.0.113.9%s", v.name, v.args, map[bool]string{true: " 1h"}[len(want) > 1])
	}
	if len(args) == 2 {
		if _, err := slidegate.ParseDuration(args[1]); err != nil {
			return config.Usagef("admin %s: LENGTH %q: allowed is a duration such as 1h", v.name, args[1])
		}
	}
	return nil
}

// body is what a verb asks; nil for one that takes nothing.
func (o *options) body(v verb, args []string) map[string]any {
	if len(args) == 0 {
		return nil
	}
	body := map[string]any{"key": args[0]}
	for name, value := range map[string]string{"rule": o.rule, "plan": o.plan, "reason": o.reason} {
		if value != "" {
			body[name] = value
		}
	}
	if v.isList {
		body["charges"] = o.charges
	}
	if len(args) > 1 {
		body["length"] = args[1]
	}
	return body
}

func (o *options) run(cmd *cobra.Command, v verb, args []string) error {
	text, err := o.ask(cmd.Context(), v, args)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// ask returns what a server answers, in words or as it is.
func (o *options) ask(ctx context.Context, v verb, args []string) (string, error) {
	server, err := newServer(o.server, o.tokenFile)
	if err != nil {
		return "", err
	}
	answer, err := server.ask(ctx, v.path, o.body(v, args))
	if err != nil {
		return "", err
	}
	text := string(answer)
	if !isAnswer(answer, v.member) {
		return "", server.unavailable(errStranger)
	}
	if !o.json {
		if text, err = v.print(answer); err != nil {
			return "", server.unavailable(errStranger)
		}
	}
	return text, nil
}

// Inspect asks a server how a key stands and what counts against it, and returns that in words or in JSON.
func Inspect(ctx context.Context, server, tokenFile, key string, asJSON bool) (string, error) {
	o := options{server: server, tokenFile: tokenFile, json: asJSON, charges: defaultCharges}
	return o.ask(ctx, inspect, []string{key})
}

// defaultCharges is how many charges of a limit are listed.
const defaultCharges = 20

var errStranger = errors.New("what answers there is no admin door of slidegate")

// isAnswer tells whether an object has a member. Whatever serves at an address may answer in JSON.
func isAnswer(answer []byte, member string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(answer, &object) == nil && object[member] != nil
}
