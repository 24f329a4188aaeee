// Package ask is the commands that ask Redis about one key, for people at a terminal.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/verdict"
	"github.com/slidegate/slidegate/redisstore"
)

// The statuses that the program ends with, beside those of all commands. A script can tell a refusal
// from a call that was not answered.
const (
	statusRefused     = 1
	statusUnavailable = 3
)

// storeTimeout is how long Redis may take: somebody at a terminal waits, and connecting is part of it.
const storeTimeout = 5 * time.Second

// A verb is one of the commands.
type verb struct {
	name, short, long string
	hasCost           bool
	do                func(*request, context.Context) error
}

var verbs = []verb{
	{"peek", "Show how a key stands in Redis, and change nothing", `Peek shows how a key stands: of each limit what remains, when it is full again, and whether and
when a request would be admitted. It changes nothing.`, true, (*request).peek},
	{"take", "Spend units of a key in Redis, as a request would", `Take does what a request of the key would do: if every limit has room it is admitted and charged
in every one, otherwise it is refused and charged in none.`, true, (*request).take},
	{"reset", "Forget a key in Redis", `Reset forgets the key in every limit that is named: it is as one never seen.`, false, (*request).reset},
}

const about = `

KEY is the very key, such as ip:203.0.113.9. The limits are those that serve was given: state is
found by the key, and by a limit's name, algorithm and window, or by the text of one without a name.

It ends with 0 if the request was admitted%s, 1 if it was refused, 2 if it was called wrongly,
and 3 if Redis could not be asked.`

const aboutReset = `

KEY is the very key, such as ip:203.0.113.9. The limits are those that serve was given: state is
found by the key, and by a limit's name, algorithm and window, or by the text of one without a name.

It ends with 0 if it was done, 2 if it was called wrongly, and 3 if Redis could not be asked.`

// Commands returns the commands "peek", "take" and "reset".
func Commands() (all []*cobra.Command) {
	for _, v := range verbs {
		all = append(all, v.command())
	}
	return all
}

// options are what a command was told, as text.
type options struct {
	limits  []string
	storage storage.Flags
	cost    int64
	json    bool
}

func (v verb) command() *cobra.Command {
	var o options
	long := v.long + aboutReset
	if v.hasCost {
		long = v.long + fmt.Sprintf(about, map[string]string{"peek": " or would be"}[v.name])
	}
	cmd := &cobra.Command{
		Use:     v.name + " KEY --limit L … --store URL",
		Short:   v.short,
		Long:    long,
		Example: "  slidegate " + v.name + " ip:203.0.113.9 --limit burst=20/1s --limit sustained=100/1m --store redis://127.0.0.1:6379/0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return config.Usagef("%s: name one KEY, such as ip:203.0.113.9", v.name)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, v, args[0])
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.limits, "limit", nil, config.LimitsUsage)
	if v.hasCost {
		f.Int64Var(&o.cost, "cost", 1, "how many `units` the request spends")
	}
	f.BoolVar(&o.json, "json", false, "print a JSON object, as replay --verdicts does")
	o.storage.Add(cmd, storage.Defaults{Prefix: redisstore.DefaultPrefix, Timeout: storeTimeout})
	return cmd
}

// run does what was asked for, and closes what it opened.
func (o *options) run(cmd *cobra.Command, v verb, key string) error {
	redis, err := o.redis(v.name)
	if err != nil {
		return err
	}
	limits, err := config.Limits(o.limits)
	if err != nil {
		return err
	}
	if o.cost < 0 {
		return config.Usagef("--cost %d: allowed is a whole number from 0", o.cost)
	}
	client := redis.Client()
	defer client.Close()
	limiter, err := slidegate.New(redisstore.New(client, redis.Options()...), limits...)
	if err != nil {
		return config.Usagef("--limit: %w", err)
	}
	storage.Warn(cmd.ErrOrStderr(), redis)
	r := &request{limiter: limiter, json: o.json, out: cmd.OutOrStdout()}
	r.Op, r.Key, r.Cost = v.name, key, o.cost
	if err := v.do(r, cmd.Context()); errors.Is(err, slidegate.ErrUnavailable) {
		return &config.ExitError{Status: statusUnavailable, Err: fmt.Errorf("--store %s: %w", redis.Address, err)}
	} else {
		return err
	}
}

