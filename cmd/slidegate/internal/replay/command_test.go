package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/gatetest"
)

// replayed runs the command on an input.
func replayed(input string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return out.String(), errs.String(), err
}

// reported runs the command for its report.
func reported(t *testing.T, input string, args ...string) (r Report) {
	t.Helper()
	out, errs, err := replayed(input, append([]string{"--json"}, args...)...)
	if err != nil || errs != "" {
		t.Fatalf("%v: %v, %q", args, err, errs)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return r
}

func TestSiteLog(t *testing.T) {
	for _, c := range []struct {
		limits            []string
		admitted, refused int64
		keys              int
		byLimit           []int64
	}{
		{[]string{"60/1m"}, 27_586, 622, 7, []int64{622}},
		{[]string{"60/1m,counter"}, 27_623, 585, 7, []int64{585}},
		{[]string{"burst=10/1s", "sustained=100/1m"}, 25_309, 2_899, 206, []int64{2_893, 6}},
		{[]string{"a=5/1s", "b=30/1m,counter"}, 22_640, 5_568, 253, []int64{4_672, 916}},
	} {
		args := []string{"testdata/site-2021.log.gz"}
		for _, l := range c.limits {
			args = append(args, "--limit", l)
		}
		r := reported(t, "", args...)
		if r.Events != 28_208 || r.Admitted != c.admitted || r.Refused != c.refused || r.KeysRefused != c.keys {
			t.Errorf("%v: %d admitted, %d refused, %d keys refused of %d; want %d, %d, %d of 28208", c.limits, r.Admitted, r.Refused, r.KeysRefused, r.Events, c.admitted, c.refused, c.keys)
		}
		for i, l := range r.Limits {
			if l.Limit != c.limits[i] || l.Refused != c.byLimit[i] {
				t.Errorf("%v: %+v, want %d", c.limits, l, c.byLimit[i])
			}
		}
		if r.Format != "common" || r.Keys != 2_588 || r.OutOfOrder != 4 || r.Unreadable != 0 || !r.WholeSeconds || r.First != "2021-03-01T05:00:52Z" {
			t.Errorf("%v: %+v", c.limits, r)
		}
		if len(r.Worst) != min(c.keys, worstKeys) || r.Worst[0].Refused < r.Worst[1].Refused || r.Worst[0].Refused == 0 {
			t.Errorf("%v: worst %+v", c.limits, r.Worst)
		}
	}
}

// A verdictLine is a line of --verdicts.
type verdictLine struct {
	T         int64
	Op, Key   string
	Cost      int64
	Allowed   bool
	Remaining int64
	Reset     int64 `json:"reset_ms"`
	Retry     int64 `json:"retry_ms"`
	Binding   string
	Limits    []state
	OK        bool
	Error     string
}

type state struct {
	Name             string
	Quota, Remaining int64
	Reset            int64 `json:"reset_ms"`
	Retry            int64 `json:"retry_ms"`
}

// TestScenarios feeds every scenario as jsonl and wants every verdict, in the order of the file.
func TestScenarios(t *testing.T) {
	for _, s := range gatetest.AllScenarios() {
		args := []string{"--verdicts", "--format", "jsonl", "-"}
		for _, l := range s.AllLimits() {
			args = append(args, "--limit", l.String())
		}
		var input strings.Builder
		for _, step := range s.Steps {
			for range max(1, step.Repeat) {
				fmt.Fprintf(&input, "{\"t\":%d,\"op\":%q,\"key\":%q,\"cost\":%d}\n", step.T, step.Op, step.Key, step.Cost)
			}
		}
		out, errs, err := replayed(input.String(), args...)
		if err != nil || errs != "" {
			t.Errorf("%s: %v, %q", s.ID, err, errs)
			continue
		}
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		for i, step := range s.Steps {
			n := max(1, step.Repeat)
			if len(lines) < n {
				t.Fatalf("%s: no verdict for step %d", s.ID, i)
			}
			checkStep(t, fmt.Sprintf("%s step %d", s.ID, i), &step, lines[:n])
			lines = lines[n:]
		}
		if len(lines) != 0 {
			t.Errorf("%s: more verdicts than events: %q", s.ID, lines)
		}
	}
}

func checkStep(t *testing.T, name string, step *gatetest.Step, lines []string) {
	t.Helper()
	admitted := 0
	var v verdictLine
	for _, line := range lines {
		v = verdictLine{}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v: %s", name, err, line)
		}
		if v.Allowed {
			admitted++
		}
	}
	want := verdictLine{T: step.T, Op: step.Op, Key: step.Key, Cost: step.Cost}
	e := &step.Expect
	if e.AllowedCount != nil {
		if admitted != *e.AllowedCount {
			t.Errorf("%s: %d admitted, want %d", name, admitted, *e.AllowedCount)
		}
		e = e.Last
	}
	switch {
	case e.Error != "":
		want.Error = e.Error
	case step.Op == "reset":
		want.OK = true
	default:
		want.Allowed, want.Remaining, want.Reset, want.Retry, want.Binding = e.Allowed, e.Remaining, e.Reset, e.Retry, e.Binding
		for _, l := range e.Limits {
			want.Limits = append(want.Limits, state{l.Name, l.Quota, l.Remaining, l.Reset, l.Retry})
		}
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("%s: %+v\nwant %+v", name, v, want)
	}
}

