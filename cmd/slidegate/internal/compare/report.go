package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// Counts are how many were refused by whom.
type Counts struct {
	All     int64 `json:"all"`
	ByA     int64 `json:"refused_by_a"`
	ByB     int64 `json:"refused_by_b"`
	ByBoth  int64 `json:"refused_by_both"`
	AAlone  int64 `json:"refused_by_a_alone"`
	BAlone  int64 `json:"refused_by_b_alone"`
	Neither int64 `json:"refused_by_neither"`
}

func (c *Counts) add(refused [2]bool) {
	c.All++
	switch refused {
	case [2]bool{true, true}:
		c.ByA, c.ByB, c.ByBoth = c.ByA+1, c.ByB+1, c.ByBoth+1
	case [2]bool{true, false}:
		c.ByA, c.AAlone = c.ByA+1, c.AAlone+1
	case [2]bool{false, true}:
		c.ByB, c.BAlone = c.ByB+1, c.BAlone+1
	default:
		c.Neither++
	}
}

// A tally counts requests, and those of each client.
type tally struct {
	requests    Counts
	clients     []Counts
	first, last int64
}

func (t *tally) take(e *timeline.Event, client uint32, refused [2]bool) {
	if t.requests.All == 0 {
		t.first = e.Time
	}
	t.last = e.Time
	if missing := int(client) + 1 - len(t.clients); missing > 0 {
		t.clients = append(t.clients, make([]Counts, missing)...)
	}
	t.requests.add(refused)
	t.clients[client].add(refused)
}

// A Report is what the command prints. Times are RFC 3339 in UTC.
type Report struct {
	A          string              `json:"a"`
	B          string              `json:"b"`
	Files      []string            `json:"files"`
	Format     string              `json:"format"`
	First      string              `json:"first,omitempty"`
	Last       string              `json:"last,omitempty"`
	Unreadable int64               `json:"unreadable"`
	BadLines   []accesslog.BadLine `json:"unreadable_lines,omitempty"` // the first few
	CutShort   []string            `json:"cut_short,omitempty"`
	MissingA   []string            `json:"not_in_log_a,omitempty"` // what its rules ask for and no line has
	MissingB   []string            `json:"not_in_log_b,omitempty"`

	Requests Counts `json:"requests"`
	Clients  Counts `json:"clients"` // those of whom a request was refused

	WholeSeconds bool `json:"whole_seconds"`
	Spread       bool `json:"spread"`

	WorstA []Client `json:"more_refused_by_a"` // those of whom A refuses most that B admits
	WorstB []Client `json:"more_refused_by_b"`
}

// A Client is somebody whom the policies treat differently.
type Client struct {
	Client string `json:"client"`
	Counts
}

// fewClients is how many clients a report names each way.
const fewClients = 10

