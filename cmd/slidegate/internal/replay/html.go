package replay

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/history"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/page"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/sweep"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

const (
	// pageClients is how many clients the table of a page has at most.
	pageClients = 500

	// pageRows is how many of these the page shows over time.
	pageRows = 30
)

// A draft is the page of a report before there is one. It is nil where no page is asked for.
type draft struct {
	name    string // of the file
	history *history.History
}

// newDraft returns the draft of a file. A place that cannot be written to, or that has one of the files that are read, is told
// now, before a long log is read.
func newDraft(name string, limits []slidegate.Limit, read []string) (*draft, error) {
	if name == "" {
		return nil, nil
	}
	if err := checkPlace(name, read); err != nil {
		return nil, err
	}
	f, err := createBeside(name)
	if err != nil {
		return nil, err
	}
	f.Close()
	os.Remove(f.Name())
	return &draft{name, history.New(limits, windowsOf(limits))}, nil
}

// checkPlace is an error if the file of a page would take the place of something that is no file, or of one that is read.
func checkPlace(name string, read []string) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // nothing is there, or making the page tells why it cannot be
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("--html %s: that is no file that could be replaced: name a file", name)
	}
	for _, other := range read {
		if of, err := os.Stat(other); err == nil && os.SameFile(info, of) {
			return fmt.Errorf("--html %s: the page would take the place of %s, which is read: name another file", name, other)
		}
	}
	return nil
}