// TestVerdictsToTheByte: what others parse keeps its form.
func TestVerdictsToTheByte(t *testing.T) {
	out, errs, err := replayed(`{"t":0,"key":"a"}
{"t":"1970-01-01T01:00:00.2509+01:00","op":"peek","key":"a","cost":2,"note":{"x":[1,"}"]}}
{"t":250,"op":"take","key":"a","cost":4}
{"t":250,"op":"reset","key":"a"}
{"t":-1,"key":"\u00e9\n\"<"}
`, "--limit", "t0=3/1s", "--verdicts", "--format", "jsonl", "-")
	want := `{"t":0,"op":"take","key":"a","cost":1,"allowed":true,"remaining":2,"reset_ms":1000,"retry_ms":0,"binding":"t0","limits":[{"name":"t0","quota":3,"remaining":2,"reset_ms":1000,"retry_ms":0}]}
{"t":250,"op":"peek","key":"a","cost":2,"allowed":true,"remaining":2,"reset_ms":750,"retry_ms":0,"binding":"t0","limits":[{"name":"t0","quota":3,"remaining":2,"reset_ms":750,"retry_ms":0}]}
{"t":250,"op":"take","key":"a","cost":4,"error":"cost"}
{"t":250,"op":"reset","key":"a","cost":1,"ok":true}
{"t":-1,"op":"take","key":"é\n\"<","cost":1,"allowed":true,"remaining":2,"reset_ms":1000,"retry_ms":0,"binding":"t0","limits":[{"name":"t0","quota":3,"remaining":2,"reset_ms":1000,"retry_ms":0}]}
`
	if out != want || errs != "" || err != nil {
		t.Errorf("%v, %q, got\n%swant\n%s", err, errs, out, want)
	}
}

// TestOrder: a log is replayed in the order of time, ties in that of the file; jsonl with verdicts
// in that of the file.
func TestOrder(t *testing.T) {
	const events = `{"t":2000,"key":"c"}
{"t":1000,"key":"a"}
{"t":2000,"key":"d"}
{"t":1000,"key":"b"}
`
	keysOf := func(out string) (keys string) {
		for line := range strings.Lines(out) {
			var v verdictLine
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			keys += v.Key + " "
		}
		return keys
	}
	out, _, err := replayed(events, "--limit", "1/1s", "--verdicts", "-")
	if got := keysOf(out); got != "c a d b " || err != nil {
		t.Errorf("jsonl: %q, %v", got, err)
	}
	const lines = `10.0.0.3 - - [01/Mar/2021:00:00:02 +0000] "GET / HTTP/1.0" 200 1
10.0.0.1 - - [01/Mar/2021:01:00:01 +0100] "GET / HTTP/1.0" 200 1
10.0.0.4 - - [28/Feb/2021:19:00:02 -0500] "GET / HTTP/1.0" 200 1
10.0.0.2 - - [01/Mar/2021:00:00:01 +0000] "GET / HTTP/1.0" 200 1
`
	out, _, err = replayed(lines, "--limit", "1/1s", "--verdicts", "-")
	if got := keysOf(out); got != "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 " || err != nil {
		t.Errorf("access log: %q, %v", got, err)
	}
	if r := reported(t, events, "--limit", "1/1s", "-"); r.OutOfOrder != 2 || r.Events != 4 || r.First != "1970-01-01T00:00:01Z" || r.Last != "1970-01-01T00:00:02Z" {
		t.Errorf("%+v", r)
	}
}

