package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/page"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/sweep"
)

const siteLog = "testdata/site-2021.log.gz"

// pageOf runs the command for its page as well, and returns both.
func pageOf(t *testing.T, input string, args ...string) (text string, r Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	r = reported(t, input, append([]string{"--html", file}, args...)...)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(written), r
}

// expectAlone fails the test if something but the file is in its directory.
func expectAlone(t *testing.T, file string, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != want {
		t.Errorf("%v, %d files, want %d: %v", err, len(entries), want, entries)
	}
}

// drawn is what the script of a page draws.
type drawn struct {
	All  struct{ Admitted, Refused []int64 }
	Rows []struct {
		Name              string
		Admitted, Refused []int64
	}
	Peaks [][]struct{ Clients int64 }
}

// expectFigures compares what a page draws with the report.
func expectFigures(t *testing.T, text string, r *Report) (d drawn) {
	t.Helper()
	match := regexp.MustCompile(`id="data">(.*)</script>`).FindStringSubmatch(text)
	if err := json.Unmarshal([]byte(match[1]), &d); err != nil {
		t.Fatal(err)
	}
	if sum(d.All.Admitted) != r.Admitted || sum(d.All.Refused) != r.Refused || r.Refused == 0 {
		t.Errorf("over time %d and %d, the report %d and %d", sum(d.All.Admitted), sum(d.All.Refused), r.Admitted, r.Refused)
	}
	if len(d.Rows) != pageRows {
		t.Fatalf("%d clients over time", len(d.Rows))
	}
	for i, w := range r.Worst {
		if row := d.Rows[i]; row.Name != w.Key || sum(row.Admitted) != w.Admitted || sum(row.Refused) != w.Refused {
			t.Errorf("client %d is %s with %d and %d, the report has %+v", i, row.Name, sum(row.Admitted), sum(row.Refused), w)
		}
	}
	for i, bins := range d.Peaks {
		n := int64(0)
		for _, b := range bins {
			n += b.Clients
		}
		if n != int64(r.Keys) {
			t.Errorf("the peaks %d are of %d clients, want %d", i, n, r.Keys)
		}
	}
	return d
}

// expectWords fails the test for what a page does not say.
func expectWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("the page does not say %s", want)
		}
	}
}

// TestPageHasTheFiguresOfTheReport.
func TestPageHasTheFiguresOfTheReport(t *testing.T) {
	text, r := pageOf(t, "", "--limit", "burst=10/1s", "--limit", "sustained=100/1m", "--side-by-side", siteLog)
	if d := expectFigures(t, text, &r); len(d.Peaks) != 2 {
		t.Errorf("peaks in %d windows", len(d.Peaks))
	}
	expectWords(t, text,
		`<dt>refused</dt><dd>2,899 <small>10.3 %</small></dd>`,
		`<th scope="row">burst=10/1s</th><td class="n">2,893</td>`,
		`<th scope="row">fixed window</th>`,
		`500 of 2,588: the most refused, then the busiest.`,
		`This page names clients.`, `--spread sets`,
	)
}

// TestPageOfRulesHasTheFiguresOfTheReport, by rule.
func TestPageOfRulesHasTheFiguresOfTheReport(t *testing.T) {
	text, r := pageOf(t, "", "--config", "testdata/site.yaml", siteLog)
	if d := expectFigures(t, text, &r); len(d.Peaks) != 3 {
		t.Errorf("peaks in %d windows", len(d.Peaks))
	}
	words := []string{"<h1>Rehearsal of testdata/site.yaml</h1>", "pages-tighter (shadow: would have)", "  by pages:1m=30/1m</th>"}
	for _, rule := range r.Rules.Rules {
		words = append(words, rule.label()+`</th><td class="n">`+page.Thousands(rule.Matched)+`</td><td class="n">`+page.Thousands(rule.Refused)+"</td>")
	}
	expectWords(t, text, words...)
}

func sum(all []int64) (n int64) {
	for _, v := range all {
		n += v
	}
	return n
}

// TestSameLogSamePage, and what stood in the file before is gone.
func TestSameLogSamePage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	write(t, file, strings.Repeat("old", 1<<20))
	var pages []string
	for range 2 {
		reported(t, "", "--limit", "60/1m", "--html", file, siteLog)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, string(text))
	}
	if pages[0] != pages[1] || strings.Contains(pages[0], "oldold") {
		t.Error("the pages differ")
	}
	expectAlone(t, file, 1)
}

