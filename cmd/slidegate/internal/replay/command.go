// Package replay runs a log through a limiter on a virtual clock: who would have been refused,
// how often, and by which limit.
//
// A log is read once, line by line, into compact events. They are put in the order of time by a
// sorter, which keeps a bounded number of them in memory, and then decided one after the other by
// the same Limiter and store that serve requests, whose clock stands at the time of the
// event. What remains in memory for a whole run is one entry for each key: its name and its counts.
package replay

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
)

const long = `Replay reads a log and tells what limits would have made of it: how many requests they would
have admitted and refused, which limit refused, and who was refused most. The clock is that of the
log, and nothing is sent anywhere. With --store redis://… the state is in Redis, on the same clock
and under keys of its own; the answers are the same.

With --config the requests of an access log are held to the rules of a file, as serve holds them:
to the rules that match, by their keys, costs, plans and modes, with what is exempt and denied. The
report tells what became of each rule's requests, and what the rules ask for that the log does not
have.

With --side-by-side there is a table of what sliding logs, sliding counters and fixed windows of the
same quotas would have done.

A LOG is an access log of Apache, nginx, Caddy, Traefik, Envoy or an AWS load balancer, JSON lines
or columns with names, whose clients are told apart by their address as it is written; or it has one
event a line, as a JSON object:

  {"t": 1757750400000, "op": "take", "key": "a", "cost": 1}

where t is in milliseconds since 1970 or an RFC 3339 time, op is take, peek or reset and may be
left out, as may a cost of 1. The format is told from the first lines; give --format the string of
nginx's log_format or of Apache's LogFormat for a log that has one of its own. Files packed by gzip,
zstd or bzip2 are unpacked; - is standard input; several files, or a quoted pattern such as
'access.log*', are read as one log, in the order of their times.

A log need not be in the order of time: events are replayed in it, and those of one time in the
order of the file. A line that cannot be read is counted and passed over. A log of more than a
million lines is put in order through a temporary file of about 5 bytes a line, which goes to $TMPDIR.`

const example = `  slidegate replay --limit 60/1m access.log.gz
  slidegate replay --limit burst=10/1s --limit sustained=100/1m --json access.log access.log.1
  slidegate replay --limit 60/1m --html report.html access.log.gz
  slidegate replay --config rules.yaml --side-by-side access.log.gz
  slidegate replay --limit 60/1m --format '$remote_addr [$time_iso8601] "$request" $status' access.log
  kubectl logs ingress | slidegate replay --limit 60/1m,counter --key header:X-Api-Key -
  slidegate replay --limit 3/1s --verdicts events.jsonl`

// storeTimeout is how long Redis may take: somebody who rehearses waits rather than goes without.
const storeTimeout = 5 * time.Second

// options are what the command was told, as text.
type options struct {
	limits   []string
	config   string
	ways     bool
	storage  storage.Flags
	cleanUp  bool
	source   source.Flags
	hasKey   bool // the expression was given
	verdicts bool
	json     bool
	html     string
}

// Command returns the command "replay".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "replay (--limit LIMIT… | --config FILE) LOG…|-",
		Short:   "Run a log through limits and tell what they would have done",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, files []string) error {
			o.hasKey = cmd.Flags().Changed("key")
			r, err := o.run(files)
			if err != nil {
				return err
			}
			r.stdin, r.stdout, r.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			storage.Warn(r.stderr, r.redis)
			return source.Interruptible(cmd.Context(), r.do)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.limits, "limit", nil, config.LimitsUsage)
	f.StringVar(&o.config, "config", "", "the `file` of rules that serve would go by, in the place of --limit (default: none)")
	f.BoolVar(&o.ways, "side-by-side", false, "tell also what sliding logs, sliding counters and fixed windows of the same limits would have done; in memory, wherever the state is")
	f.BoolVar(&o.verdicts, "verdicts", false, "print a JSON object for each event instead of a report; jsonl is then replayed in the order of the file")
	f.BoolVar(&o.json, "json", false, "print the report as a JSON object")
	f.StringVar(&o.html, "html", "", "write the report to a `file` as well: one page with charts, that names clients")
	f.BoolVar(&o.cleanUp, "store-cleanup", false, "remove the keys that were written to Redis at the end")
	o.source.Add(cmd)
	o.storage.Add(cmd, storage.Defaults{Store: "memory", Timeout: storeTimeout})
	return cmd
}

// run turns text into a run, or says what is wrong with it.
func (o *options) run(files []string) (*run, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	policy, err := o.policy()
	if err != nil {
		return nil, err
	}
	log, err := o.source.Parse("replay", files, nil)
	if err != nil {
		return nil, err
	}
	redis, err := o.storage.Redis()
	if err != nil {
		return nil, err
	}
	r := &run{source: log, policy: policy, limits: policy.Limits, ways: o.ways, verdicts: o.verdicts, json: o.json, html: o.html, redis: redis, cleanUp: o.cleanUp}
	if policy.File != nil {
		r.book = rehearse.NewBook(policy)
		log.Ask(r.book.Subjects)
	}
	if redis != nil && redis.Prefix == "" {
		redis.Prefix, r.drawn = fmt.Sprintf("slidegate-replay-%08x", rand.Uint32()), true
	}
	return r, nil
}

func (o *options) check() error {
	switch {
	case o.config != "" && len(o.limits) > 0:
		return config.Usagef("--limit with --config: limits stand in the rules of the file: give one of the two")
	case o.config != "" && o.verdicts:
		return config.Usagef("--verdicts with --config: a request may meet several rules: allowed is the report, or --json")
	case o.verdicts && o.ways:
		return config.Usagef("--verdicts with --side-by-side: verdicts take the place of the report: give one of the two")
	case o.verdicts && o.json:
		return config.Usagef("--verdicts and --json: one of them, since verdicts take the place of the report")
	case o.verdicts && o.html != "":
		return config.Usagef("--verdicts and --html: one of them, since verdicts take the place of the report")
	case o.html == "-":
		return config.Usagef("--html -: name a file, since standard output has the report")
	}
	return nil
}

// policy reads what requests are held to.
func (o *options) policy() (*rehearse.Policy, error) {
	key := ""
	if o.hasKey {
		key = o.source.Key
	}
	if o.config != "" {
		return rehearse.File(o.config, key)
	}
	return rehearse.Limits(o.limits, key)
}
