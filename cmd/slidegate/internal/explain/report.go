package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/internal/window"
)

// Why a request was refused.
const (
	full    = "full"    // the limit had no room
	banned  = "banned"  // its key had been refused too often
	blocked = "blocked" // the rule or the plan refuses all
	never   = "cost"    // it costs more than can ever fit
	denied  = "denied"  // the file denies it, whatever the rules say
)

// An Explanation is why a request was refused. Times are RFC 3339 in UTC.
type Explanation struct {
	Request    Request   `json:"request"`
	Refusals   []Refusal `json:"refusals"`              // at least one
	AdmittedAt string    `json:"admitted_at,omitempty"` // the first millisecond at which it would have fit; empty for never
	RetryMS    int64     `json:"retry_ms"`

	WholeSeconds bool     `json:"whole_seconds"`
	Spread       bool     `json:"spread"`
	Missing      []string `json:"not_in_log,omitempty"` // what rules ask for and no line has

	now int64
}

// A Request is one line of a log.
type Request struct {
	Time   string `json:"time"`
	Cost   int64  `json:"cost"`
	Client string `json:"client"`
	Line   string `json:"line,omitempty"` // file:line, where it is a request of the key that was asked about

	ms int64
}

// A Refusal is a limit that had no room, or what else refused.
type Refusal struct {
	Why   string `json:"why"` // full, banned, blocked, cost or denied
	Rule  string `json:"rule,omitempty"`
	Limit string `json:"limit,omitempty"`
	Key   string `json:"key,omitempty"` // that was counted

	Cost     int64     `json:"cost,omitempty"`
	Quota    int64     `json:"quota,omitempty"`
	Used     int64     `json:"used,omitempty"` // units
	RetryMS  int64     `json:"retry_ms,omitempty"`
	RoomAt   string    `json:"room_at,omitempty"`   // the first millisecond at which the limit would have had room
	Filled   []Request `json:"filled_by,omitempty"` // the requests that counted, the oldest first; of a ban, the refusals that began it
	Leaves   int       `json:"leaves,omitempty"`    // of a log: how many of them have to leave first
	Current  int64     `json:"current,omitempty"`   // of a counter: units of the current window
	Before   int64     `json:"before,omitempty"`    // and of the window before, of which a share still counts
	BeganAt  string    `json:"window_began,omitempty"`
	BanBegan string    `json:"ban_began,omitempty"`
	Begins   bool      `json:"ban_begins,omitempty"` // with this refusal

	limit slidegate.Limit
	rule  *rules.Rule
}

func (x *Explanation) add(r Refusal) {
	x.Refusals = append(x.Refusals, r)
	x.RetryMS = max(x.RetryMS, r.RetryMS)
	never := r.RetryMS == 0
	for _, other := range x.Refusals {
		never = never || other.RetryMS == 0
	}
	if x.AdmittedAt = at(x.now + x.RetryMS); never {
		x.AdmittedAt, x.RetryMS = "", 0
	}
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// reach is how long before the refusal requests may matter, in milliseconds.
func (r *Refusal) reach() int64 {
	span := r.limit.Window
	switch {
	case r.Why == banned:
		span += r.rule.Ban.Strikes.Window
	case r.limit.Algorithm == slidegate.SlidingCounter:
		span *= 2
	}
	return (span + r.limit.Resolution).Milliseconds()
}

// told adds what came before, in its order, to a refusal at a time.
func (r *Refusal) told(before []Request, now int64) {
	if r.RetryMS > 0 {
		r.RoomAt = at(now + r.RetryMS)
	}
	switch {
	case r.Why == banned:
		r.toldBan(before, now)
	case r.Why != full:
	case r.limit.Algorithm == slidegate.SlidingCounter:
		r.toldCounter(before, now)
	default:
		r.toldLog(before)
	}
}

// toldLog finds the requests that count, which are the latest, and those of them that have to leave.
func (r *Refusal) toldLog(before []Request) {
	from, counted := len(before), int64(0)
	for from > 0 && counted < r.Used {
		from--
		counted += before[from].Cost
	}
	r.Filled = before[from:]
	tooMuch := r.Used + r.Cost - r.Quota
	for i := range r.Filled {
		if tooMuch -= r.Filled[i].Cost; tooMuch <= 0 {
			r.Leaves = i + 1
			return
		}
	}
}

func (r *Refusal) toldCounter(before []Request, now int64) {
	span := r.limit.Window.Milliseconds()
	start := window.Floor(now, span)
	r.BeganAt = at(start)
	for _, q := range before {
		switch {
		case q.ms >= start:
			r.Current += q.Cost
		case q.ms >= start-span:
			r.Before += q.Cost
		default:
			continue
		}
		r.Filled = append(r.Filled, q)
	}
}

func (r *Refusal) toldBan(before []Request, now int64) {
	began := now + r.RetryMS - r.limit.Window.Milliseconds()
	r.BanBegan = at(began)
	for _, q := range before {
		if q.ms <= began && q.ms > began-r.rule.Ban.Strikes.Window.Milliseconds() {
			r.Filled = append(r.Filled, q)
		}
	}
}

func (x *Explanation) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(x)
}