// createBeside makes a file with a name of its own beside another.
func createBeside(name string) (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("%s.%08x.part", name, rand.Uint32()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return f, nil
}

// windowsOf returns the windows in which peaks are measured: those of the limits, and where rules have them, usual ones.
func windowsOf(limits []slidegate.Limit) (windows []time.Duration) {
	if len(limits) == 0 {
		return []time.Duration{time.Second, time.Minute, time.Hour}
	}
	for _, l := range limits {
		windows = append(windows, l.Window)
	}
	return windows
}

// also tells the page's history what tell is told.
func (d *draft) also(tell outcome) outcome {
	if d == nil {
		return tell
	}
	return func(e *timeline.Event, decision *slidegate.Decision, fits bool) error {
		d.history.Add(e, decision, fits)
		return tell(e, decision, fits)
	}
}

// take tells the page's history of a request that rules decided.
func (d *draft) take(e *timeline.Event, client uint32, admitted bool) {
	if d != nil {
		d.history.Take(client, e.Time, e.Cost, admitted)
	}
}

// write writes the page of a report whose clients have names, and gives it its name.
func (d *draft) write(ctx context.Context, run *run, tl *timeline.Timeline, r *Report, t *tally, names *timeline.Subjects) error {
	if d == nil {
		return nil
	}
	worst := ranked(t.byKey, names)
	series, err := d.history.Follow(worst[:min(len(worst), pageRows)], func(f func(uint32, int64) error) error {
		return source.Each(ctx, run.stderr, "drawing", tl, func(e *timeline.Event) error { return f(run.client(e), e.Time) })
	})
	if err != nil {
		return err
	}
	p := newPage(r, d.history, windowsOf(run.limits))
	p.Others = others(len(worst), len(t.byKey))
	for i, number := range worst {
		c := pageClient(d.history, names.Name(number), number, t.byKey[number], len(p.Peaks))
		if i < len(series) {
			c.Over = &page.Over{}
			c.Over.Admitted, c.Over.Refused = columns(series[i])
		}
		p.Clients = append(p.Clients, c)
	}
	return d.keep(p)
}

// client returns the number of who asked.
func (r *run) client(e *timeline.Event) uint32 {
	if r.book == nil {
		return e.Subject
	}
	return r.book.Asked(e).Client
}

// keep writes a page beside its file, and gives it its name when it is whole.
func (d *draft) keep(p *page.Report) error {
	f, err := createBeside(d.name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // which is gone if all went well
	out := bufio.NewWriterSize(f, 64<<10)
	err = cmp.Or(p.Write(out), out.Flush(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), d.name)
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// newPage makes the page of a report, without its clients.
func newPage(r *Report, h *history.History, windows []time.Duration) *page.Report {
	p := &page.Report{
		Title: "Rehearsal of " + r.policyText(),
		Lead:  r.lead(), Facts: r.facts(), Notes: r.notes(), Policy: limitTable(h, r.Refused),
		Policed: "Several limits may take part in one refusal. Of those that a limit made alone, all others had room for the request.",
		Time:    page.Time{Start: h.All.Start, Width: h.All.Width},
	}
	p.Time.Admitted, p.Time.Refused = columns(h.All)
	if r.Rules != nil {
		p.Policy, p.Policed = r.Rules.table(), "Several rules may refuse one request. One in shadow tells what it would have refused."
	}
	if len(r.Ways) > 0 {
		p.Ways = waysTable(r.Ways)
	}
	for i, w := range windows {
		window := slidegate.Limit{Quota: 1, Window: w}
		peaks := page.Peaks{Window: strings.TrimPrefix(window.String(), "1/")}
		peaks.Name = "in " + peaks.Window
		if r.Rules == nil {
			peaks.Name, peaks.Quota = h.Limits[i].String(), h.Limits[i].Quota
		}
		measure(&peaks, h.Peaks(i))
		p.Peaks = append(p.Peaks, peaks)
	}
	return p
}

// ranked returns the clients of a page, by number, in the order of [worst], and after them those that were never refused.
func ranked(counts []count, names *timeline.Subjects) []uint32 {
	var ids []uint32
	for i, c := range counts {
		if c.admitted+c.refused > 0 {
			ids = append(ids, uint32(i))
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(counts[b].refused, counts[a].refused), cmp.Compare(counts[b].admitted, counts[a].admitted),
			cmp.Compare(names.Name(a), names.Name(b)))
	})
	return ids[:min(len(ids), pageClients)]
}

func others(shown, all int) string {
	if shown == all {
		return "All " + rehearse.Thousands(int64(all)) + "."
	}
	return fmt.Sprintf("%s of %s: the most refused, then the busiest.", rehearse.Thousands(int64(shown)), rehearse.Thousands(int64(all)))
}

func columns(s history.Series) (admitted, refused []int64) {
	for _, b := range s.Buckets {
		admitted, refused = append(admitted, b.Admitted), append(refused, b.Refused)
	}
	return admitted, refused
}

func pageClient(h *history.History, name string, number uint32, c count, windows int) page.Client {
	seen := h.Client(number)
	row := page.Client{
		Name: rehearse.Printable(name), Admitted: c.admitted, Refused: c.refused, Share: shareOf(c.refused, c.admitted+c.refused),
		First: at(seen.First), Last: at(seen.Last),
	}
	for i := range windows {
		row.Peaks = append(row.Peaks, h.Peak(number, i))
	}
	return row
}

// limitTable is what each limit did.
func limitTable(h *history.History, refused int64) page.Table {
	t := page.Table{{"limit", "refused", "of all refusals", "alone", "clients met"}}
	for _, l := range h.Limits {
		t = append(t, []string{l.String(), rehearse.Thousands(l.Refused), shareOf(l.Refused, refused), rehearse.Thousands(l.Alone), rehearse.Thousands(l.Clients)})
	}
	return t
}

// measure fills in what peaks there are, and says it.
func measure(p *page.Peaks, peaks sweep.Group) {
	if peaks.Clients == 0 {
		p.Said = "Nobody asked for anything."
		return
	}
	number := rehearse.Thousands
	p.Bins = bins(&peaks, p.Quota)
	p.Said = fmt.Sprintf("Half of the clients never asked for more than %s in %s, 99 %% for no more than %s, and one for %s.",
		number(peaks.Percentile(0.5)), p.Window, number(peaks.Percentile(0.99)), number(peaks.Percentile(1)))
	if p.Quota > 0 {
		over := peaks.ClientsRefused(p.Quota)
		p.Said += fmt.Sprintf(" Beyond %s went %s of %s (%s).", number(p.Quota), number(over), number(peaks.Clients), shareOf(over, peaks.Clients))
	}
}

// bins counts peaks in ranges that grow by 1, 2 and 5 times powers of ten, and end at the quota too, if there is one.
func bins(peaks *sweep.Group, quota int64) []page.Bin {
	most := peaks.Percentile(1)
	var ends []int64
	for power := int64(1); len(ends) == 0 || ends[len(ends)-1] < most; power *= 10 {
		ends = append(ends, power, 2*power, 5*power)
	}
	if 0 < quota && quota < most {
		ends = append(ends, quota)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var bins []page.Bin
	for after, i := int64(0), 0; after < most; i++ {
		label := rehearse.Thousands(ends[i])
		if ends[i] > after+1 {
			label = rehearse.Thousands(after+1) + "–" + label
		}
		n := peaks.ClientsRefused(after) - peaks.ClientsRefused(ends[i])
		bins = append(bins, page.Bin{Label: label, Clients: n, Over: quota > 0 && after >= quota})
		after = ends[i]
	}
	return bins
}

// policyText names the policy.
func (r *Report) policyText() string {
	if r.Rules != nil {
		return r.Rules.File
	}
	var texts []string
	for _, l := range r.Limits {
		texts = append(texts, l.Limit)
	}
	return strings.Join(texts, ", ")
}

// shareOf is a share as the page has it.
func shareOf(part, whole int64) string { return strings.TrimSpace(rehearse.Share(part, whole)) }

func (r *Report) lead() []string {
	var b strings.Builder
	r.writeHead(&b)
	return strings.Split(strings.TrimSpace(b.String()), "\n")
}

// facts are the rows of the report. What each limit did has a place of its own.
func (r *Report) facts() []page.Fact {
	var facts []page.Fact
	for _, row := range r.rows() {
		if !strings.HasPrefix(row.label, " ") {
			facts = append(facts, page.Fact{Name: row.label, Value: rehearse.Thousands(row.n), Note: strings.TrimSpace(row.note)})
		}
	}
	return facts
}

// notes are what the report says below its figures.
func (r *Report) notes() []string {
	var b strings.Builder
	r.writeSeconds(&b)
	notes := []string{"A log tells what clients did without the limit. A client that is refused may come back later, or sooner."}
	if s := strings.TrimSpace(b.String()); s != "" {
		notes = append(notes, s)
	}
	if r.Rules != nil {
		for _, missing := range r.Rules.Missing {
			notes = append(notes, "The log does not have what this asks for, and is decided as requests without it are: "+missing)
		}
	}
	for _, bad := range r.BadLines {
		notes = append(notes, "Not read: "+bad.String())
	}
	for _, cut := range r.CutShort {
		notes = append(notes, cut+": what follows is missing here.")
	}
	return notes
}
