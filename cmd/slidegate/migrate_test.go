package main_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	yamlBlock  = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	localPort  = regexp.MustCompile(`127\.0\.0\.1:(8080|8081)\b`)
)

// TestMigrationPagesRun: the commands that the pages in docs/migrate show start, with the files that stand there too, on
// addresses that are free.
func TestMigrationPagesRun(t *testing.T) {
	pages, err := filepath.Glob("../../docs/migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t)
	commands := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rules, limits := filesOf(t, string(text))
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				commands++
				line = localPort.ReplaceAllString(line, "127.0.0.1:0")
				line = strings.NewReplacer("redis://127.0.0.1:6379/0", redis.url(), "rules.yaml", rules, "--rls-config rules", "--rls-config "+limits, "''", "\x00").Replace(line)
				args := strings.Fields(line)
				for i := range args {
					args[i] = strings.Trim(args[i], "\x00")
				}
				switch args[1] {
				case "serve":
					start(t, patient, args[2:]...)
				case "check":
					if out, err := exec.Command(binary, args[1:]...).CombinedOutput(); err != nil {
						t.Errorf("%s: %s: %v, %s", page, line, err, out)
					}
				default:
					t.Errorf("%s: nobody runs %s", page, line)
				}
			}
		}
	}
	if commands < 4 {
		t.Errorf("only %d commands are read", commands)
	}
}

// filesOf writes the files that a page shows: one of rules, and a directory with one of descriptors.
func filesOf(t *testing.T, page string) (rules, limits string) {
	t.Helper()
	rules, limits = filepath.Join(t.TempDir(), "rules.yaml"), t.TempDir()
	for _, block := range yamlBlock.FindAllStringSubmatch(page, -1) {
		file := rules
		if strings.HasPrefix(block[1], "domain:") {
			file = filepath.Join(limits, "edge.yaml")
		}
		if err := os.WriteFile(file, []byte(block[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return rules, limits
}

// TestExpressPageLimits: the file in docs/migrate/express-rate-limit.md does what the program before it does: five failed tries
// of a login in an hour, of which those that succeed do not count, and a hundred requests in all.
func TestExpressPageLimits(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrate/express-rate-limit.md")
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" && r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(upstream.Close)
	rules, _ := filesOf(t, strings.ReplaceAll(string(text), "http://127.0.0.1:3000", upstream.URL))
	r := start(t, nil, "--config", rules)
	login := func(password string) (int, string) {
		answer, body := fetch(t, http.DefaultClient, http.MethodPost, r.url+"/login", "Password", password)
		return answer.StatusCode, body
	}
	requests := 0
	for n, try := range []struct {
		password string
		want     int
	}{
		{"right", 200}, {"wrong", 401}, {"wrong", 401}, {"right", 200}, {"wrong", 401}, {"wrong", 401}, {"right", 200},
		{"wrong", 401}, {"wrong", 429}, {"right", 429},
	} {
		if try.want != http.StatusTooManyRequests {
			requests++
		}
		if got, body := login(try.password); got != try.want || (got == http.StatusTooManyRequests) != strings.Contains(body, "Too many tries.") {
			t.Errorf("try %d with the %s password: %d, %q, want %d", n+1, try.password, got, body, try.want)
		}
	}
	for ; requests < 110; requests++ {
		answer, _ := fetch(t, http.DefaultClient, http.MethodGet, r.url+"/")
		if (answer.StatusCode == http.StatusOK) != (requests < 100) {
			t.Fatalf("request %d in all: %d, %q", requests+1, answer.StatusCode, answer.Header)
		}
	}
}