// TestPageOfWhatIsNoTake: peeks, resets and costs that never fit are no requests over time.
func TestPageOfWhatIsNoTake(t *testing.T) {
	text, r := pageOf(t, `{"t":1,"key":"a","op":"peek"}`+"\n"+`{"t":2,"key":"a","cost":9}`+"\n"+`{"t":3,"key":"a","op":"reset"}`+"\n",
		"--limit", "2/1m", "--format", "jsonl", "-")
	if r.Events != 3 || r.Peeks != 1 || r.CostErrors != 1 || r.Resets != 1 {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(text, "Nobody asked for anything.") || strings.Contains(text, `<div class="chart`) {
		t.Error("the page draws what nobody asked for")
	}
}

// TestFailureLeavesNoPage: neither a part of one nor the one before changed.
func TestFailureLeavesNoPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	write(t, file, "before")
	if _, _, err := replayed("no log\n", "--limit", "1/1s", "--html", file, "--format", "common", "-"); err == nil {
		t.Error("no error of a log that cannot be read")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "before" {
		t.Errorf("the page before is %q, %v", text, err)
	}
	expectAlone(t, file, 1)
}

// TestPlaceOfThePageIsTriedFirst, before a long log is read.
func TestPlaceOfThePageIsTriedFirst(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "report.html")
	_, _, err := replayed("no log\n", "--limit", "1/1s", "--html", missing, "--format", "common", "-")
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "--html: ") {
		t.Errorf("error %v", err)
	}
}

// TestPageTakesNoPlaceOfWhatIsRead: by no name of it, and of nothing that is no file.
func TestPageTakesNoPlaceOfWhatIsRead(t *testing.T) {
	dir := t.TempDir()
	log, rules, link := filepath.Join(dir, "access.log"), filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "link")
	write(t, log, `198.18.0.1 - - [30/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1`+"\n")
	write(t, rules, "rules: [{name: all, limits: 1/1m}]\n")
	if err := os.Symlink(log, link); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{log, link, filepath.Join(dir, ".", "access.log"), rules, dir} {
		before, _ := os.ReadFile(place)
		_, _, err := replayed("", "--config", rules, "--html", place, log)
		if err == nil || !strings.HasPrefix(err.Error(), "--html "+place+": ") {
			t.Errorf("%s: error %v", place, err)
		}
		if after, _ := os.ReadFile(place); string(after) != string(before) {
			t.Errorf("%s was replaced", place)
		}
	}
	expectAlone(t, log, 3)
}

// A looker is a log that looks at a directory while it is read.
type looker struct {
	log  *strings.Reader
	dir  string
	seen []os.DirEntry
}

func (l *looker) Read(b []byte) (int, error) {
	entries, err := os.ReadDir(l.dir)
	l.seen = append(l.seen, entries...)
	if err != nil {
		return 0, err
	}
	return l.log.Read(b)
}

// TestNothingIsWrittenWhileALogIsRead, so that whoever stops it, by whatever means, leaves nothing.
func TestNothingIsWrittenWhileALogIsRead(t *testing.T) {
	log := &looker{log: strings.NewReader(`{"t":1,"key":"a"}` + "\n"), dir: t.TempDir()}
	file := filepath.Join(log.dir, "report.html")
	cmd := Command()
	cmd.SetArgs([]string{"--limit", "1/1s", "--html", file, "--format", "jsonl", "-"})
	cmd.SetIn(log)
	cmd.SetOut(io.Discard)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if len(log.seen) > 0 {
		t.Errorf("there were %v", log.seen)
	}
	expectAlone(t, file, 1)
}

func TestBadCallsForAPage(t *testing.T) {
	for _, args := range [][]string{
		{"--limit", "1/1s", "--html", "-", "log"},
		{"--limit", "1/1s", "--html", "x.html", "--verdicts", "log"},
	} {
		var usage *config.UsageError
		if _, _, err := replayed("", args...); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--html") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestBinsAreAllPeaks, each once, and a quota is never inside one.
func TestBinsAreAllPeaks(t *testing.T) {
	pass := sweep.New([]int64{1000}, []int64{1 << 40}, false, 0, func(uint32) bool { return false })
	for client := range uint32(100) {
		pass.Add(client, int64(client), int64(client)+1)
	}
	peaks := pass.Curves()[0].Others
	for quota, want := range map[int64]string{
		7:    "1: 1, 2: 1, 3–5: 3, 6–7: 2, 8–10: 3 over, 11–20: 10 over, 21–50: 30 over, 51–100: 50 over",
		20:   "1: 1, 2: 1, 3–5: 3, 6–10: 5, 11–20: 10, 21–50: 30 over, 51–100: 50 over",
		1000: "1: 1, 2: 1, 3–5: 3, 6–10: 5, 11–20: 10, 21–50: 30, 51–100: 50",
	} {
		var got []string
		for _, b := range bins(&peaks, quota) {
			text := fmt.Sprintf("%s: %d", b.Label, b.Clients)
			if b.Over {
				text += " over"
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("quota %d: %s, want %s", quota, got, want)
		}
	}
}
