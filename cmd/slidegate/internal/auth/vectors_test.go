package auth_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
)

// A vector is an input with the right answer.
type vector struct {
	ID    string
	Input struct {
		Headers         map[string]string
		Proxy, Decision string
	}
	Expect struct {
		Method, URI, Host, Scheme string
		ClientIPHeader            string `json:"client_ip_header"`
		StripPathPrefix           string `json:"strip_path_prefix"`
		AnswerStatus              int    `json:"answer_status"`
		BodyPasses                bool   `json:"body_passes"`
	}
}

// TestVectors runs those on the proxy's request and on our answer. What the clients of real proxies then see is
// tested with real proxies, in the package of the command.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../../../httpgate/testdata/interface-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	areas := map[string]func(*testing.T, vector){"forward_auth.request": request, "forward_auth.response": response}
	ran := 0
	for _, text := range all {
		var of struct{ ID, Area string }
		if err := json.Unmarshal(text, &of); err != nil || !strings.HasPrefix(of.Area, "forward_auth.") {
			continue // an area of others
		}
		var v vector
		if err := json.Unmarshal(text, &v); err != nil || areas[of.Area] == nil {
			t.Errorf("%s: nobody answers for area %s: %v", of.ID, of.Area, err)
			continue
		}
		areas[of.Area](t, v)
		ran++
	}
	if ran != 14 {
		t.Errorf("%d vectors ran, want 14", ran)
	}
}

// named returns the dialect of a vector's proxy, which may have more words, and the deny status.
func named(t *testing.T, proxy string) (auth.Dialect, int) {
	t.Helper()
	name, rest, _ := strings.Cut(proxy, " ")
	if strings.Contains(rest, "403 mode") {
		return dialect(t, name), http.StatusForbidden
	}
	return dialect(t, name), 0
}

func request(t *testing.T, v vector) {
	var s seen
	d, _ := named(t, v.Input.Proxy)
	h := door(t, auth.Config{Dialect: d, Path: v.Expect.StripPathPrefix}, s.gate)
	method, target := "GET", "/auth"
	if path := v.Input.Headers[":path"]; path != "" {
		method, target = v.Input.Headers[":method"], path
	}
	r := ask(method, target)
	for name, value := range v.Input.Headers {
		if name == "Host" {
			r.Host = value
		} else if name[0] != ':' {
			r.Header.Set(name, value)
		}
	}
	if resp := answerOf(h, r); resp.StatusCode != 200 || len(s.requests) != 1 {
		t.Errorf("%s: status %d", v.ID, resp.StatusCode)
		return
	}
	got, want := s.requests[0], v.Expect
	if got.Method != want.Method || got.RequestURI != want.URI || got.URL.Scheme != want.Scheme || want.Host != "" && got.Host != want.Host {
		t.Errorf("%s: %s %s of %s by %q, want %+v", v.ID, got.Method, got.RequestURI, got.Host, got.URL.Scheme, want)
	}
	if addr := client(t, got); addr != r.Header.Get(want.ClientIPHeader) {
		t.Errorf("%s: the client is %s, want the one in %s", v.ID, addr, want.ClientIPHeader)
	}
}

func response(t *testing.T, v vector) {
	d, deny := named(t, v.Input.Proxy)
	h := door(t, auth.Config{Dialect: d, DenyStatus: deny}, gate(t))
	target := "/auth"
	if d.String() == "envoy" {
		target = "/auth/"
	}
	r := func() *http.Request {
		return ask("GET", target, "X-Original-Method", "GET", "X-Forwarded-Method", "GET", "X-Original-URI", "/", "X-Original-URL", "http://a.example/", "X-Forwarded-Uri", "/",
			"X-Forwarded-For", "198.51.100.7", "X-Real-IP", "198.51.100.7")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r())
	if v.Input.Decision == "denied" {
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r())
	}
	resp := w.Result()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != v.Expect.AnswerStatus || resp.Header.Get("RateLimit") == "" || resp.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("%s: %d, %v", v.ID, resp.StatusCode, resp.Header)
	}
	if denied := v.Input.Decision == "denied"; denied != (resp.Header.Get("Retry-After") != "") || v.Expect.BodyPasses && len(body) == 0 {
		t.Errorf("%s: %v, %q", v.ID, resp.Header, body)
	}
}
