package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/page"
)

// released are the files of Apache ECharts as the package echarts of npm has them, version 6.1.0: its license files, its
// dist/echarts.min.js.
var released = map[string]string{
	"echarts.min.js":     "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0",
	"echarts.LICENSE":    "634293835b43a6dd2094fa39182a3d9a6b9ca43b7fdb9ac354e8037af2a3093a",
	"echarts.LICENSE-d3": "e1211892da0b0e0585b7aebe8f98c1274fba15bafe47fa1f4ee8a7a502c06304",
	"echarts.NOTICE":     "d491d358344f842685c1b1585970999db65fe30ecf7ef3867af8814f4016c016",
}

// TestChartsAreThoseThatWereReleased, byte by byte.
func TestChartsAreThoseThatWereReleased(t *testing.T) {
	for name, want := range released {
		text, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the SHA-256 %x, want %s", name, sum, want)
		}
	}
}

// report is of two clients, one of them with a name that would break out of the page.
func report() *page.Report {
	const hostile = `</script><img src=https://example.org/x onerror=alert(1)>"'`
	over := &page.Over{Admitted: []int64{1, 0, 2}, Refused: []int64{0, 0, 3}}
	return &page.Report{
		Title: "Rehearsal of 2/1m", Lead: []string{hostile},
		Facts:  []page.Fact{{Name: "events", Value: "1,234"}},
		Time:   page.Time{Start: 1614556800000, Width: 3_600_000, Admitted: []int64{1, 0, 1233}, Refused: []int64{0, 0, 3}},
		Policy: page.Table{{"limit", "refused"}, {"2/1m", "3"}},
		Peaks:  []page.Peaks{{Name: "2/1m", Quota: 2, Window: "1m", Bins: []page.Bin{{Label: "1", Clients: 1}, {Label: "3–5", Clients: 1, Over: true}}, Said: "Peaks."}},
		Clients: []page.Client{
			{Name: hostile, Admitted: 3, Refused: 3, Share: "50.0 %", Peaks: []int64{5}, Over: over},
			{Name: "b", Admitted: 1231, Share: "0.0 %", Peaks: []int64{1}, Over: over},
		},
		Others: "All 2.", Notes: []string{hostile},
	}
}

func written(t *testing.T, r *page.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSameReportSameBytes.
func TestSameReportSameBytes(t *testing.T) {
	first, second := written(t, report()), written(t, report())
	if first != second {
		t.Error("the page differs from one time to the next")
	}
}

// TestNamesCannotBreakOut of the places where they stand: they are text everywhere.
func TestNamesCannotBreakOut(t *testing.T) {
	text := written(t, report())
	if n := strings.Count(text, "<script"); n != 3 {
		t.Errorf("%d scripts, want 3", n)
	}
	if strings.Contains(text, "<img src=https") {
		t.Error("a name became an element")
	}
}

var address = regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'<>)]*`)

// TestPageLeadsNowhere: of its addresses none is fetched or followed. They are names of XML and licences in the charts' code.
func TestPageLeadsNowhere(t *testing.T) {
	plain := report()
	plain.Lead, plain.Notes, plain.Clients[0].Name = nil, nil, "a"
	text := written(t, plain)
	for _, found := range address.FindAllString(text, -1) {
		if !strings.HasPrefix(found, "http://www.w3.org/") && !strings.HasPrefix(found, "http://www.apache.org/licenses/") && found != "https://github.com/ecomfe/zrender/blob/master/LICENSE" {
			t.Errorf("the page has the address %s", found)
		}
	}
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)[1])
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "script-src 'unsafe") || strings.Count(policy, "'sha256-") != 2 {
		t.Errorf("its policy is %s", policy)
	}
}

// TestWordsSayWhatChartsShow.
func TestWordsSayWhatChartsShow(t *testing.T) {
	r := report()
	for _, c := range []struct{ got, want string }{
		{r.Time.Said(), "1,237 requests, 3 refused, in buckets of 1 hour. The busiest began at 2021-03-01 02:00 with 1,236 requests. Most were refused from 2021-03-01 02:00: 3 of 3."},
		{r.Time.SaidOf(r.Clients[1]), "6 requests, 3 refused, in buckets of 1 hour. The busiest began at 2021-03-01 02:00 with 5 requests. Most were refused from 2021-03-01 02:00: 3 of 3."},
		{page.Time{Width: 1, Admitted: []int64{0}, Refused: []int64{0}}.Said(), "No requests."},
		{page.Time{Width: 15_000}.Bucket(), "15 seconds"},
		{page.Time{Width: 172_800_000}.Bucket(), "2 days"},
		{page.Time{Width: 100}.Bucket(), "100 milliseconds"},
		{page.Thousands(0), "0"},
		{page.Thousands(-1234567), "-1,234,567"},
		{page.Thousands(999), "999"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if rows := r.Time.Rows(); len(rows) != 2 || rows[1] != (page.Row{From: "2021-03-01 02:00", Admitted: 1233, Refused: 3}) {
		t.Errorf("rows %+v", rows)
	}
}

// TestEmptyReportHasNoCharts.
func TestEmptyReportHasNoCharts(t *testing.T) {
	text := written(t, &page.Report{Title: "Nothing"})
	if strings.Contains(text, `<div class="chart`) || !strings.Contains(text, "<h1>Nothing</h1>") {
		t.Error("the page of an empty report has charts or no title")
	}
}