// TestReportCounts: what is charged nothing is counted apart, and what cannot be read with its place.
func TestReportCounts(t *testing.T) {
	const events = `{"t":1,"key":"a"}
{"t":2,"key":"a"}
{"t":2,"op":"peek","key":"a"}

{"t":3,"op":"reset","key":"a"}
{"t":3,"key":"a","cost":2}
{"t":4,"key":"b","cost":0}
what is this
{"t":4}
`
	r := reported(t, events, "--limit", "1/1h", "--limit", "x=1/1d,counter", "-")
	want := Report{
		Files: []string{"standard input"}, Format: "jsonl", First: "1970-01-01T00:00:00.001Z", Last: "1970-01-01T00:00:00.004Z",
		Limits: []LimitReport{{"1/1h", "1/1h", 1}, {"x", "x=1/1d,counter", 1}},
		Events: 6, Admitted: 2, Refused: 1, Peeks: 1, Resets: 1, CostErrors: 1, Keys: 2, KeysRefused: 1, Unreadable: 2,
		BadLines: []accesslog.BadLine{{File: "standard input", Line: 8, Reason: noObject}, {File: "standard input", Line: 9, Reason: "key is missing"}},
		Worst:    []KeyReport{{"a", 1, 1}},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v\nwant %+v", r, want)
	}
	text, errs, err := replayed(events, "--limit", "1/1h", "--limit", "x=1/1d,counter", "-")
	wantText := `standard input, read as jsonl (told from the first lines)
1970-01-01T00:00:00.001Z to 1970-01-01T00:00:00.004Z

events               6
admitted             2   66.7 %
refused              1   33.3 %
  by 1/1h            1
  by x=1/1d,counter  1
peeks                1  charge nothing
resets               1
cost errors          1  costs that can never fit
keys                 2
keys refused         1   50.0 %
out of order         0
unreadable           2
  standard input:8: ` + noObject + `
  standard input:9: ` + "key is missing" + `

worst keys       refused      admitted
a                      1             1
`
	if text != wantText || errs != "" || err != nil {
		t.Errorf("%v, %q, got\n%swant\n%s", err, errs, text, wantText)
	}
}

// TestVerdictsTellWhatTheyLeaveOut: the lines that could not be read, and the format that was guessed.
func TestVerdictsTellWhatTheyLeaveOut(t *testing.T) {
	out, errs, err := replayed("{\"t\":1,\"key\":\"a\"}\n"+strings.Repeat("no\n", 7), "--limit", "1/1s", "--verdicts", "-")
	if err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%v, %q", err, out)
	}
	for _, want := range []string{"read as jsonl", "unreadable lines: 7: standard input:2: the line is no", "standard input:6:", "and 2 more"} {
		want = strings.ReplaceAll(want, "the line is no", noObject[:16])
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in %q", want, errs)
		}
	}
	if strings.Contains(errs, "input:7:") {
		t.Errorf("more than the first few: %q", errs)
	}
}

func TestFormats(t *testing.T) {
	const (
		clf   = `10.0.0.1 - - [01/Mar/2021:00:00:02 +0000] "GET / HTTP/1.0" 200 1`
		comb  = `2001:db8::1 - - [01/Mar/2021:00:00:02 +0000] "GET / HTTP/1.0" 200 1 "https://x.example/" "curl"`
		event = `{"t":1,"key":"a"}`
		bom   = "\xef\xbb\xbf"
	)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, comb+"\n")
	z.Close()
	member := packed.String()
	for _, c := range []struct {
		name, input, format string
		events, unreadable  int64
	}{
		{"common", clf + "\n" + clf + "\n", "common", 2, 0},
		{"combined", comb, "combined", 1, 0},
		{"jsonl", event + "\r\n" + event, "jsonl", 2, 0},
		{"bad first lines", "#fields\n\n" + comb + "\n", "combined", 1, 1},
		{"byte order mark", bom + event + "\n", "jsonl", 1, 0},
		{"packed", member, "combined", 1, 0},
		{"packed in members", member + member, "combined", 2, 0},
		{"nothing", "", "auto", 0, 0},
		{"blank lines", "\n \r\n\n", "auto", 0, 0},
		{"a long line", clf + "\n" + strings.Repeat("x", maxLine+5) + "\n" + clf, "common", 2, 1},
		{"a line of the greatest length", clf + "\n" + clf + strings.Repeat("x", maxLine-len(clf)-1) + "\n", "common", 2, 0},
		{"a long last line", clf + "\n" + strings.Repeat("x", 2*maxLine), "common", 1, 1},
	} {
		r := reported(t, c.input, "--limit", "9/1s", "-")
		if r.Format != c.format || r.Events != c.events || r.Unreadable != c.unreadable || r.Worst == nil {
			t.Errorf("%s: read as %s, %d events, %d unreadable: %+v", c.name, r.Format, r.Events, r.Unreadable, r.BadLines)
		}
	}
	for format, input := range map[string]string{"jsonl": event, "common": comb, "combined": clf} {
		if r := reported(t, input, "--limit", "9/1s", "--format", format, "-"); r.Events != 1 || r.Format != format {
			t.Errorf("--format %s: %+v", format, r)
		}
	}
}

