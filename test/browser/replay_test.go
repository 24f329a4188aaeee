package browser

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// report is what replay --json prints, as far as the page shows it.
type report struct {
	Events, Admitted, Refused, Keys int64
	KeysRefused                     int64 `json:"keys_refused"`
	Limits                          []struct {
		Limit   string
		Refused int64
	}
	Worst []struct {
		Key               string
		Refused, Admitted int64
	}
}

// rehearse writes the page of a real log, and returns its address and what the same run printed.
func rehearse(t *testing.T) (page string, r report) {
	t.Helper()
	log, err := filepath.Abs("../../cmd/slidegate/internal/replay/testdata/site-2021.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	cmd := exec.Command(binary, "replay", "--limit", "burst=20/1s", "--limit", "sustained=60/1m", "--json", "--html", file, filepath.Base(log))
	cmd.Dir = filepath.Dir(log)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return fileURL(file), r
}

// TestReplayPage in a real browser: in the light, in the dark, and on a phone.
func TestReplayPage(t *testing.T) {
	page, want := rehearse(t)
	ctx := newBrowser(t)
	seen := watch(t, ctx, page)

	open(t, ctx, page, 1200, 900, "light")
	keep(t, ctx, "replay-light")
	t.Run("totals are those of the report", func(t *testing.T) { expectTotals(t, ctx, want) })
	t.Run("charts are drawn, and said in words", func(t *testing.T) { expectCharts(t, ctx) })
	t.Run("the map shows refusals by keyboard", func(t *testing.T) { expectChoice(t, ctx) })
	t.Run("the table is sorted by keyboard", func(t *testing.T) { expectSorting(t, ctx) })
	light := get[string](t, ctx, `getComputedStyle(document.body).backgroundColor`)

	open(t, ctx, page, 1200, 900, "dark")
	keep(t, ctx, "replay-dark")
	if dark := get[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); dark == light {
		t.Errorf("the ground is %s in the light and in the dark", dark)
	}

	for _, scheme := range []string{"light", "dark"} {
		open(t, ctx, page, 390, 844, scheme)
		keep(t, ctx, "replay-phone-"+scheme)
		if wide := get[int](t, ctx, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("on a phone 390 pixels wide the page is %d wide", wide)
		}
	}
	seen.expectNothing(t)
}

// expectTotals compares what the page says and what its charts draw with the report.
func expectTotals(t *testing.T, ctx context.Context, want report) {
	facts := get[map[string]string](t, ctx, `Object.fromEntries(Array.from(document.querySelectorAll(".facts div"),
		(d) => [d.querySelector("dt").textContent, d.querySelector("dd").firstChild.textContent.trim()]))`)
	for name, n := range map[string]int64{
		"events": want.Events, "admitted": want.Admitted, "refused": want.Refused, "keys": want.Keys, "keys refused": want.KeysRefused,
	} {
		if got := strings.ReplaceAll(facts[name], ",", ""); got != strconv.FormatInt(n, 10) {
			t.Errorf("%s: the page says %q, the report %d", name, facts[name], n)
		}
	}
	type sums struct{ Admitted, Refused int64 }
	const sum = `const sum = (all) => all.reduce((a, b) => a + b, 0), data = JSON.parse(document.getElementById("data").textContent);`
	drawn := get[sums](t, ctx, `(() => {`+sum+` return {Admitted: sum(data.all.admitted), Refused: sum(data.all.refused)}})()`)
	if drawn != (sums{want.Admitted, want.Refused}) {
		t.Errorf("the chart over time has %+v, the report %d and %d", drawn, want.Admitted, want.Refused)
	}
	rows := get[map[string]sums](t, ctx, `(() => {`+sum+` return Object.fromEntries(data.rows.map((r) => [r.name, {Admitted: sum(r.admitted), Refused: sum(r.refused)}]))})()`)
	for _, w := range want.Worst {
		if rows[w.Key] != (sums{w.Admitted, w.Refused}) {
			t.Errorf("the chart of %s has %+v, the report %d and %d", w.Key, rows[w.Key], w.Admitted, w.Refused)
		}
	}
	text := get[string](t, ctx, `document.body.innerText`)
	for _, l := range want.Limits {
		if !strings.Contains(text, l.Limit+"\t"+strconv.FormatInt(l.Refused, 10)+"\t") {
			t.Errorf("the page does not say that %s refused %d", l.Limit, l.Refused)
		}
	}
	if !strings.Contains(text, "This page names clients.") {
		t.Error("the page does not say that it names clients")
	}
}

// expectCharts: each is drawn with more than axes, and has an alternative in words.
func expectCharts(t *testing.T, ctx context.Context) {
	type chart struct {
		Kind, Words, Role string
		Height            float64
		Marks             int
	}
	charts := get[[]chart](t, ctx, `Array.from(document.querySelectorAll("[data-chart]"), (c) => ({Kind: c.dataset.chart, Words: c.getAttribute("aria-label"),
		Role: c.getAttribute("role"), Height: c.getBoundingClientRect().height, Marks: c.querySelectorAll("svg path[fill]:not([fill=none])").length}))`)
	kinds := map[string]int{}
	for _, c := range charts {
		kinds[c.Kind]++
		if c.Role != "img" || len(strings.Fields(c.Words)) < 5 || c.Height < 100 || c.Marks == 0 {
			t.Errorf("a chart is %+v", c)
		}
	}
	for kind, n := range map[string]int{"time": 1, "client": 10, "heat": 1, "peaks": 2} {
		if kinds[kind] != n {
			t.Errorf("%d charts of %s, want %d", kinds[kind], kind, n)
		}
	}
}

// expectChoice turns the map from requests to refusals, of which it has fewer fields, and back.
func expectChoice(t *testing.T, ctx context.Context) {
	const fields = `document.querySelectorAll('[data-chart="heat"] svg path[fill]:not([fill=none])').length`
	requests := get[int](t, ctx, fields)
	do(t, ctx, chromedp.Focus(`input[value="requests"]`), chromedp.KeyEvent(kb.ArrowRight))
	refusals := get[int](t, ctx, fields)
	do(t, ctx, chromedp.KeyEvent(kb.ArrowLeft))
	if again := get[int](t, ctx, fields); refusals == 0 || refusals >= requests || again != requests {
		t.Errorf("%d fields of requests, %d of refusals, then %d of requests", requests, refusals, again)
	}
}

// expectSorting goes by the keyboard alone from the top of the page to the heading "admitted".
func expectSorting(t *testing.T, ctx context.Context) {
	do(t, ctx, chromedp.Navigate(get[string](t, ctx, `location.href`)), chromedp.WaitReady("html[data-drawn]"))
	// The first stop is the link that skips the charts, then the table itself, then its headings.
	do(t, ctx, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	for range 4 {
		do(t, ctx, chromedp.KeyEvent(kb.Tab))
	}
	const focused = `document.activeElement`
	if at := get[string](t, ctx, focused+`.textContent`); at != "admitted" {
		t.Fatalf("the focus is on %q, want the heading admitted", at)
	}
	if outline := get[string](t, ctx, `getComputedStyle(`+focused+`).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is not to be seen: its outline is %s", outline)
	}
	for _, want := range []string{"descending", "ascending"} {
		do(t, ctx, chromedp.KeyEvent(kb.Enter))
		if got := get[string](t, ctx, focused+`.closest("th").getAttribute("aria-sort")`); got != want {
			t.Errorf("aria-sort is %s, want %s", got, want)
		}
		if n := get[int](t, ctx, `document.querySelectorAll('.sortable th[aria-sort="ascending"], .sortable th[aria-sort="descending"]').length`); n != 1 {
			t.Errorf("%d headings say that they sort", n)
		}
		column := get[[]int](t, ctx, `Array.from(document.querySelector(".sortable").tBodies[0].rows, (r) => Number(r.cells[2].textContent.replaceAll(",", "")))`)
		sorted := slices.IsSorted(column)
		if want == "descending" {
			slices.Reverse(column)
			sorted = slices.IsSorted(column)
		}
		if !sorted || column[0] == column[len(column)-1] {
			t.Errorf("the column is not %s", want)
		}
		if said := get[string](t, ctx, `document.getElementById("sorted").textContent`); said != "Sorted by admitted, "+want+"." {
			t.Errorf("the page says %q", said)
		}
	}
}