func newReport(c *comparison, l *accesslog.Log, tl *timeline.Timeline, t *tally) *Report {
	bad := l.Bad()
	r := &Report{
		A: c.policies[0].Name, B: c.policies[1].Name, Files: l.Files(), Format: l.Format(), Unreadable: bad.Count, BadLines: bad.First,
		MissingA: c.policies[0].Unmet(), MissingB: c.policies[1].Unmet(),
		Requests: t.requests, WholeSeconds: tl.WholeSeconds(), Spread: tl.Spread(),
	}
	for _, cut := range l.CutShort() {
		r.CutShort = append(r.CutShort, cut.Error())
	}
	if t.requests.All > 0 {
		r.First, r.Last = at(t.first), at(t.last)
	}
	var all []Client
	for i, counts := range t.clients {
		r.Clients.add([2]bool{counts.ByA > 0, counts.ByB > 0})
		all = append(all, Client{c.book.Clients.Name(uint32(i)), counts})
	}
	r.WorstA = most(all, func(c *Client) int64 { return c.AAlone })
	r.WorstB = most(all, func(c *Client) int64 { return c.BAlone })
	return r
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// most returns the few clients of whom there is most, then by name.
func most(all []Client, of func(*Client) int64) []Client {
	some := slices.DeleteFunc(slices.Clone(all), func(c Client) bool { return of(&c) == 0 })
	slices.SortFunc(some, func(a, b Client) int { return cmp.Or(cmp.Compare(of(&b), of(&a)), cmp.Compare(a.Client, b.Client)) })
	return append([]Client{}, some[:min(len(some), fewClients)]...)
}

func (r *Report) differs() bool { return r.Requests.AAlone+r.Requests.BAlone > 0 }

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "A  %s\nB  %s\n\n%s, read as %s\n", r.A, r.B, strings.Join(r.Files, ", "), r.Format)
	if r.Requests.All > 0 {
		fmt.Fprintf(&b, "%s to %s\n", r.First, r.Last)
	}
	b.WriteString("\n")
	rehearse.WriteTable(&b, r.table())
	for _, bad := range r.BadLines {
		fmt.Fprintf(&b, "unreadable: %s\n", bad)
	}
	r.writeClients(&b, "A", "B", r.WorstA, func(c *Client) int64 { return c.AAlone })
	r.writeClients(&b, "B", "A", r.WorstB, func(c *Client) int64 { return c.BAlone })
	writeMissing(&b, "A", r.MissingA)
	writeMissing(&b, "B", r.MissingB)
	if r.WholeSeconds && !r.Spread {
		b.WriteString("\nThe log has whole seconds: requests of one second are replayed at its beginning; --spread sets\nthem apart evenly.\n")
	}
	for _, cut := range r.CutShort {
		fmt.Fprintf(&b, "\n%s: what follows is missing here.\n", cut)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) table() [][]string {
	rows := [][]string{{"", "requests", "", "clients", ""}}
	for _, line := range []struct {
		label string
		of    func(*Counts) int64
	}{
		{"all", func(c *Counts) int64 { return c.All }},
		{"refused by A", func(c *Counts) int64 { return c.ByA }},
		{"refused by B", func(c *Counts) int64 { return c.ByB }},
		{"refused by both", func(c *Counts) int64 { return c.ByBoth }},
		{"refused by A alone", func(c *Counts) int64 { return c.AAlone }},
		{"refused by B alone", func(c *Counts) int64 { return c.BAlone }},
	} {
		requests, clients := line.of(&r.Requests), line.of(&r.Clients)
		row := []string{line.label, rehearse.Thousands(requests), rehearse.Share(requests, r.Requests.All), rehearse.Thousands(clients), rehearse.Share(clients, r.Clients.All)}
		if line.label == "all" {
			row[2], row[4] = "", ""
		}
		rows = append(rows, row)
	}
	return append(rows, []string{"unreadable", rehearse.Thousands(r.Unreadable), "", "", ""})
}

func (r *Report) writeClients(b *strings.Builder, by, other string, clients []Client, alone func(*Client) int64) {
	if len(clients) == 0 {
		fmt.Fprintf(b, "\nWhat %s refuses %s refuses too.\n", by, other)
		return
	}
	fmt.Fprintf(b, "\nTheir requests are refused by %s and admitted by %s:\n\n", by, other)
	rows := [][]string{{"client", "requests", "of", "by A", "by B"}}
	for i := range clients {
		c := &clients[i]
		rows = append(rows, []string{rehearse.Printable(c.Client), rehearse.Thousands(alone(c)), rehearse.Thousands(c.All), rehearse.Thousands(c.ByA), rehearse.Thousands(c.ByB)})
	}
	rehearse.WriteTable(b, rows)
}

func writeMissing(b *strings.Builder, policy string, missing []string) {
	if len(missing) == 0 {
		return
	}
	fmt.Fprintf(b, "\nThe log does not have what these of %s ask for, and is decided as requests without it are:\n", policy)
	for _, m := range missing {
		fmt.Fprintf(b, "  %s\n", m)
	}
}