// TestNothingReadIsAnError: a report that says 0 refused of a log that nobody could read would lie.
func TestNothingReadIsAnError(t *testing.T) {
	const clf = `10.0.0.1 - - [01/Mar/2021:00:00:02 +0000] "GET / HTTP/1.0" 200 1`
	for _, how := range []string{"--json", "--verdicts", "--format=jsonl"} {
		_, _, err := replayed(clf, "--limit", "9/1s", "--format", "jsonl", how, "-")
		if err == nil || !strings.Contains(err.Error(), "no line could be read as jsonl: standard input:1: ") {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestSeveralFiles: they are one log, lines are counted in each, and - may be among them.
func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.log"), filepath.Join(dir, "second.log")
	line := func(second int) string {
		return fmt.Sprintf("10.0.0.1 - - [01/Mar/2021:00:00:%02d +0000] \"GET / HTTP/1.0\" 200 1\n", second)
	}
	write(t, first, line(10)+line(11)+"bad\n")
	write(t, second, line(0)+line(12))
	r := reported(t, line(11), "--limit", "2/2s", first, "-", second)
	if r.Events != 5 || r.OutOfOrder != 3 || r.Unreadable != 1 || r.BadLines[0] != (accesslog.BadLine{File: first, Line: 3, Reason: noAddress}) || r.Keys != 1 || r.Refused != 1 {
		t.Errorf("%+v", r)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBadCalls: each gets one sentence that names what is wrong, before anything is printed.
func TestBadCalls(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		write(t, name, text)
		return name
	}
	event := file("e.jsonl", "{\"t\":1,\"key\":\"a\"}\n")
	access := file("a.log", "10.0.0.1 - - [01/Mar/2021:00:00:02 +0000] \"GET / HTTP/1.0\" 200 1\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("{\"t\":1,\"key\":\"a\"}\n", 10))
	z.Close()
	limited := func(args ...string) []string { return append([]string{"--limit", "1/1s"}, args...) }
	for _, c := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{event}, "--limit is missing", true},
		{[]string{"--limit", "0/1s", event}, "quota 0", true},
		{[]string{"--limit", "a=1/1s", "--limit", "a=2/1s", event}, `two limits have the name "a"`, true},
		{strings.Fields(strings.Repeat("--limit 1/1s ", 9) + "x"), "9 limits: allowed is 1 to 8", true},
		{limited(), "replay: no file: name at least one, or - for standard input", true},
		{limited("--store", "redis", event), `--store "redis": allowed is memory, or a URL such as redis://127.0.0.1:6379/0`, true},
		{limited("--store-cleanup", event), "--store-cleanup: it is about Redis, and --store is memory", true},
		{limited("--store", "redis://127.0.0.1:1", "--store-timeout", "61s", event), "--store-timeout 1m1s: allowed is 1ms to 1m", true},
		{limited("--store", "redis://127.0.0.1:1", "--store-prefix", "a{b", event), `--store-prefix "a{b": allowed is text that is not blank`, true},
		{limited("--format", "xml", event), `--format "xml": allowed is auto, jsonl, common, combined`, true},
		{limited("--key", "colour", event), `--key "colour": part "colour" is unknown: allowed is ip, header:NAME`, true},
		{limited("--key", "header", access), `--key "header": part "header" is unknown: allowed is ip, header:NAME`, true},
		{limited("--key", "header:X-Key", access), "--key header:X-Key: no line of the log has header:X-Key", false},
		{limited("--key", "header:X-Key", event), "e.jsonl has events, which have keys of their own", false},
		{limited("--field", "ip", access), `--field "ip": allowed is WHAT=NAME`, true},
		{limited("--field", "adress=x", access), `--field "adress=x": allowed before = is bytes, duration, host, ip, method, path, query, request, status, time`, true},
		{limited("--columns", "time,ip", access), `--format "auto": columns have names in csv and tsv alone`, true},
		{limited("--format", "csv", "--columns", "time,x", access), `--format "csv": no column is the client's address`, true},
		{limited("--format", "$remote_addr", access), "--format \"$remote_addr\": no field is the time of the request", true},
		{limited("--format", "%h%u %t", access), `--format "%h%u %t": nothing stands between two fields`, true},
		{limited("--verdicts", "--json", event), "--verdicts and --json: one of them", true},
		{limited("-", "-"), "- stands for standard input and may be given once", true},
		{limited(event, filepath.Join(dir, "none")), "there is no file " + dir, false},
		{limited(dir), dir + " is a directory", false},
		{limited(file("words.txt", "one\ntwo\n")), "words.txt: its first lines are in no format", false},
		{limited(access, event), "e.jsonl is jsonl and ", false},
		{limited(file("z.xz", "\xfd7zXZ\x00....")), "z.xz is packed as xz, and gzip, zstd and bzip2 are read: try xzcat", false},
		{limited(file("short.gz", packed.String()[:20])), "short.gz cannot be read: unexpected EOF", false},
		{limited(file("no.gz", "\x1f\x8b no")), "no.gz cannot be read", false},
	} {
		out, _, err := replayed("", c.args...)
		var usage *config.UsageError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &usage) != c.usage || out != "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: error %v, output %q; want %q, a usage error: %v", c.args, err, out, c.want, c.usage)
		}
	}
}

