package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// startAPI runs a server whose JSON door is the only one beside the admin's.
func startAPI(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	return start(t, env, append([]string{"--listen", "", "--api-listen", "127.0.0.1:0"}, args...)...)
}

func (r *running) ask(path, body string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(text)
}

func TestAPI(t *testing.T) {
	r := startAPI(t, nil, "--limit", "2/1h", "--headers", "draft-8,legacy")
	for i, want := range []int{200, 200, 429} {
		resp, body := r.ask("/v1/take", `{"key":"user:42"}`)
		if resp.StatusCode != want || (want == 429) != (resp.Header.Get("Retry-After") != "") || resp.Header.Get("X-RateLimit-Limit") != "2" {
			t.Errorf("%d: %d %v %s", i, resp.StatusCode, resp.Header, body)
		}
	}
	_, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
	for _, want := range []string{`slidegate_decisions_total{limit="2/1h",result="admitted"} 2`, `slidegate_decisions_total{limit="2/1h",result="refused"} 1`} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if !strings.Contains(r.said(), "whoever can connect may ask") || strings.Contains(r.said(), "told apart by ip") || strings.Contains(r.said(), "can be reached") {
		t.Error(r.said())
	}
	r.terminate()
	if status := r.end(); status != 0 || strings.Contains(r.said(), "user:42") {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// TestAPIAndProxyShareTheQuotas: what one has spent the other does not have.
func TestAPIAndProxyShareTheQuotas(t *testing.T) {
	r := start(t, nil, "--limit", "2/1h", "--api-listen", "127.0.0.1:0")
	r.want("200")
	api := &running{t: t, url: r.api}
	if resp, body := api.ask("/v1/take", `{"key":"ip:127.0.0.1"}`); resp.StatusCode != 200 || !strings.Contains(body, `"remaining":0`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	r.want("429")
	if resp, _ := api.ask("/v1/reset", `{"key":"ip:127.0.0.1"}`); resp.StatusCode != 204 {
		t.Errorf("%d", resp.StatusCode)
	}
	r.want("200")
}

func TestAPIToken(t *testing.T) {
	const token = "0123456789abcdef-._~+/=="
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := startAPI(t, nil, "--limit", "9/1h", "--api-token-file", file)
	fromVariable := startAPI(t, []string{"SLIDEGATE_API_TOKEN=" + token}, "--limit", "9/1h")
	for _, r := range []*running{fromFile, fromVariable} {
		if resp, body := r.ask("/v1/take", `{"key":"a"}`); resp.StatusCode != 401 {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if resp, body := r.ask("/v1/take", `{"key":"a"}`, "Authorization", "bearer "+token); resp.StatusCode != 200 {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if strings.Contains(r.said(), token) || !strings.Contains(r.said(), "whoever shows the token may ask") || strings.Contains(r.said(), "has no effect") {
			t.Error(r.said())
		}
	}
	for want, c := range map[string][]string{
		"--api-token-file and $SLIDEGATE_API_TOKEN: a token is given twice":  {"SLIDEGATE_API_TOKEN=" + token, file},
		"$SLIDEGATE_API_TOKEN: allowed are 16 or more letters":               {"SLIDEGATE_API_TOKEN=0123456789abcde", ""},
		"--api-token-file: there is no file no such file":                    {"", "no such file"},
		"--api-token-file: main.go is no token: one line of up to 4096 byte": {"", "main.go"},
	} {
		out, errs, status := cli(t, c[:1], "serve", "--limit", "1/1s", "--api-listen", "127.0.0.1:0", "--api-token-file", c[1])
		if status != 2 || out != "" || !strings.Contains(errs, want) || strings.Contains(errs, "0123456789") {
			t.Errorf("status %d, %q; want %q", status, errs, want)
		}
	}
}

// TestAPIEndsSlowCallers: whoever does not send what it announced is not waited for.
func TestAPIEndsSlowCallers(t *testing.T) {
	r := startAPI(t, nil, "--limit", "1/1h", "--read-header-timeout", "200ms")
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 || !resp.Close {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// TestAPIWhileRedisIsAway: 503 whatever --on-store-error says of requests that pass.
func TestAPIWhileRedisIsAway(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--api-listen", "127.0.0.1:0", "--store", "redis://127.0.0.1:1", "--on-store-error", "open")
	r.want("200 200")
	api := &running{t: t, url: r.api}
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/reset"} {
		if resp, body := api.ask(path, `{"key":"a"}`); resp.StatusCode != 503 || strings.Contains(body, "127.0.0.1") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// curl is a command of docs/api.md.
var curl = regexp.MustCompile(`(?m)^curl (-i )?--json '([^']+)' http://127\.0\.0\.1:9200(/v1/[a-z]+)$`)

// TestAPIPageIsTrue: the commands of docs/api.md do what it says, and the first one prints what it shows.
func TestAPIPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, start, _ := strings.Cut(string(page), "```sh\nslidegate serve ")
	start, _, _ = strings.Cut(start, "\n")
	args := strings.Fields(strings.ReplaceAll(strings.Replace(start, "127.0.0.1:9200", "127.0.0.1:0", 1), "''", "-"))
	args[slices.Index(args, "-")] = ""
	r := startAPI(t, nil, args...)
	commands := curl.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "curl "); n != len(commands) || n != 4 {
		t.Fatalf("%d commands, of which %d are read", n, len(commands))
	}
	answers := map[string]string{}
	for _, c := range commands {
		out, err := exec.Command("curl", "--silent", "--show-error", "--include", "--json", c[2], r.url+c[3]).Output()
		if err != nil {
			t.Fatalf("%s: %v", c[0], err)
		}
		answers[c[3]] = strings.ReplaceAll(string(out), "\r\n", "\n")
	}
	shown := func(language string) string {
		_, text, _ := strings.Cut(string(page), "```"+language+"\n")
		text, _, _ = strings.Cut(text, "```\n")
		return text
	}
	varying := regexp.MustCompile(`(?m)^(Date|Content-Length): .*\n|"t":\d+,`)
	if got, want := varying.ReplaceAllString(answers["/v1/take"], ""), varying.ReplaceAllString(shown("http"), ""); got != want {
		t.Errorf("the page shows\n%s\nand it is\n%s", want, got)
	}
	for path, want := range map[string]string{"/v1/peek": `"allowed":true,"cost":1,`, "/v1/reset": "HTTP/1.1 204 No Content", "/v1/batch": `{"results":[{"status":200,"answer":{"allowed":true`} {
		if !strings.Contains(answers[path], want) {
			t.Errorf("%s: %s", path, answers[path])
		}
	}
	var batch struct {
		Results []struct {
			Status  int
			Answer  struct{ Allowed bool }
			Problem struct{ Title string }
		}
	}
	if err := json.Unmarshal([]byte(shown("json")), &batch); err != nil || len(batch.Results) != 3 {
		t.Errorf("%v: %+v", err, batch)
	}
}
