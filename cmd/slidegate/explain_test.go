package main_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestExplainAsksAServer that runs, as admin inspect does, and no log beside it.
func TestExplainAsksAServer(t *testing.T) {
	path := "unix:" + socketPath(t)
	r := start(t, nil, "--limit", "login=2/1h", "--admin", path)
	for range 3 {
		fetch(t, http.DefaultClient, "GET", r.url)
	}
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"ip:127.0.0.1", 0, "would be refused, retry in "},
		{"ip:127.0.0.1", 0, "what counts in login, the first to leave first:\n\nunits  charged"},
		{"ip:127.0.0.1 --json", 0, `{"key":"ip:127.0.0.1","rules":[`},
		{"ip:127.0.0.1 --server unix:/no/such/socket", 3, "no such file"},
		{"ip:127.0.0.1 access.log", 2, "a server has no log to read"},
		{"ip:127.0.0.1 --limit 1/1s", 2, "--limit: it is about a log"},
	} {
		args := append([]string{"explain", "--server", path}, strings.Fields(c.args)...)
		if out, errs, status := cli(t, nil, args...); status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: status %d, %s%s", c.args, status, out, errs)
		}
	}
	_, errs, status := cli(t, []string{"SLIDEGATE_SERVER=" + path}, "explain", "k", "--limit", "1/1s", "no such file")
	if status != 1 && status != 2 || !strings.Contains(errs, "there is no file") {
		t.Errorf("a log, with a variable for other commands: status %d, %s", status, errs)
	}
}