// TestVerdictsComeAsEventsDo: somebody who writes an event and waits for its verdict gets it.
func TestVerdictsComeAsEventsDo(t *testing.T) {
	in, events := io.Pipe()
	verdictsOf, out := io.Pipe()
	done := make(chan error, 1)
	cmd := Command()
	cmd.SetArgs([]string{"--limit", "1/1s", "--verdicts", "-"})
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	go func() { done <- cmd.Execute(); out.Close() }()
	d := json.NewDecoder(verdictsOf)
	for i, want := range []bool{true, false, false, true} {
		fmt.Fprintf(events, "{\"t\":%d,\"key\":\"a\"}\n", i*400)
		var v verdictLine
		if err := d.Decode(&v); err != nil || v.T != int64(i*400) || v.Allowed != want {
			t.Fatalf("event %d: %v, %+v", i, err, v)
		}
	}
	events.Close()
	if _, err := io.Copy(io.Discard, verdictsOf); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A broken writer takes a few bytes and then fails.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestOutputThatFailsIsAnError(t *testing.T) {
	for _, args := range [][]string{{"--verdicts"}, {"--json"}, {}} {
		cmd := Command()
		cmd.SetArgs(append(args, "--limit", "1/1s", "testdata/site-2021.log.gz"))
		cmd.SetOut(&broken{left: 100})
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); !errors.Is(err, errBroken) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// What lines that cannot be read are told.
const (
	noObject  = `the line is not a JSON object such as {"t":1757750400000,"op":"take","key":"a","cost":1}`
	noAddress = "the client's address is not an IPv4 or IPv6 address"
	maxLine   = 1 << 20
)

// TestCutFileIsReportedAndFails: what is there is told, that something is missing too, and the command fails.
func TestCutFileIsReportedAndFails(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 10 {
		fmt.Fprintf(z, "{\"t\":%d,\"key\":\"a\"}\n", i)
	}
	z.Close()
	cut := filepath.Join(t.TempDir(), "cut.gz")
	write(t, cut, packed.String()[:packed.Len()-4])
	const missing = "cut.gz cannot be read: unexpected EOF after line 10"
	for _, how := range []string{"--json", "--json=false", "--verdicts"} {
		out, _, err := replayed("", "--limit", "3/1s", how, cut)
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", how, err)
		}
		switch how {
		case "--verdicts":
			if strings.Count(out, "\n") != 10 {
				t.Errorf("%s", out)
			}
		case "--json":
			var r Report
			if err := json.Unmarshal([]byte(out), &r); err != nil || r.Admitted != 3 || r.Refused != 7 || len(r.CutShort) != 1 || !strings.Contains(r.CutShort[0], missing) {
				t.Errorf("%v: %s", err, out)
			}
		default:
			if !strings.Contains(out, missing+": what follows is missing here.") || !strings.Contains(out, "refused        7") {
				t.Errorf("%s", out)
			}
		}
	}
}

// TestStrict: a line that cannot be read is an error then, and no report comes of it.
func TestStrict(t *testing.T) {
	out, _, err := replayed("{\"t\":1,\"key\":\"a\"}\nno\n", "--limit", "1/1s", "--strict", "-")
	if err == nil || err.Error() != "standard input:2: "+noObject || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}

// TestSpread: five requests of one second are as far apart as they can be, which a limit over less than a second sees.
func TestSpread(t *testing.T) {
	lines := strings.Repeat("10.0.0.1 - - [01/Mar/2021:00:00:02 +0000] \"GET / HTTP/1.0\" 200 1\n", 5)
	together := reported(t, lines, "--limit", "1/200ms", "-")
	apart := reported(t, lines, "--limit", "1/200ms", "--spread", "-")
	if together.Refused != 4 || apart.Refused != 0 || together.Spread || !apart.Spread || !apart.WholeSeconds || apart.Last != "2021-03-01T00:00:02.8Z" {
		t.Errorf("%+v\n%+v", together, apart)
	}
	text, _, err := replayed(lines, "--limit", "1/200ms", "--spread", "-")
	if err != nil || !strings.Contains(text, "requests of one second are set apart evenly") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestKeys: clients are told apart as serve tells them, by whatever the log has.
func TestKeys(t *testing.T) {
	const lines = `{"time":"2026-11-30T10:00:00.1Z","ip":"10.0.0.1","method":"GET","path":"/a/../b?x","http_x_api_key":"k1","cookie_session":"s"}
{"time":"2026-11-30T10:00:00.2Z","ip":"10.0.0.2","method":"GET","path":"/b","http_x_api_key":"k1"}
{"time":"2026-11-30T10:00:00.3Z","ip":"10.0.0.2","method":"POST","path":"/c"}
`
	for key, want := range map[string][]string{
		"ip": {"10.0.0.1", "10.0.0.2"}, "header:X-Api-Key": {"header:X-Api-Key:k1", "10.0.0.2"}, "path": {"path:/b", "path:/c"},
		"method": {"method:GET", "method:POST"}, "cookie:session": {"cookie:session:s", "10.0.0.2"},
	} {
		out, _, err := replayed(lines, "--limit", "9/1s", "--verdicts", "--key", key, "-")
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		for _, name := range want {
			if !strings.Contains(out, fmt.Sprintf("%q", name)) {
				t.Errorf("%s: no key %s in %s", key, name, out)
			}
		}
		if r := reported(t, lines, "--limit", "9/1s", "--key", key, "-"); r.Keys != len(want) || r.Fields["ip"] != "ip" || r.Fields["time"] != "time" || r.Fields["path"] != "path" {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if r := reported(t, lines, "--limit", "9/1s", "--key", "ip+path", "-"); r.Keys != 3 {
		t.Errorf("%+v", r)
	}
	text, _, err := replayed(lines, "--limit", "9/1s", "-")
	if err != nil || !strings.HasPrefix(text, "standard input, read as json (told from the first lines, ip is ip, method is method, path is path, time is time)\n") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestInterrupted: who ends it gets an error, nothing is printed and no file stays, wherever it was.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, args := range [][]string{{}, {"--json"}, {"--verdicts"}} {
		ctx, cancel := context.WithCancel(t.Context())
		in, lines := io.Pipe()
		go func() {
			defer lines.Close()
			source := &generatedLog{lines: 200_000, servers: 1}
			_, _ = io.CopyN(lines, source, 5_000_000)
			cancel()
			_, _ = io.Copy(lines, source)
		}()
		var out bytes.Buffer
		cmd := Command()
		cmd.SetArgs(append(args, "--limit", "1/1s", "-"))
		cmd.SetIn(in)
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || out.Len() > 0 {
			t.Errorf("%v: %v, %d bytes", args, err, out.Len())
		}
		in.Close()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: %v, left behind: %v", args, err, left)
		}
	}
}

// TestRulesOfTheSite: what each rule of a file does on the log of a site, and what becomes of the rest.
func TestRulesOfTheSite(t *testing.T) {
	r := reported(t, "", "--config", "testdata/site.yaml", "testdata/site-2021.log.gz")
	if r.Events != 28_208 || r.Admitted+r.Refused != r.Events || r.Rules.Exempt == 0 || r.Rules.Denied != 2 || len(r.Limits) != 0 {
		t.Errorf("%+v", r)
	}
	matched, refused := r.Rules.Exempt+r.Rules.Denied+r.Rules.Unmatched, r.Rules.Denied
	for _, one := range r.Rules.Rules {
		if one.Admitted+one.Refused != one.Matched {
			t.Errorf("%s: %d admitted and %d refused of %d", one.Rule, one.Admitted, one.Refused, one.Matched)
		}
		byAll := one.Banned + one.Blocked + one.CostErrors
		for _, l := range one.Limits {
			byAll += l.Refused
		}
		if byAll < one.Refused || one.KeysRefused > one.Keys || len(one.Worst) != min(one.KeysRefused, worstKeys) {
			t.Errorf("%s: %+v", one.Rule, one)
		}
		if one.Mode != "shadow" {
			matched, refused = matched+one.Matched, refused+one.Refused
		}
	}
	if matched != r.Events || refused != r.Refused {
		t.Errorf("%d requests have a fate, of %d; %d are refused, of %d", matched, r.Events, refused, r.Refused)
	}
	want := []string{"the host: the hosts of the domain shop", "the header X-Api-Key: the key of shop/customer"}
	if !reflect.DeepEqual(r.Rules.Missing, want) {
		t.Errorf("not in the log: %q", r.Rules.Missing)
	}
}

// TestALimitIsARuleWithoutConditions: what it refuses is the same either way.
func TestALimitIsARuleWithoutConditions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("rules: [{name: all, limits: [burst=10/1s, '100/1m,counter']}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	limits := reported(t, "", "--limit", "burst=10/1s", "--limit", "100/1m,counter", "--side-by-side", "testdata/site-2021.log.gz")
	rules := reported(t, "", "--config", file, "--side-by-side", "testdata/site-2021.log.gz")
	if limits.Admitted != rules.Admitted || limits.Refused != rules.Refused || limits.KeysRefused != rules.KeysRefused || !reflect.DeepEqual(limits.Ways, rules.Ways) {
		t.Errorf("limits %+v\nrules %+v", limits, rules)
	}
	for i, l := range rules.Rules.Rules[0].Limits {
		if l.Refused != limits.Limits[i].Refused {
			t.Errorf("%+v, %+v", l, limits.Limits[i])
		}
	}
}

// TestSideBySide: the row of the way in which a limit counts is the report's own, and a fixed window by hand.
func TestSideBySide(t *testing.T) {
	input := ""
	for _, ms := range []int{0, 900, 950, 1000, 1050, 1800, 1900, 1950, 2900} {
		input += fmt.Sprintf("{\"t\":%d,\"key\":\"a\"}\n", ms)
	}
	for _, limit := range []string{"2/1s", "2/1s,counter"} {
		r := reported(t, input, "--limit", limit, "--side-by-side", "-")
		var own WayReport
		for _, w := range r.Ways {
			if strings.HasSuffix(limit, "counter") == (w.Way == "sliding counter") && w.Way != "fixed window" {
				own = w
			}
		}
		if own.Admitted != r.Admitted || own.Refused != r.Refused || own.KeysRefused != r.KeysRefused {
			t.Errorf("%s: %+v, the report %+v", limit, own, r)
		}
		if fixed := r.Ways[2]; fixed.Way != "fixed window" || fixed.Admitted != 5 || fixed.Refused != 4 {
			t.Errorf("%s: %+v", limit, fixed)
		}
	}
}

// TestEventsHaveNoRules: a key is no request.
func TestEventsHaveNoRules(t *testing.T) {
	_, _, err := replayed(`{"t":1,"key":"a"}`+"\n", "--config", "testdata/site.yaml", "-")
	if err == nil || !strings.Contains(err.Error(), "rules need the requests of an access log") {
		t.Errorf("%v", err)
	}
}
