package page

import (
	"fmt"
	"time"
)

// A Row is a bucket, for the table of numbers.
type Row struct {
	From              string
	Admitted, Refused int64
}

// Rows returns the buckets that have a request.
func (t Time) Rows() []Row {
	var rows []Row
	for i := range t.Admitted {
		if t.Admitted[i]+t.Refused[i] > 0 {
			rows = append(rows, Row{t.at(i), t.Admitted[i], t.Refused[i]})
		}
	}
	return rows
}

// at writes the beginning of a bucket, as finely as buckets are.
func (t Time) at(i int) string { return stamp(t.Start+int64(i)*t.Width, t.Width) }

func stamp(ms, width int64) string {
	layout := "2006-01-02 15:04:05.000"
	switch {
	case width%86_400_000 == 0:
		layout = time.DateOnly
	case width%60_000 == 0:
		layout = "2006-01-02 15:04"
	case width%1000 == 0:
		layout = time.DateTime
	}
	return time.UnixMilli(ms).UTC().Format(layout)
}

// labels are the beginnings of all buckets.
func (t Time) labels() []string {
	labels := make([]string, len(t.Admitted))
	for i := range labels {
		labels[i] = t.at(i)
	}
	return labels
}

// Bucket says how wide one is: 6 hours.
func (t Time) Bucket() string {
	for _, unit := range []struct {
		ms   int64
		name string
	}{{86_400_000, "day"}, {3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}, {1, "millisecond"}} {
		if n := t.Width / unit.ms; n > 0 && t.Width%unit.ms == 0 {
			return plural(n, unit.name)
		}
	}
	return plural(t.Width, "millisecond")
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Said is what the chart over time shows, in words.
func (t Time) Said() string { return said(t, t.Admitted, t.Refused) }

// SaidOf is what the chart of a client shows, in words.
func (t Time) SaidOf(c Client) string { return said(t, c.Over.Admitted, c.Over.Refused) }

func said(t Time, admitted, refused []int64) string {
	var all, no int64
	busiest, worst := 0, 0
	for i := range admitted {
		all, no = all+admitted[i]+refused[i], no+refused[i]
		if admitted[i]+refused[i] > admitted[busiest]+refused[busiest] {
			busiest = i
		}
		if refused[i] > refused[worst] {
			worst = i
		}
	}
	if all == 0 {
		return "No requests."
	}
	s := fmt.Sprintf("%s, %s refused, in buckets of %s. The busiest began at %s with %s.",
		plural(all, "request"), Thousands(no), t.Bucket(), t.at(busiest), plural(admitted[busiest]+refused[busiest], "request"))
	if no > 0 {
		s += fmt.Sprintf(" Most were refused from %s: %s of %s.", t.at(worst), Thousands(refused[worst]), Thousands(no))
	}
	return s
}

// HeatSaid is what the heat map shows, in words.
func (r *Report) HeatSaid() string {
	var who string
	var at int
	var most int64
	for _, c := range r.Charted() {
		for i := range c.Over.Admitted {
			if n := c.Over.Admitted[i] + c.Over.Refused[i]; n > most {
				who, at, most = c.Name, i, n
			}
		}
	}
	return fmt.Sprintf("%s over time, the most refused on top. The strongest field is %s from %s: %s in %s.",
		plural(int64(len(r.Charted())), "client"), who, r.Time.at(at), plural(most, "request"), r.Time.Bucket())
}
