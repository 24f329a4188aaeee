package sweep

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
)

// A Report is what the command prints. Shares are of 1; times are RFC 3339 in UTC.
type Report struct {
	Files        []string `json:"files"`
	Format       string   `json:"format"`
	First        string   `json:"first,omitempty"`
	Last         string   `json:"last,omitempty"`
	Algorithm    string   `json:"algorithm"` // log or counter
	WholeSeconds bool     `json:"whole_seconds"`
	Spread       bool     `json:"spread"`
	Unreadable   int64    `json:"unreadable"`

	Requests int64 `json:"requests"` // of all clients
	Clients  int64 `json:"clients"`  // all but the hunted
	Hunted   int64 `json:"hunted"`   // those to catch
	Missing  int64 `json:"missing"`  // those to catch that the log does not have

	MaxClientsRefused float64        `json:"max_clients_refused"` // the share that may be refused
	Windows           []WindowReport `json:"windows"`
	Best              string         `json:"best,omitempty"` // the window to choose of those, where there is somebody to catch

	shareGiven bool
}

// A WindowReport is about one window.
type WindowReport struct {
	Window string        `json:"window"`
	Peaks  PeakReport    `json:"peaks"`
	Quotas []QuotaReport `json:"quotas"`
	Advice AdviceReport  `json:"advice"`
}

// A PeakReport has what clients really do: the most that a window ever held of a client, for shares of the clients.
type PeakReport struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P95  int64 `json:"p95"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99_9"`
	Most int64 `json:"most"`
}

// A QuotaReport is a point of the curve.
type QuotaReport struct {
	Quota                int64   `json:"quota"`
	ClientsRefused       int64   `json:"clients_refused"`
	ClientsRefusedShare  float64 `json:"clients_refused_share"`
	RequestsRefused      int64   `json:"requests_refused"`
	RequestsRefusedShare float64 `json:"requests_refused_share"`
	Caught               int64   `json:"caught"`
	CaughtRequests       int64   `json:"caught_requests"`
}

// An AdviceReport is [Advice] as it is printed.
type AdviceReport struct {
	Limit               string  `json:"limit"`
	Quota               int64   `json:"quota"`
	Serves              bool    `json:"serves"`
	Least               int64   `json:"least"`
	Most                int64   `json:"most,omitempty"`
	ClientsRefused      int64   `json:"clients_refused"`
	ClientsRefusedShare float64 `json:"clients_refused_share"`
	RequestsRefusedFrom int64   `json:"requests_refused_from"`
	RequestsRefusedTo   int64   `json:"requests_refused_to"` // -1: the quotas that were tried do not tell
	Caught              int64   `json:"caught"`
	Low                 int64   `json:"least_95_low"`
	High                int64   `json:"least_95_high"` // 0: too few clients to tell
	BusiestDay          string  `json:"busiest_day,omitempty"`
	BusiestQuota        int64   `json:"busiest_day_least,omitempty"`
	MedianDayQuota      int64   `json:"median_day_least,omitempty"`
	Days                int     `json:"days"`

	next int64
}

// fill takes up the curves and the advice to them.
func (r *Report) fill(curves []Curve, aim Aim) {
	r.Clients, r.Hunted = curves[0].Others.Clients, curves[0].Hunted.Clients
	r.Requests = curves[0].Others.Requests + curves[0].Hunted.Requests
	r.Windows = []WindowReport{}
	if r.Requests == 0 {
		return // no number comes of nothing
	}
	r.shareGiven = aim.Given
	advice := make([]Advice, len(curves))
	for i := range curves {
		c := &curves[i]
		advice[i] = c.Advise(aim)
		r.Windows = append(r.Windows, WindowReport{
			Window: windowText(c.Window), Peaks: peaks(&c.Others), Quotas: points(c), Advice: r.advice(c, &advice[i]),
		})
	}
	if r.Hunted > 0 {
		r.Best = r.Windows[Best(curves, advice)].Window
	}
}

func peaks(g *Group) PeakReport {
	return PeakReport{g.Percentile(0.5), g.Percentile(0.9), g.Percentile(0.95), g.Percentile(0.99), g.Percentile(0.999), g.Percentile(1)}
}

