package sweep

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

const long = `Sweep reads a log once and tells what many quotas over several windows would have made of it: what
share of the clients and of their requests each would have refused, and what clients really do. Then
it advises a quota for each window: the smallest that refuses at most --max-clients-refused of the
clients at any time, with its reasons and how sure they are.

With --catch there is a file with clients that are known to do harm, one on each line. The quota is then
the one that refuses all of them, and as few of the others as it can; clients in the file are counted
apart.

Each quota is tried for itself, as if it were the only limit. Run several together through replay.`

const example = `  slidegate sweep access.log.gz
  slidegate sweep --max-clients-refused 1% --windows 1m,1h access.log access.log.1.gz
  slidegate sweep --catch scrapers.txt --json access.log`

// options are what the command was told, as text.
type options struct {
	source    source.Flags
	windows   []string
	quotas    []string
	algorithm string
	share     string
	catch     string
	json      bool
}

// A run is one call of the command, checked.
type run struct {
	source  *source.Source
	windows []int64 // milliseconds
	quotas  []int64
	counter bool
	aim     Aim
	hunted  map[string]bool // by key
	json    bool

	stdout, stderr io.Writer
}

// Command returns the command "sweep".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "sweep FILE…|-",
		Short:   "Try many limits on a log at once, and advise one",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, files []string) error {
			r, err := o.run(files, cmd.InOrStdin())
			if err != nil {
				return err
			}
			r.stdout, r.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			r.aim.Given = cmd.Flags().Changed("max-clients-refused")
			return source.Interruptible(cmd.Context(), r.do)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.windows, "windows", []string{"1s", "10s", "1m", "1h"}, "the `windows` to try")
	f.StringSliceVar(&o.quotas, "quotas", nil, "the `quotas` to try, at most 64 (default: 42 from 1 to 10,000,000)")
	f.StringVar(&o.algorithm, "algorithm", "log", "what the limits are: log, which is exact, or counter")
	f.StringVar(&o.share, "max-clients-refused", "0.1%", "the `share` of the clients that may be refused, now and then, at most")
	f.StringVar(&o.catch, "catch", "", "a `file` with clients to refuse, one on each line (default: none)")
	f.BoolVar(&o.json, "json", false, "print the report as a JSON object")
	o.source.Add(cmd)
	config.TakesWords(f.Lookup("algorithm"), algorithms)
	// The error is of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions(algorithms, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var algorithms = []string{"log", "counter"}

// run turns text into a run, or says what is wrong with it.
func (o *options) run(files []string, stdin io.Reader) (r *run, err error) {
	r = &run{counter: o.algorithm == "counter", json: o.json}
	if !slices.Contains(algorithms, o.algorithm) {
		return nil, config.Usagef("--algorithm %q: allowed is log or counter", o.algorithm)
	}
	if r.windows, err = parseWindows(o.windows); err != nil {
		return nil, err
	}
	if r.quotas, err = parseQuotas(o.quotas); err != nil {
		return nil, err
	}
	if r.aim.Share, err = parseShare(o.share); err != nil {
		return nil, err
	}
	if r.source, err = o.source.Parse("sweep", files, stdin); err != nil {
		return nil, err
	}
	if r.aim.Catch = o.catch != ""; r.aim.Catch {
		r.hunted, err = readClients(o.catch)
	}
	return r, err
}

func parseWindows(texts []string) (all []int64, err error) {
	for _, text := range texts {
		ms, err := parseWindow(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		all = append(all, ms)
	}
	if len(all) == 0 {
		return nil, config.Usagef("--windows is empty: give at least one, such as 1m")
	}
	return distinct(all), nil
}

// defaultQuotas are six in each decade.
func defaultQuotas() (all []int64) {
	for decade := int64(1); decade < 10_000_000; decade *= 10 {
		for _, tenth := range []int64{10, 15, 20, 30, 50, 70} {
			all = append(all, max(1, decade*tenth/10))
		}
	}
	return distinct(append(all, 10_000_000))
}

func parseQuotas(texts []string) (all []int64, err error) {
	for _, text := range texts {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n < 1 || n > slidegate.MaxQuota {
			return nil, config.Usagef("--quotas %q: allowed are whole numbers from 1 to %d", text, int64(slidegate.MaxQuota))
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return defaultQuotas(), nil
	}
	if all = distinct(all); len(all) > MaxQuotas {
		return nil, config.Usagef("--quotas: %d of them: allowed are %d", len(all), MaxQuotas)
	}
	return all, nil
}

func distinct(all []int64) []int64 {
	slices.Sort(all)
	return slices.Compact(all)
}

// parseShare reads 0.1% or 0.001.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, config.Usagef("--max-clients-refused %q: allowed is a share from 0%% to 100%%, such as 0.1%% or 0.001", text)
	}
	return share, nil
}

// readClients reads a file of keys, one on each line.
func readClients(name string) (map[string]bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, config.Usagef("--catch: %w", err)
	}
	defer file.Close()
	all := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key := strings.TrimSpace(lines.Text()); key != "" && !strings.HasPrefix(key, "#") {
			all[key] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, config.Usagef("--catch: %s: %w", name, err)
	}
	if len(all) == 0 {
		return nil, config.Usagef("--catch: there is no client in %s: allowed is one on each line, as keys are in the log", name)
	}
	return all, nil
}

// beyond is a cost that no quota has room for; more makes no difference.
const beyond = slidegate.MaxQuota + 1

func (r *run) do(ctx context.Context) error {
	l, tl, err := r.source.Read(ctx, r.stderr)
	if err != nil {
		return err
	}
	defer l.Close()
	defer tl.Close()
	if err := source.NothingRead(l, tl); err != nil {
		return err
	}
	p := New(r.windows, r.quotas, r.counter, r.aim.Share, func(key uint32) bool { return r.hunted[tl.Subjects.Name(key)] })
	var first, last int64
	err = source.Each(ctx, r.stderr, "sweeping", tl, func(e *timeline.Event) error {
		if e.Op == accesslog.Reset {
			p.Reset(e.Subject)
		}
		if e.Op != accesslog.Take || e.Cost < 1 {
			return nil
		}
		if p.requests == 0 {
			first = e.Time
		}
		last = e.Time
		p.Add(e.Subject, e.Time, min(e.Cost, beyond))
		return nil
	})
	if err != nil {
		return err
	}
	report := r.report(l, tl)
	report.fill(p.Curves(), r.aim)
	if report.Missing = int64(len(r.hunted)) - report.Hunted; p.requests > 0 {
		report.First, report.Last = at(first), at(last)
	}
	if r.json {
		err = report.printJSON(r.stdout)
	} else {
		err = report.print(r.stdout)
	}
	return cmp.Or(err, source.CutShort(l))
}

func (r *run) report(l *accesslog.Log, tl *timeline.Timeline) *Report {
	algorithm := "log"
	if r.counter {
		algorithm = "counter"
	}
	return &Report{
		Files: l.Files(), Format: l.Format(), Algorithm: algorithm, WholeSeconds: tl.WholeSeconds(), Spread: tl.Spread(),
		Unreadable: l.Bad().Count, MaxClientsRefused: r.aim.Share,
	}
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }
