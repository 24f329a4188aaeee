package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/explain"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// explained runs the command on an input.
func explained(input string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := explain.Command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func asked(t *testing.T, input string, args ...string) (x explain.Explanation) {
	t.Helper()
	out, err := explained(input, append([]string{"--json"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if err := json.Unmarshal([]byte(out), &x); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return x
}

// A take is an event of a log.
type take struct {
	T    int64  `json:"t"`
	Key  string `json:"key"`
	Cost int64  `json:"cost"`
}

func written(takes []take) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	for _, one := range takes {
		_ = e.Encode(one)
	}
	return b.String()
}

// allowed are the verdicts of replay.
func allowed(t *testing.T, takes []take, limits []string) (all []bool) {
	t.Helper()
	var out bytes.Buffer
	cmd := replay.Command()
	cmd.SetArgs(append([]string{"--verdicts", "--format", "jsonl", "-"}, limits...))
	cmd.SetIn(strings.NewReader(written(takes)))
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		all = append(all, strings.Contains(line, `"allowed":true`))
	}
	return all
}

// TestExplanationsAreTrue: the request is admitted at the time that is named, and refused a millisecond before; what
// filled the window adds up, was admitted, and leaves when it is said to.
func TestExplanationsAreTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, texts := range [][]string{{"5/1s"}, {"9/2s,counter"}, {"20/3s,resolution=250ms"}, {"4/300ms", "a=12/4s", "b=9/2s,counter"}} {
		var limits []string
		for _, l := range texts {
			limits = append(limits, "--limit", l)
		}
		var takes []take
		now := int64(1_796_032_800_000)
		for range 400 {
			now += int64(r.IntN(180))
			takes = append(takes, take{now, []string{"ann", "bob"}[r.IntN(2)], 1 + int64(r.IntN(3))})
		}
		verdicts := allowed(t, takes, limits)
		n := 0
		for i, one := range takes {
			if one.Key != "ann" || verdicts[i] {
				continue
			}
			if n++; n%7 != 0 {
				continue
			}
			x := asked(t, written(takes), append(limits, "ann", "-", "--refusal", fmt.Sprint(n))...)
			if x.Request.Line != fmt.Sprintf("standard input:%d", i+1) || x.Request.Cost != one.Cost || x.Request.Client != "ann" {
				t.Fatalf("%v: %+v, want line %d", texts, x.Request, i+1)
			}
			at := parsed(t, x.AdmittedAt)
			before := append([]take{}, takes[:i]...)
			for ms, want := range map[int64]bool{at: true, at - 1: false} {
				probed := allowed(t, append(before, take{ms, "ann", one.Cost}), limits)
				if probed[i] != want {
					t.Errorf("%v: %s at %d: admitted %v, want %v", texts, x.AdmittedAt, ms, probed[i], want)
				}
			}
			checkFilled(t, x, takes, verdicts)
		}
		if n < 14 {
			t.Errorf("%v: %d refusals: nothing is tried", texts, n)
		}
	}
}

func parsed(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

func checkFilled(t *testing.T, x explain.Explanation, takes []take, verdicts []bool) {
	t.Helper()
	for _, refusal := range x.Refusals {
		limit, err := slidegate.ParseLimit(refusal.Limit)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, q := range refusal.Filled {
			var line int
			if _, err := fmt.Sscanf(q.Line, "standard input:%d", &line); err != nil || !verdicts[line-1] || takes[line-1].Key != "ann" || takes[line-1].Cost != q.Cost {
				t.Errorf("%s: %+v is no admitted request of the key", limit, q)
			}
			sum += q.Cost
		}
		if limit.Algorithm == slidegate.SlidingCounter {
			if refusal.Current+refusal.Before != sum || refusal.Used < refusal.Current || refusal.Used > sum {
				t.Errorf("%s: %+v: %d units", limit, refusal, sum)
			}
			continue
		}
		leaves := parsed(t, refusal.Filled[refusal.Leaves-1].Time) + limit.Window.Milliseconds()
		room := parsed(t, refusal.RoomAt)
		if sum != refusal.Used || room < leaves || room > leaves+limit.Resolution.Milliseconds() {
			t.Errorf("%s: %d units of %d, the request leaves at %d, room at %d", limit, sum, refusal.Used, leaves, room)
		}
	}
}

const rulesText = `
deny: [POST /admin]
rules:
  - {name: login, path: /login, limits: 2/1m, ban: {strikes: 3/1m, length: 10m}}
  - {name: shut, path: /shut, limits: blocked}
  - {name: all, key: host, path: /, limits: 3/1m}
`

// request is a line of an access log in JSON, some seconds after ten.
func request(second int, address, method, path string) string {
	return fmt.Sprintf("{\"time\":\"2026-11-30T10:%02d:%02d.5Z\",\"ip\":%q,\"method\":%q,\"path\":%q,\"host\":\"example.com\"}\n", second/60, second%60, address, method, path)
}

// TestExplanationsOfRules: a key that several share, a ban, and what no waiting helps against.
func TestExplanationsOfRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rulesText), 0o600); err != nil {
		t.Fatal(err)
	}
	input := request(0, "192.0.2.1", "GET", "/a") + request(10, "192.0.2.2", "GET", "/b") + request(20, "192.0.2.3", "GET", "/c") + request(30, "192.0.2.1", "GET", "/d")
	x := asked(t, input, "192.0.2.1", "--config", file, "-")
	r := x.Refusals[0]
	if len(x.Refusals) != 1 || r.Rule != "all" || r.Key != "host:example.com" || len(r.Filled) != 3 || r.Filled[1].Client != "ip:192.0.2.2" || r.Leaves != 1 || x.AdmittedAt != "2026-11-30T10:01:00.5Z" {
		t.Errorf("a shared key: %+v", x)
	}
	same := asked(t, input, "host:example.com", "--config", file, "-")
	if same.Request.Client != "ip:192.0.2.1" || same.AdmittedAt != x.AdmittedAt || same.Refusals[0].Filled[1].Line != "standard input:2" {
		t.Errorf("by the key of the rule: %+v", same)
	}
	input = ""
	for i := range 7 {
		input += request(i, "192.0.2.1", "POST", "/login")
	}
	x = asked(t, input, "ip:192.0.2.1", "--config", file, "--at", "2026-11-30T10:00:05Z", "-")
	r = x.Refusals[0]
	if r.Why != "banned" || r.BanBegan != "2026-11-30T10:00:04.5Z" || len(r.Filled) != 3 || r.Filled[0].Line != "standard input:3" || x.AdmittedAt != "2026-11-30T10:10:04.5Z" || x.Request.Line != "standard input:6" {
		t.Errorf("a ban: %+v", x)
	}
	for path, want := range map[string]string{"GET /shut": "blocked", "POST /admin": "denied"} {
		method, path, _ := strings.Cut(path, " ")
		x = asked(t, request(0, "192.0.2.1", method, path), "192.0.2.1", "--config", file, "-")
		if x.Refusals[0].Why != want || x.AdmittedAt != "" {
			t.Errorf("%s: %+v", path, x)
		}
	}
}

// TestWhatIsNotRefusedIsNotExplained, and no error repeats the key.
func TestWhatIsNotRefusedIsNotExplained(t *testing.T) {
	input := written([]take{{1, "ann", 1}, {2, "ann", 1}})
	for _, c := range []struct {
		want string
		args []string
	}{
		{"no line of the log is of that key", []string{"bob", "--limit", "1/1s", "-"}},
		{"--refusal 2: the key has 1 refusals", []string{"ann", "--limit", "1/1s", "--refusal", "2", "-"}},
		{"--refusal 1: the key has 0 refusals", []string{"ann", "--limit", "1/1s", "--at", "2026-11-30T10:00:00Z", "-"}},
	} {
		if out, err := explained(input, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || out != "" || strings.Contains(err.Error(), c.args[0]) {
			t.Errorf("%v: %v, %q", c.args, err, out)
		}
	}
}
