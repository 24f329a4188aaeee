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

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/memstore"
)

const long = `Replay reads a log and tells what limits would have made of it: how many requests they would
have admitted and refused, which limit refused, and who was refused most. The clock is that of the
log, and nothing is sent anywhere. With --store redis://… the state is in Redis, on the same clock
and under keys of its own; the answers are the same.

A FILE is an access log of Apache, nginx, Caddy, Traefik, Envoy or an AWS load balancer, JSON lines
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
  slidegate replay --limit 60/1m --format '$remote_addr [$time_iso8601] "$request" $status' access.log
  kubectl logs ingress | slidegate replay --limit 60/1m,counter --key header:X-Api-Key -
  slidegate replay --limit 3/1s --verdicts events.jsonl`

// storeTimeout is how long Redis may take: somebody who rehearses waits rather than goes without.
const storeTimeout = 5 * time.Second

// options are what the command was told, as text.
type options struct {
	limits   []string
	storage  storage.Flags
	cleanUp  bool
	source   source.Flags
	verdicts bool
	json     bool
}

// Command returns the command "replay".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "replay --limit LIMIT… FILE…|-",
		Short:   "Run a log through limits and tell what they would have done",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, files []string) error {
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
	f.BoolVar(&o.verdicts, "verdicts", false, "print a JSON object for each event instead of a report; jsonl is then replayed in the order of the file")
	f.BoolVar(&o.json, "json", false, "print the report as a JSON object")
	f.BoolVar(&o.cleanUp, "store-cleanup", false, "remove the keys that were written to Redis at the end")
	o.source.Add(cmd)
	o.storage.Add(cmd, storage.Defaults{Store: "memory", Timeout: storeTimeout})
	return cmd
}

// run turns text into a run, or says what is wrong with it.
func (o *options) run(files []string) (*run, error) {
	limits, err := config.Limits(o.limits)
	if err != nil {
		return nil, err
	}
	if o.verdicts && o.json {
		return nil, config.Usagef("--verdicts and --json: one of them, since verdicts take the place of the report")
	}
	// The names and the number of limits are checked, and names filled in, by making a limiter of them.
	limiter, err := slidegate.New(memstore.New(), limits...)
	if err != nil {
		return nil, config.Usagef("--limit: %w", err)
	}
	log, err := o.source.Parse("replay", files, nil)
	if err != nil {
		return nil, err
	}
	redis, err := o.storage.Redis()
	if err != nil {
		return nil, err
	}
	r := &run{source: log, limits: limiter.Limits(), verdicts: o.verdicts, json: o.json, redis: redis, cleanUp: o.cleanUp}
	if redis != nil && redis.Prefix == "" {
		redis.Prefix, r.drawn = fmt.Sprintf("slidegate-replay-%08x", rand.Uint32()), true
	}
	return r, nil
}
