package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A tally counts what became of events.
type tally struct {
	events, admitted, refused, peeks, resets, costErrors int64

	byLimit     [slidegate.MaxLimits]int64 // refusals that the limit took part in
	byKey       []count
	first, last int64 // times of events
}

// A count is what became of the takes of one key.
type count struct{ admitted, refused int64 }

func newTally(keys int) *tally { return &tally{byKey: make([]count, keys)} }

// count implements [outcome].
func (t *tally) count(e *timeline.Event, d *slidegate.Decision, fits bool) error {
	if t.events == 0 {
		t.first = e.Time
	}
	t.events++
	t.last = e.Time
	switch {
	case !fits:
		t.costErrors++
	case e.Op == accesslog.Peek:
		t.peeks++
	case e.Op == accesslog.Reset:
		t.resets++
	case d.Allowed:
		t.admitted++
		t.byKey[e.Subject].admitted++
	default:
		t.refuse(e, d)
	}
	return nil
}

func (t *tally) refuse(e *timeline.Event, d *slidegate.Decision) {
	t.refused++
	t.byKey[e.Subject].refused++
	for i := range d.Len() {
		if d.State(i).RetryIn > 0 {
			t.byLimit[i]++
		}
	}
}

// take counts an event that was decided for a key, and is a take.
func (t *tally) take(e *timeline.Event, key uint32, admitted bool) {
	if t.events == 0 {
		t.first = e.Time
	}
	t.events++
	t.last = e.Time
	if missing := int(key) + 1 - len(t.byKey); missing > 0 {
		t.byKey = append(t.byKey, make([]count, missing)...)
	}
	if c := &t.byKey[key]; admitted {
		t.admitted++
		c.admitted++
	} else {
		t.refused++
		c.refused++
	}
}

// A Report is what the command prints. Times are RFC 3339 in UTC, empty without an event.
type Report struct {
	Files  []string          `json:"files"`
	Format string            `json:"format"`           // auto where no file has a line
	Fields map[string]string `json:"fields,omitempty"` // what was taken for the time, the ip …, where names tell it
	First  string            `json:"first,omitempty"`
	Last   string            `json:"last,omitempty"`
	Limits []LimitReport     `json:"limits"`

	Events      int64               `json:"events"` // admitted, refused, peeks, resets and cost errors
	Admitted    int64               `json:"admitted"`
	Refused     int64               `json:"refused"`
	Peeks       int64               `json:"peeks"`
	Resets      int64               `json:"resets"`
	CostErrors  int64               `json:"cost_errors"` // costs that can never fit
	Keys        int                 `json:"keys"`
	KeysRefused int                 `json:"keys_refused"`
	OutOfOrder  int64               `json:"out_of_order"` // earlier than an event before them
	Unreadable  int64               `json:"unreadable"`
	BadLines    []accesslog.BadLine `json:"unreadable_lines,omitempty"` // the first few
	CutShort    []string            `json:"cut_short,omitempty"`        // files that could not be read to their end, and why

	WholeSeconds bool        `json:"whole_seconds"` // no event has a time within a second
	Spread       bool        `json:"spread"`        // the events of a second were set apart evenly
	Worst        []KeyReport `json:"worst"`         // keys, most refused first

	Rules *RulesReport `json:"rules,omitempty"`        // nil without a file of rules
	Ways  []WayReport  `json:"side_by_side,omitempty"` // if it was asked for

	guessed bool
}

// A LimitReport is a limit and how many refusals it took part in. Several limits may take part in one.
type LimitReport struct {
	Name    string `json:"name"`
	Limit   string `json:"limit"`
	Refused int64  `json:"refused"`
}

// A KeyReport is what became of the takes of one key.
type KeyReport struct {
	Key      string `json:"key"`
	Refused  int64  `json:"refused"`
	Admitted int64  `json:"admitted"`
}

// worstKeys is how many keys a report names.
const worstKeys = 10

// newReport tells what became of events whose keys have names.
func newReport(l *accesslog.Log, tl *timeline.Timeline, limits []slidegate.Limit, t *tally, names *timeline.Subjects) *Report {
	bad := l.Bad()
	r := &Report{
		Limits: []LimitReport{},
		Files:  l.Files(), Format: l.Format(), Fields: l.Fields(), guessed: l.Guessed(),
		Events: t.events, Admitted: t.admitted, Refused: t.refused,
		Peeks: t.peeks, Resets: t.resets, CostErrors: t.costErrors,
		Keys: len(t.byKey), OutOfOrder: tl.OutOfOrder(), Unreadable: bad.Count, BadLines: bad.First,
		WholeSeconds: tl.WholeSeconds(), Spread: tl.Spread(),
	}
	for _, cut := range l.CutShort() {
		r.CutShort = append(r.CutShort, cut.Error())
	}
	if t.events > 0 {
		r.First, r.Last = at(t.first), at(t.last)
	}
	for i, limit := range limits {
		r.Limits = append(r.Limits, LimitReport{limit.Name, limit.String(), t.byLimit[i]})
	}
	r.KeysRefused, r.Worst = worst(t.byKey, names)
	return r
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// worst returns how many keys were refused, and the first few: most refused first, then most
// admitted, then by name.
func worst(counts []count, names *timeline.Subjects) (refused int, first []KeyReport) {
	order := func(a, b KeyReport) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Admitted, a.Admitted), cmp.Compare(a.Key, b.Key))
	}
	first = []KeyReport{}
	for i, c := range counts {
		if c.refused == 0 {
			continue
		}
		refused++
		k := KeyReport{names.Name(uint32(i)), c.refused, c.admitted}
		if len(first) == worstKeys && order(first[worstKeys-1], k) <= 0 {
			continue
		}
		place, _ := slices.BinarySearchFunc(first, k, order)
		first = slices.Insert(first, place, k)
		first = first[:min(len(first), worstKeys)]
	}
	return refused, first
}