func (x *Explanation) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s, %s\n", rehearse.Printable(x.Request.Client), x.Request.Time, x.Request.Line)
	for i := range x.Refusals {
		b.WriteString("\n")
		x.Refusals[i].write(&b)
	}
	b.WriteString("\n")
	if x.AdmittedAt == "" {
		b.WriteString("Waiting would not have helped.\n")
	} else {
		fmt.Fprintf(&b, "From %s on, %s later, it would have been admitted if nothing else had come; a millisecond\nearlier it would not.\n", x.AdmittedAt, time.Duration(x.RetryMS)*time.Millisecond)
	}
	if len(x.Missing) > 0 {
		b.WriteString("\nThe log does not have what these ask for, and is decided as requests without it are:\n")
		for _, missing := range x.Missing {
			fmt.Fprintf(&b, "  %s\n", missing)
		}
	}
	if x.WholeSeconds && !x.Spread {
		b.WriteString("\nThe log has whole seconds: requests of one second are replayed at its beginning; --spread sets\nthem apart evenly.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Refusal) write(b *strings.Builder) {
	of := ""
	if r.Rule != "" {
		of = " of the rule " + r.Rule
	}
	switch r.Why {
	case denied:
		b.WriteString("denied by the file, whatever its rules say\n")
	case blocked:
		fmt.Fprintf(b, "refused by the limits%s, which refuse all\n", of)
	case never:
		fmt.Fprintf(b, "refused since it costs more than a limit%s can ever hold\n", of)
	case banned:
		began := "it began at " + r.BanBegan
		if r.Begins {
			began = "it begins with this refusal"
		}
		fmt.Fprintf(b, "refused by a ban%s for %s\n%s, after these, and ends at %s:\n\n", of, rehearse.Printable(r.Key), began, r.RoomAt)
		r.writeFilled(b)
	default:
		fmt.Fprintf(b, "refused by %s%s for %s: %s of %s units are used, and it costs %s:\n", r.Limit, of, rehearse.Printable(r.Key),
			rehearse.Thousands(r.Used), rehearse.Thousands(r.Quota), rehearse.Thousands(r.Cost))
		if r.BeganAt != "" {
			fmt.Fprintf(b, "a counter: %s units since %s, and a share of %s in the window before, which grows less until %s\n",
				rehearse.Thousands(r.Current), r.BeganAt, rehearse.Thousands(r.Before), r.RoomAt)
		}
		b.WriteString("\n")
		r.writeFilled(b)
	}
}

// few is how many requests are shown at the beginning, and at the end.
const few = 4

func (r *Refusal) writeFilled(b *strings.Builder) {
	var rows [][]string
	last, skipped := len(r.Filled)-1, 0
	skip := func() {
		if skipped > 0 {
			rows = append(rows, []string{"…", "", rehearse.Thousands(int64(skipped)), "more", ""})
		}
		skipped = 0
	}
	for i, q := range r.Filled {
		leaves := i+1 == r.Leaves
		if i >= few && i <= last-few && !leaves {
			skipped++
			continue
		}
		skip()
		note := ""
		if leaves {
			note = "has to leave first, at " + r.RoomAt
		}
		rows = append(rows, []string{strconv.Itoa(i+1) + ".", q.Time, rehearse.Thousands(q.Cost), q.from(r.Key), note})
	}
	writeRows(b, rows)
}

// from is where the request is: its line, or else who it was of where that is not the key itself.
func (q *Request) from(key string) string {
	if q.Line == "" && q.Client != key {
		return rehearse.Printable(q.Client)
	}
	return q.Line
}

func writeRows(b *strings.Builder, rows [][]string) {
	widths := make([]int, 5)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("  %*s  %-*s  %*s  %-*s  %s", widths[0], row[0], widths[1], row[1], widths[2], row[2], widths[3], row[3], row[4])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