// points leaves out quotas above the first that refuses nobody.
func points(c *Curve) (all []QuotaReport) {
	all = []QuotaReport{}
	for i, quota := range c.Quotas {
		refused := c.Others.ClientsRefused(quota)
		p := QuotaReport{
			Quota: quota, ClientsRefused: refused, ClientsRefusedShare: ratio(refused, c.Others.Clients),
			RequestsRefused: c.Others.Refused[i], RequestsRefusedShare: ratio(c.Others.Refused[i], c.Others.Requests),
			Caught: c.Hunted.ClientsRefused(quota), CaughtRequests: c.Hunted.Refused[i],
		}
		if all = append(all, p); p.ClientsRefused+p.Caught == 0 {
			break
		}
	}
	return all
}

func (r *Report) advice(c *Curve, a *Advice) AdviceReport {
	limit := slidegate.Limit{Quota: a.Quota, Window: time.Duration(c.Window) * time.Millisecond}
	if r.Algorithm == "counter" {
		limit.Algorithm = slidegate.SlidingCounter
	}
	out := AdviceReport{
		Limit: limit.String(), Quota: a.Quota, Serves: a.Serves, Least: a.Least, Most: a.Most,
		ClientsRefused: a.ClientsRefused, ClientsRefusedShare: ratio(a.ClientsRefused, c.Others.Clients),
		RequestsRefusedFrom: a.RequestsRefused.Low, RequestsRefusedTo: a.RequestsRefused.High, Caught: a.Caught,
		Low: a.Uncertainty.Low, High: a.Uncertainty.High, Days: len(a.Days), next: a.NextPeak,
	}
	out.tellDays(a.Days)
	return out
}

func (a *AdviceReport) tellDays(days []Day) {
	if len(days) < 2 {
		return // a day tells nothing about days
	}
	var quotas []int64
	for _, d := range days {
		quotas = append(quotas, d.Quota)
		if d.Quota > a.BusiestQuota {
			a.BusiestQuota, a.BusiestDay = d.Quota, time.UnixMilli(d.Number*msPerDay).UTC().Format(time.DateOnly)
		}
	}
	a.MedianDayQuota = percentile(slices.Sorted(slices.Values(quotas)), 0.5)
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (r *Report) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) print(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	if r.Requests > 0 {
		r.writeFindings(&b)
	} else {
		b.WriteString("\nNothing can be advised of a log without requests.\n")
	}
	if r.WholeSeconds && !r.Spread {
		b.WriteString("\nThe log has whole seconds: requests of one second are counted at its beginning, so bursts look\nworse than they were. --spread sets them apart evenly.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeFindings(b *strings.Builder) {
	r.writePeaks(b)
	for i := range r.Windows {
		r.writeCurve(b, &r.Windows[i])
	}
	r.writeAdvice(b)
}

func (r *Report) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "%s, read as %s\n", strings.Join(r.Files, ", "), r.Format)
	if r.Requests > 0 {
		fmt.Fprintf(b, "%s to %s\n", r.First, r.Last)
	}
	fmt.Fprintf(b, "%s requests of %s clients", rehearse.Thousands(r.Requests), rehearse.Thousands(r.Clients+r.Hunted))
	if r.Hunted+r.Missing > 0 {
		fmt.Fprintf(b, ", %s of them to catch", rehearse.Thousands(r.Hunted))
	}
	if r.Missing > 0 {
		fmt.Fprintf(b, " (%s more are not in the log)", rehearse.Thousands(r.Missing))
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(b, "; unreadable lines: %s", rehearse.Thousands(r.Unreadable))
	}
	b.WriteString("\n")
}