func (r *Report) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) print(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	writeRows(&b, r.rows())
	for _, bad := range r.BadLines {
		fmt.Fprintf(&b, "  %s\n", bad)
	}
	if more := r.Unreadable - int64(len(r.BadLines)); more > 0 {
		fmt.Fprintf(&b, "  and %s more\n", rehearse.Thousands(more))
	}
	r.writeWorst(&b)
	r.Rules.write(&b)
	writeWays(&b, r.Ways)
	r.writeSeconds(&b)
	for _, cut := range r.CutShort {
		fmt.Fprintf(&b, "\n%s: what follows is missing here.\n", cut)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSeconds tells what whole seconds mean for the figures.
func (r *Report) writeSeconds(b *strings.Builder) {
	switch {
	case r.Spread:
		b.WriteString("\nThe log has whole seconds: requests of one second are set apart evenly, in the order of the\nlog, so a limit over a few seconds may be met a little sooner or later than it was in fact.\n")
	case r.WholeSeconds:
		b.WriteString("\nThe log has whole seconds: requests of one second are replayed at its beginning, so a\nlimit over a few seconds may be met a little sooner or later than it was in fact; --spread\nsets them apart evenly.\n")
	}
}

func (r *Report) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "%s, read as %s", strings.Join(r.Files, ", "), r.Format)
	var notes []string
	if r.guessed {
		notes = append(notes, "told from the first lines")
	}
	for _, what := range slices.Sorted(maps.Keys(r.Fields)) {
		notes = append(notes, fmt.Sprintf("%s is %s", what, rehearse.Printable(r.Fields[what])))
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, " (%s)", strings.Join(notes, ", "))
	}
	if r.Events > 0 {
		fmt.Fprintf(b, "\n%s to %s", r.First, r.Last)
	}
	b.WriteString("\n\n")
}

// A row is a line of the report: what is counted, how many, and what to know about it.
type row struct {
	label string
	n     int64
	note  string
}

func (r *Report) rows() []row {
	rows := []row{
		{"events", r.Events, ""},
		{"admitted", r.Admitted, rehearse.Share(r.Admitted, r.Admitted+r.Refused)},
		{"refused", r.Refused, rehearse.Share(r.Refused, r.Admitted+r.Refused)},
	}
	for _, l := range r.Limits {
		rows = append(rows, row{"  by " + l.Limit, l.Refused, ""})
	}
	for _, some := range []row{
		{"peeks", r.Peeks, "charge nothing"},
		{"resets", r.Resets, ""},
		{"cost errors", r.CostErrors, "costs that can never fit"},
	} {
		if some.n > 0 {
			rows = append(rows, some)
		}
	}
	order := ""
	if r.OutOfOrder > 0 {
		order = "earlier than a line before; replayed in the order of time"
	}
	if r.Rules != nil {
		rows = append(rows, r.Rules.rows()...)
	}
	return append(rows, row{"keys", int64(r.Keys), ""}, row{"keys refused", int64(r.KeysRefused), rehearse.Share(int64(r.KeysRefused), int64(r.Keys))},
		row{"out of order", r.OutOfOrder, order}, row{"unreadable", r.Unreadable, ""})
}

func writeRows(b *strings.Builder, rows []row) {
	labels, numbers := 0, 0
	for _, r := range rows {
		labels, numbers = max(labels, len(r.label)), max(numbers, len(rehearse.Thousands(r.n)))
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %*s  %s", labels, r.label, numbers, rehearse.Thousands(r.n), r.note)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (r *Report) writeWorst(b *strings.Builder) {
	if len(r.Worst) == 0 {
		return
	}
	const title = "worst keys"
	width := len(title)
	for _, k := range r.Worst {
		width = max(width, utf8.RuneCountInString(rehearse.Printable(k.Key)))
	}
	fmt.Fprintf(b, "\n%-*s  %12s  %12s\n", width, title, "refused", "admitted")
	for _, k := range r.Worst {
		fmt.Fprintf(b, "%-*s  %12s  %12s\n", width, rehearse.Printable(k.Key), rehearse.Thousands(k.Refused), rehearse.Thousands(k.Admitted))
	}
}
