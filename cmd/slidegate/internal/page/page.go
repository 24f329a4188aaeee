// Package page writes what a policy made of requests as one page of HTML that stands alone: with its charts, it asks nothing
// of any other place, and its policy for content forbids it to.
//
// All that a chart shows is also said in words and stands in a table, so the page can be read without sight of the charts and
// without JavaScript. It takes plain values and knows nothing of logs.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strconv"
	"strings"
)

// A Report is what the page shows. What is left empty is left out.
type Report struct {
	Title   string
	Lead    []string // sentences under the title
	Facts   []Fact
	Time    Time
	Policy  Table  // what each limit or rule did
	Policed string // how to read it
	Ways    Table  // other ways to count
	Peaks   []Peaks
	Clients []Client // the most refused first; the first few have charts of their own
	Others  string   // says which clients are not among them
	Notes   []string // what to keep in mind
}

// A Fact is a figure of the whole.
type Fact struct{ Name, Value, Note string }

// A Time is what became of all requests over time.
type Time struct {
	Start, Width int64 // milliseconds since 1970, and of a bucket
	Admitted     []int64
	Refused      []int64
}

// A Table has its headings first. Its first column is text, and the others are numbers.
type Table [][]string

// Peaks are the most that clients asked for in any one window.
type Peaks struct {
	Name   string
	Quota  int64  // which they are measured against; 0 for none
	Window string // such as 1m
	Bins   []Bin
	Said   string // in words
}

// A Bin is how many clients have a peak in a range.
type Bin struct {
	Label   string `json:"label"`
	Clients int64  `json:"clients"`
	Over    bool   `json:"over"` // beyond the quota
}

// A Client is one row of the table. Admitted and Refused over time may be left out.
type Client struct {
	Name              string
	Admitted, Refused int64
	Share             string  // refused
	Peaks             []int64 // by those of the page
	First, Last       string
	Over              *Over
}

// An Over is a client's part of the buckets of the page's [Time].
type Over struct{ Admitted, Refused []int64 }

// Requests returns how many requests a client made.
func (c Client) Requests() int64 { return c.Admitted + c.Refused }

// chartsOfWorst is how many clients have a chart of their own, where they were refused.
const chartsOfWorst = 10

var (
	//go:embed assets/echarts.min.js
	charts string
	//go:embed assets/page.js
	script string
	//go:embed assets/page.css
	style string
	//go:embed assets/page.html
	text string

	page = template.Must(template.New("page").Funcs(template.FuncMap{"n": Thousands}).Parse(text))
)

// view is a report with what the template needs beside.
type view struct {
	*Report
	ContentPolicy  string
	Style          template.CSS
	Charts, Script template.JS
	Data           data
}

// data is what the script draws.
type data struct {
	Labels []string `json:"labels"` // of buckets
	All    series   `json:"all"`
	Rows   []series `json:"rows"`  // of clients, in the order of the page
	Peaks  [][]Bin  `json:"peaks"` // by window
}

type series struct {
	Name     string  `json:"name,omitempty"`
	Admitted []int64 `json:"admitted"`
	Refused  []int64 `json:"refused"`
}

// Write writes the page. The same report makes the same bytes.
func (r *Report) Write(w io.Writer) error {
	v := view{Report: r, Style: template.CSS(style), Charts: template.JS(charts), Script: template.JS(script), Data: r.data()}
	v.ContentPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src " + hash(charts) + " " + hash(script)
	return page.Execute(w, v)
}

func (r *Report) data() data {
	d := data{Labels: r.Time.labels(), All: series{"", r.Time.Admitted, r.Time.Refused}, Rows: []series{}, Peaks: [][]Bin{}}
	for _, c := range r.Charted() {
		d.Rows = append(d.Rows, series{c.Name, c.Over.Admitted, c.Over.Refused})
	}
	for _, p := range r.Peaks {
		d.Peaks = append(d.Peaks, p.Bins)
	}
	return d
}

// Charted returns the clients at the beginning of the list whose part over time is known.
func (r *Report) Charted() []Client {
	n := 0
	for n < len(r.Clients) && r.Clients[n].Over != nil {
		n++
	}
	return r.Clients[:n]
}

// Worst returns the clients that have a chart of their own.
func (r *Report) Worst() []Client {
	worst := r.Charted()
	n := 0
	for n < min(len(worst), chartsOfWorst) && worst[n].Refused > 0 {
		n++
	}
	return worst[:n]
}

// hash names a script in a policy for content.
func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Thousands writes 28208 as 28,208.
func Thousands(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