func (r *Report) writePeaks(b *strings.Builder) {
	b.WriteString("\nThe most that a window ever held of a client, for shares of the clients:\n\n")
	rows := [][]string{{"window", "50 %", "90 %", "95 %", "99 %", "99.9 %", "all"}}
	for _, w := range r.Windows {
		row := []string{w.Window}
		for _, n := range []int64{w.Peaks.P50, w.Peaks.P90, w.Peaks.P95, w.Peaks.P99, w.Peaks.P999, w.Peaks.Most} {
			row = append(row, rehearse.Thousands(n))
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
}

func (r *Report) writeCurve(b *strings.Builder, w *WindowReport) {
	fmt.Fprintf(b, "\nWhat a quota for %s would have refused:\n\n", w.Window)
	head := []string{"quota", "clients", "", "requests", ""}
	if r.Hunted > 0 {
		head = append(head, "caught")
	}
	rows := [][]string{head}
	for _, p := range w.Quotas {
		row := []string{
			rehearse.Thousands(p.Quota), rehearse.Thousands(p.ClientsRefused), percent(p.ClientsRefusedShare),
			rehearse.Thousands(p.RequestsRefused), percent(p.RequestsRefusedShare),
		}
		if r.Hunted > 0 {
			row = append(row, rehearse.Thousands(p.Caught))
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
}

func (r *Report) writeAdvice(b *strings.Builder) {
	fmt.Fprintf(b, "\nTo %s:\n", r.aims())
	for _, w := range r.Windows {
		fmt.Fprintf(b, "\n%s\n", w.Advice.Limit)
		for _, reason := range r.reasons(&w.Advice) {
			fmt.Fprintf(b, "  %s\n", reason)
		}
	}
	if r.Best != "" && len(r.Windows) > 1 {
		fmt.Fprintf(b, "\nOf these windows %s does most for those aims and least to others.\n", r.Best)
	}
}

// aims are what the quotas are to do.
func (r *Report) aims() string {
	share := fmt.Sprintf("refuse at most %s of the clients", percent(r.MaxClientsRefused))
	switch {
	case r.Hunted == 0:
		return share
	case !r.shareGiven:
		return "catch those to catch"
	}
	return share + ", and to catch those to catch"
}

// reasons say why a quota is advised, and how sure that is.
func (r *Report) reasons(a *AdviceReport) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	say("refuses %s of %s clients (%s)%s", rehearse.Thousands(a.ClientsRefused), rehearse.Thousands(r.Clients), percent(a.ClientsRefusedShare), a.requests())
	if a.Least == slidegate.MaxQuota && !a.Serves {
		say("it is the largest that there is, and they asked for more at once")
	}
	if a.ClientsRefused > 0 && a.next > 0 {
		say("the highest of the others had %s", rehearse.Thousands(a.next))
	}
	if r.Hunted > 0 {
		say("%s", r.hunt(a))
	}
	if a.High == 0 {
		say("of other clients like these it would have to be at least %s; %s are too few to say how much at most", rehearse.Thousands(a.Low), rehearse.Thousands(r.Clients))
	} else {
		say("of other clients like these it would have to be %s to %s, 95 times in 100", rehearse.Thousands(a.Low), rehearse.Thousands(a.High))
	}
	if a.BusiestDay != "" {
		say("of %d days the busiest, %s, needs %s, and a usual one %s", a.Days, a.BusiestDay, rehearse.Thousands(a.BusiestQuota), rehearse.Thousands(a.MedianDayQuota))
	}
	return all
}

func (a *AdviceReport) requests() string {
	switch {
	case a.ClientsRefused == 0:
		return ""
	case a.RequestsRefusedFrom == a.RequestsRefusedTo:
		return fmt.Sprintf(", and %s of their requests", rehearse.Thousands(a.RequestsRefusedTo))
	case a.RequestsRefusedTo < 0:
		return fmt.Sprintf(", and at least %s of their requests", rehearse.Thousands(a.RequestsRefusedFrom))
	}
	return fmt.Sprintf(", and %s to %s of their requests", rehearse.Thousands(a.RequestsRefusedFrom), rehearse.Thousands(a.RequestsRefusedTo))
}

// hunt says what becomes of those to catch.
func (r *Report) hunt(a *AdviceReport) string {
	s := fmt.Sprintf("catches %s of %s", rehearse.Thousands(a.Caught), rehearse.Thousands(r.Hunted))
	switch {
	case a.Most < 1:
		return s + ": one of them asks for no more than one in a window, and no quota catches it"
	case a.Serves && a.Least <= a.Most:
		return s + fmt.Sprintf(": any quota from %s to %s does", rehearse.Thousands(a.Least), rehearse.Thousands(a.Most))
	case a.Serves:
		return s + fmt.Sprintf(": any quota up to %s does", rehearse.Thousands(a.Most))
	}
	return s + fmt.Sprintf(": for all of them it would have to be %s, which refuses more of the others", rehearse.Thousands(a.Most))
}

// writeTable writes rows with their columns to the right, but for the first.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// percent writes a share of 1 with as many digits as tell it from 0.
func percent(share float64) string {
	switch {
	case share == 0:
		return "0 %"
	case share < 0.001:
		return strconv.FormatFloat(100*share, 'g', 1, 64) + " %"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
}
