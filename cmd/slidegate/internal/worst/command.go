package worst

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/memstore"
)

const long = `Worst searches for the pattern of requests that gets the most through one true window of a limit,
and shows it: what a client can do who knows how the limit counts. It asks the same limiter that
serves requests, on a virtual clock; nothing is sent anywhere.

A LIMIT is written [name=]QUOTA/WINDOW[,counter][,resolution=DUR]. Up to 8 are one policy: a request
is charged in all or in none, and each limit's worst window is one under the whole policy. Each limit
is counted in four ways while the others hold as they are: as a sliding log, as a sliding counter, as
a fixed window, and by GCRA with a burst of the quota.

The bound is what no pattern exceeds. Where worst is equal to it, worst is the true maximum; where
it is less, which takes several limits, the search ended before it knew.

With --witness it prints the patterns of the limits as they were given, as events that replay reads;
the key of each is the name of its limit:

  slidegate worst --witness 100/2s,counter | slidegate replay --limit 100/2s,counter --verdicts -

With --svg it draws one limit: what gets through each way to count for somebody who knows how it counts,
and for somebody who just keeps asking.`

const example = `  slidegate worst 100/2s
  slidegate worst burst=10/1s sustained=100/1m,counter
  slidegate worst --json 100/2s
  slidegate worst --svg 100/2s > worst.svg`

// Command returns the command "worst".
func Command() *cobra.Command {
	var asJSON, witness, svg bool
	cmd := &cobra.Command{
		Use:               "worst LIMIT…",
		Short:             "Search for what gets the most through one window of a limit",
		Long:              long,
		Example:           example,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && witness || svg && (asJSON || witness) {
				return config.Usagef("--witness, --json and --svg: one of them, since each takes the place of the report")
			}
			policy, err := parse(args)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			switch {
			case svg && len(policy) > 1:
				return config.Usagef("worst --svg: %d limits: allowed is 1, since it draws a limit that stands alone", len(policy))
			case svg:
				err = draw(policy[0], out)
			case witness:
				err = report(policy, out, (*Report).writeWitness)
			case asJSON:
				err = report(policy, out, (*Report).writeJSON)
			default:
				err = report(policy, out, (*Report).write)
			}
			if err != nil {
				return err
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each limit, with the witness of each way to count")
	cmd.Flags().BoolVar(&witness, "witness", false, "print the takes of the worst windows as jsonl, for replay --verdicts")
	cmd.Flags().BoolVar(&svg, "svg", false, "print a picture of a limit as SVG, with two adversaries")
	return cmd
}

// parse returns the limits of a policy with their names.
func parse(texts []string) ([]slidegate.Limit, error) {
	if len(texts) == 0 {
		return nil, config.Usagef("worst: no limit: name at least one, such as 100/2s")
	}
	var policy []slidegate.Limit
	for _, text := range texts {
		l, err := slidegate.ParseLimit(strings.TrimSpace(text))
		if err != nil {
			return nil, config.Usagef("worst: %w", err)
		}
		policy = append(policy, l)
	}
	store := memstore.New()
	defer store.Close()
	limiter, err := slidegate.New(store, policy...)
	if err != nil {
		return nil, config.Usagef("worst: %w", err)
	}
	return limiter.Limits(), nil
}

// A Report is what was found for one limit of a policy.
type Report struct {
	Limit    string `json:"limit"`
	Quota    int64  `json:"quota"`
	WindowMS int64  `json:"window_ms"`

	Log     Found `json:"log"`
	Counter Found `json:"counter"`
	Fixed   Found `json:"fixed"`
	GCRA    Found `json:"gcra"`

	own   Way
	first bool // of its policy
}

// of returns what was found for a way to count.
func (r *Report) of(way Way) *Found {
	return map[Way]*Found{Log: &r.Log, Counter: &r.Counter, Fixed: &r.Fixed, GCRA: &r.GCRA}[way]
}

// report writes a report for each limit when it has been found.
func report(policy []slidegate.Limit, out *bufio.Writer, write func(*Report, io.Writer) error) error {
	for i, l := range policy {
		r := &Report{Limit: l.String(), Quota: l.Quota, WindowMS: l.Window.Milliseconds(), own: Way(l.Algorithm.String()), first: i == 0}
		for _, way := range Ways() {
			found, err := Search(policy, i, way)
			if err != nil {
				return err
			}
			*r.of(way) = found
		}
		if err := write(r, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) writeWitness(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, take := range r.of(r.own).Witness {
		if err := e.Encode(take); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	width := max(len("worst"), len(fmt.Sprint(2*r.Quota)))
	if !r.first {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s, which counts by a sliding %s\n", r.Limit, r.own)
	fmt.Fprintf(&b, "          %*s  %*s  quotas  witness\n", width, "worst", width, "bound")
	for _, way := range Ways() {
		f := r.of(way)
		fmt.Fprintf(&b, "%-8s  %*d  %*d  %6.2f  %s\n", way, width, f.Worst, width, f.Bound, float64(f.Worst)/float64(r.Quota), f.pattern())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pattern is the witness in words, from its first take on: its first few takes, and the last.
func (f *Found) pattern() string {
	const few = 4
	var b strings.Builder
	for i, take := range f.Witness {
		switch last := len(f.Witness) - 1; {
		case i >= few-1 && i < last && last >= few:
			continue
		case i == last && last >= few:
			fmt.Fprintf(&b, ", … %d takes, the last ", len(f.Witness))
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d at %s", take.Cost, time.Duration(take.T)*time.Millisecond)
	}
	return b.String()
}