func (o *options) redis(name string) (*storage.Redis, error) {
	if o.storage.IsMemory() {
		return nil, config.Usagef("--store memory: that is the memory of the process that serves, and %s cannot look into it; name the Redis that it uses", name)
	}
	return o.storage.Redis()
}

// A request is what is asked about one key.
type request struct {
	verdict.Request
	limiter *slidegate.Limiter
	json    bool
	out     io.Writer
}

func (r *request) peek(ctx context.Context) error {
	d, err := r.limiter.PeekN(ctx, r.Key, r.Cost)
	return r.answer(&d, err)
}

func (r *request) take(ctx context.Context) error {
	d, err := r.limiter.TakeN(ctx, r.Key, r.Cost)
	return r.answer(&d, err)
}

func (r *request) reset(ctx context.Context) error {
	if err := r.limiter.Reset(ctx, r.Key); err != nil {
		return err
	}
	if r.json {
		r.Time, r.Cost = time.Now().UnixMilli(), 1
		return r.write(verdict.AppendReset(nil, &r.Request))
	}
	var names []string
	for _, l := range r.limiter.Limits() {
		names = append(names, l.String())
	}
	return r.write([]byte("forgotten in " + strings.Join(names, " and ") + "\n"))
}

// answer prints a decision. The error of a refusal has nothing to say: it was said.
func (r *request) answer(d *slidegate.Decision, err error) error {
	var cost *slidegate.CostError
	switch {
	case errors.As(err, &cost):
		err = r.printCostError(cost)
	case err != nil:
		return err
	case r.json:
		r.Time = d.At().UnixMilli()
		err = r.write(verdict.Append(nil, &r.Request, d))
	default:
		err = r.print(d)
	}
	if err == nil && !d.Allowed {
		err = &config.ExitError{Status: statusRefused}
	}
	return err
}

func (r *request) printCostError(cost *slidegate.CostError) error {
	if r.json {
		r.Time = time.Now().UnixMilli()
		return r.write(verdict.AppendCostError(nil, &r.Request))
	}
	return r.write([]byte(r.verdict(false) + ": " + strings.TrimPrefix(cost.Error(), "slidegate: ") + "\n"))
}

// verdict is what became of a request, in words.
func (r *request) verdict(isAllowed bool) string {
	word := map[bool]string{true: "admitted", false: "refused"}[isAllowed]
	if r.Op == "peek" {
		return "would be " + word
	}
	return word
}

func (r *request) print(d *slidegate.Decision) error {
	var text strings.Builder
	text.WriteString(r.verdict(d.Allowed))
	if !d.Allowed {
		fmt.Fprintf(&text, ", retry in %s", d.RetryAfter())
	}
	if r.Op == "peek" && isUntouched(d) {
		text.WriteString(": nothing is counted for this key")
	}
	text.WriteString("\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "limit\tquota\tremaining\treset\tretry")
	for i := range d.Len() {
		s := d.State(i)
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", s.Limit.Name, s.Limit.Quota, s.Remaining, s.ResetIn, s.RetryIn)
	}
	_ = table.Flush() // a builder takes everything
	return r.write([]byte(text.String()))
}

// isUntouched tells whether nothing is charged in any limit: a key that was never seen, or misspelled.
func isUntouched(d *slidegate.Decision) bool {
	for i := range d.Len() {
		if d.State(i).ResetIn != 0 {
			return false
		}
	}
	return true
}

func (r *request) write(text []byte) error {
	_, err := r.out.Write(text)
	return err
}
