package compare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/compare"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// compared runs the command, and returns what it prints and its status.
func compared(t *testing.T, input string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := compare.Command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	var exit *config.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	if exit == nil {
		return out.String(), 0
	}
	return out.String(), exit.Status
}

func reported(t *testing.T, input string, args ...string) (r compare.Report, status int) {
	t.Helper()
	out, status := compared(t, input, append([]string{"--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return r, status
}

// verdicts are those of replay, line by line.
func verdicts(t *testing.T, log string, limits string) (refused []bool, keys []string) {
	t.Helper()
	var out bytes.Buffer
	cmd := replay.Command()
	args := []string{"--verdicts", log}
	for _, l := range strings.Split(limits, ";") {
		args = append(args, "--limit", l)
	}
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var v struct {
			Key     string
			Allowed bool
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		refused, keys = append(refused, !v.Allowed), append(keys, v.Key)
	}
	return refused, keys
}

const site = "../replay/testdata/site-2021.log.gz"

// TestDifferencesAreThoseOfTwoReplays, request by request and client by client.
func TestDifferencesAreThoseOfTwoReplays(t *testing.T) {
	const a, b = "60/1m", "burst=10/1s;100/1m,counter"
	byA, keys := verdicts(t, site, a)
	byB, _ := verdicts(t, site, b)
	var want compare.Counts
	clients := map[string]*compare.Counts{}
	for i := range byA {
		if clients[keys[i]] == nil {
			clients[keys[i]] = &compare.Counts{}
		}
		for _, c := range []*compare.Counts{&want, clients[keys[i]]} {
			add(c, byA[i], byB[i])
		}
	}
	var each compare.Counts
	for _, c := range clients {
		add(&each, c.ByA > 0, c.ByB > 0)
	}
	r, status := reported(t, "", a, b, site)
	if status != 1 || r.Requests != want || r.Clients != each || want.AAlone == 0 || want.BAlone == 0 {
		t.Errorf("status %d\n%+v\n%+v, want\n%+v\n%+v", status, r.Requests, r.Clients, want, each)
	}
	last := int64(1 << 40)
	for _, c := range r.WorstA {
		if c.Counts != *clients[c.Client] || c.AAlone > last {
			t.Errorf("%+v, want %+v", c, clients[c.Client])
		}
		last = c.AAlone
	}
}

func add(c *compare.Counts, a, b bool) {
	count := func(n *int64, is bool) {
		if is {
			*n++
		}
	}
	c.All++
	count(&c.ByA, a)
	count(&c.ByB, b)
	count(&c.ByBoth, a && b)
	count(&c.AAlone, a && !b)
	count(&c.BAlone, b && !a)
	count(&c.Neither, !a && !b)
}

// TestThePolicyOfAFile is the same as limits where the file has no more, and its shadows refuse nobody.
func TestThePolicyOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := "rules:\n- {name: tried, limits: 1/1h, mode: shadow}\n- {name: all, limits: 60/1m}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, status := reported(t, "", file, "60/1m", site)
	if status != 0 || r.Requests.ByBoth != 622 || r.Requests.AAlone+r.Requests.BAlone != 0 || len(r.WorstA)+len(r.WorstB) != 0 {
		t.Errorf("status %d, %+v", status, r)
	}
}

// TestStatuses are those of diff.
func TestStatuses(t *testing.T) {
	events := ""
	for i := range 4 {
		events += fmt.Sprintf("{\"t\":%d,\"key\":\"a\"}\n", i)
	}
	for _, c := range []struct {
		a, b, log string
		want      int
	}{
		{"5/1s", "4/1s", "-", 0},
		{"5/1s", "3/1s", "-", 1},
		{"5/1s", "3/1s", "no such log", 2},
	} {
		if _, status := compared(t, events, c.a, c.b, c.log); status != c.want {
			t.Errorf("%+v: status %d", c, status)
		}
	}
}

// TestAPolicyWithoutAName, as of a variable of the shell that is not set, is a mistake in the call.
func TestAPolicyWithoutAName(t *testing.T) {
	cmd := compare.Command()
	cmd.SetArgs([]string{"", "3/1s", "-"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var usage *config.UsageError
	if err := cmd.Execute(); !errors.As(err, &usage) {
		t.Errorf("error %v", err)
	}
}

// TestTheSameLogGivesTheSameBytes, however its lines are shared out among goroutines.
func TestTheSameLogGivesTheSameBytes(t *testing.T) {
	first, _ := compared(t, "", "60/1m", "../replay/testdata/site.yaml", site)
	for range 3 {
		if again, _ := compared(t, "", "60/1m", "../replay/testdata/site.yaml", site); again != first {
			t.Fatalf("%s\nand then\n%s", first, again)
		}
	}
}
