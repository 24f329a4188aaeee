package caddy

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequestsAreHeldToLimits: fields on what passes, a 429 that is true on what does not.
func TestRequestsAreHeldToLimits(t *testing.T) {
	s := start(t, `
	slidegate /limited* {
		limit n=2/1h
	}
	respond "hello"`)
	r := s.want(200, `"n";r=1;t=3600`, "/limited")
	if got := r.header.Get("RateLimit-Policy"); got != `"n";q=2;w=3600` || r.body != "hello" || r.header.Get("Retry-After") != "" {
		t.Errorf("RateLimit-Policy is %q, the body %q, of %v", got, r.body, r.header)
	}
	s.want(200, `"n";r=0;t=3600`, "/limited/too")
	r = s.want(429, `"n";r=0;t=3600`, "/limited")
	for name, want := range map[string]string{
		"Retry-After": "3600", "Cache-Control": "no-store", "Content-Type": "application/problem+json", "X-Content-Type-Options": "nosniff",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(r.body, `"status":429`) || !strings.Contains(r.body, `"violated-policies":["n"]`) {
		t.Errorf("the body is %s", r.body)
	}
	if r = s.want(429, `"n";r=0;t=3600`, "/limited", "Accept: text/plain"); !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Errorf("in plain text it is %q: %s", r.header.Get("Content-Type"), r.body)
	}
	s.want(200, "", "/else") // the matcher is Caddy's
	for name, want := range map[string]float64{
		`caddy_slidegate_decisions_total{limit="n",result="admitted",zone=""}`: 2,
		`caddy_slidegate_decisions_total{limit="n",result="refused",zone=""}`:  2,
		`caddy_slidegate_undecided_total{reason="store",zone=""}`:              0,
	} {
		if got := s.counter(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestZones: one budget in one zone, whichever handler, and one each in several.
func TestZones(t *testing.T) {
	s := start(t, `
	handle /a1 {
		slidegate {
			zone a
			limit n=2/1h
		}
		respond "a1"
	}
	handle /a2 {
		slidegate {
			zone a
			limit n=2/1h
		}
		respond "a2"
	}
	handle /b {
		slidegate {
			zone b
			limit n=2/1h
		}
		respond "b"
	}`)
	s.want(200, `"n";r=1;t=3600`, "/a1")
	s.want(200, `"n";r=0;t=3600`, "/a2")
	s.want(429, `"n";r=0;t=3600`, "/a1")
	s.want(200, `"n";r=1;t=3600`, "/b")
}

// TestKeys: by header, by host and address, and without a value by address.
func TestKeys(t *testing.T) {
	s := start(t, `
	handle /header {
		slidegate {
			zone header
			limit n=1/1h
			key {header.X-API-Key}
		}
		respond "ok"
	}
	handle /host {
		slidegate {
			zone host
			limit n=1/1h
			key {host} {client_ip}
		}
		respond "ok"
	}
	handle /cost {
		slidegate {
			zone cost
			limit n=10/1h
			cost {header.X-Cost}
		}
		respond "ok"
	}`)
	for _, key := range []string{"X-API-Key: one", "X-API-Key: two", "X-Other: none", "X-API-Key: ip:127.0.0.1"} {
		s.want(200, `"n";r=0;t=3600`, "/header", key)
		s.want(429, `"n";r=0;t=3600`, "/header", key)
	}
	s.want(200, `"n";r=0;t=3600`, "/host", "Host: one.example")
	s.want(200, `"n";r=0;t=3600`, "/host", "Host: two.example")
	s.want(429, `"n";r=0;t=3600`, "/host", "Host: one.example")
	if hasAddress("127.0.0.2") {
		s.want(200, `"n";r=0;t=3600`, "/host", "Host: one.example", "From: 127.0.0.2")
	}
	s.want(200, `"n";r=7;t=3600`, "/cost", "X-Cost: 3")
	s.want(200, `"n";r=6;t=3600`, "/cost", "X-Cost: many")
	s.want(429, `"n";r=6;t=3600`, "/cost", "X-Cost: 7")
	if r := s.get("/cost", "X-Cost: 11"); r.status != 429 || r.header.Get("Retry-After") != "" {
		t.Errorf("a cost that can never fit gets %d, %v", r.status, r.header)
	}
}

// hasAddress tells whether the machine can connect from an address.
func hasAddress(host string) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	return err == nil && l.Close() == nil
}

// TestAddresses: who connects, or whom Caddy's trusted proxies speak for.
func TestAddresses(t *testing.T) {
	const handler = `
	slidegate {
		limit n=1/1h
	}
	respond "ok"`
	s := start(t, handler)
	s.want(200, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.1")
	s.want(429, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.2")
	if hasAddress("127.0.0.2") {
		s.want(200, `"n";r=0;t=3600`, "/", "From: 127.0.0.2")
		s.want(429, `"n";r=0;t=3600`, "/", "From: 127.0.0.2", "X-Forwarded-For: 203.0.113.3")
	}
	if n := strings.Count(s.log.String(), "a forwarding header that is not believed"); n != 1 {
		t.Errorf("an ignored header is told of %d times", n)
	}

	s.mustReload("\tservers {\n\t\ttrusted_proxies static 127.0.0.1 10.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}\n---\n" + handler)
	s.want(200, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.1")
	s.want(200, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.2, 10.0.0.1")
	s.want(429, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.77, 203.0.113.2, 10.0.0.1")
	s.want(200, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 2001:db8:1:2ff::1")
	s.want(429, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 2001:db8:1:200::2")
	s.want(429, `"n";r=0;t=3600`, "/") // the proxy itself, as before
	if hasAddress("127.0.0.2") {
		s.want(429, `"n";r=0;t=3600`, "/", "From: 127.0.0.2", "X-Forwarded-For: 203.0.113.9")
	}
	if strings.Contains(s.log.String(), "left-most") {
		t.Error("a strict server is warned of")
	}

	s.mustReload("\tservers {\n\t\ttrusted_proxies static 127.0.0.1\n\t}\n---\n" + handler)
	s.want(429, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.1, 203.0.113.8")
	s.want(200, `"n";r=0;t=3600`, "/", "X-Forwarded-For: 203.0.113.9, 203.0.113.8")
	if n := strings.Count(s.log.String(), "set trusted_proxies_strict"); n != 1 {
		t.Errorf("a server that is not strict is warned of %d times", n)
	}
}

// TestUnixSockets: who comes through one has no address, unless it is a trusted proxy that says whose request it is.
func TestUnixSockets(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	const handler = "\tslidegate {\n\t\tlimit n=1/1h\n\t}\n\trespond ok"
	s := start(t, handler)
	s.mustReload(handler + "\n}\nhttp://socket.example {\n\tbind unix/" + socket + "\n" + handler)
	s.through = socket
	s.want(500, "", "/", "Host: socket.example", "X-Forwarded-For: 203.0.113.1")
	s.mustReload("\tservers {\n\t\ttrusted_proxies_unix\n\t\ttrusted_proxies_strict\n\t}\n---\n" + handler + "\n}\nhttp://socket.example {\n\tbind unix/" + socket + "\n" + handler)
	s.want(200, `"n";r=0;t=3600`, "/", "Host: socket.example", "X-Forwarded-For: 203.0.113.1")
	s.want(429, `"n";r=0;t=3600`, "/", "Host: socket.example", "X-Forwarded-For: 203.0.113.1")
	s.want(200, `"n";r=0;t=3600`, "/", "Host: socket.example", "X-Forwarded-For: 203.0.113.2")
	s.want(500, "", "/", "Host: socket.example")
}

// TestAnswers: a fixed one, formats, none, and Caddy's error routes.
func TestAnswers(t *testing.T) {
	s := start(t, `
	handle /fixed {
		slidegate {
			zone fixed
			limit n=1/1h
			headers legacy-delta
			deny 503 "slow down"
		}
		respond "ok"
	}
	handle /bare {
		slidegate {
			zone bare
			limit n=1/1h
			headers none
		}
		respond "ok"
	}
	handle /errors {
		slidegate {
			zone errors
			limit n=1/1h
			handle_errors
		}
		respond "ok {http.request.uri.query}"
	}
	handle_errors {
		header Content-Type text/html
		respond "<p>{err.status_code}: {err.message}: again in {http.response.header.Retry-After} s"
	}`)
	if r := s.want(200, "", "/fixed"); r.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("the fields are %v", r.header)
	}
	if r := s.want(503, "", "/fixed"); r.body != "slow down" || r.header.Get("Retry-After") != "3600" {
		t.Errorf("the answer is %q, %v", r.body, r.header)
	}
	s.want(200, "", "/bare")
	if r := s.want(429, "", "/bare"); r.header.Get("Retry-After") != "" {
		t.Errorf("the fields are %v", r.header)
	}
	if r := s.want(200, `"n";r=0;t=3600`, "/errors?a=1"); r.body != "ok a=1" {
		t.Errorf("the answer is %q", r.body)
	}
	r := s.want(429, `"n";r=0;t=3600`, "/errors")
	if want := "<p>429: slidegate: the request was refused: again in 3600 s"; r.body != want || r.header.Get("Content-Type") != "text/html" {
		t.Errorf("the answer is %q, %v", r.body, r.header)
	}
}

// TestBansAndShadows: who is refused too often is refused for longer, and who is only watched never is.
func TestBansAndShadows(t *testing.T) {
	s := start(t, `
	handle /ban {
		slidegate {
			zone ban
			limit n=1/1h
			ban 2/1m 1d
		}
		respond "ok"
	}
	handle /named {
		slidegate {
			zone named
			limit n=1/1h
			ban twice=2/1m 1d
		}
		respond "ok"
	}
	handle /shadow {
		slidegate {
			zone shadow
			limit n=1/1h
			shadow
			handle_errors
		}
		respond "ok"
	}`)
	s.want(200, `"n";r=0;t=3600`, "/ban")
	s.want(429, `"n";r=0;t=3600`, "/ban")
	for range 2 {
		r := s.want(429, "", "/ban")
		if r.header.Get("Retry-After") != "86400" || !strings.Contains(r.body, `"violated-policies":["ban:2/1m"]`) {
			t.Errorf("a ban is for %q seconds: %s", r.header.Get("Retry-After"), r.body)
		}
	}
	for range 3 {
		s.want(200, "", "/shadow")
	}
	for name, want := range map[string]float64{
		`caddy_slidegate_decisions_total{limit="n",result="refused",zone="ban"}`:           1,
		`caddy_slidegate_decisions_total{limit="ban:2/1m",result="refused",zone="ban"}`:    2,
		`caddy_slidegate_decisions_total{limit="ban:twice",result="refused",zone="named"}`: 0,
		`caddy_slidegate_decisions_total{limit="n",result="refused",zone="shadow"}`:        2,
	} {
		if got := s.counter(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestOrder: before passwords are looked at, and behind where the site says so.
func TestOrder(t *testing.T) {
	const site = `
	basic_auth {
		alice $2a$04$3GWnpZb4EGG1vTeUrQyODuEE5.OsaCURwt0P3k/9E8lyW0n7WClGi
	}
	slidegate {
		limit n=2/1h
		key {http.auth.user.id}
	}
	respond "ok"`
	const right, wrong = "Authorization: Basic YWxpY2U6c2VjcmV0", "Authorization: Basic YWxpY2U6Z3Vlc3M="
	s := start(t, site)
	s.want(401, `"n";r=1;t=3600`, "/", wrong)
	s.want(401, `"n";r=0;t=3600`, "/", wrong)
	s.want(429, `"n";r=0;t=3600`, "/", right)

	s.mustReload("\torder slidegate after basic_auth\n---\n" + site)
	s.want(401, "", "/", wrong)
	s.want(200, `"n";r=1;t=3600`, "/", right)
	s.want(200, `"n";r=0;t=3600`, "/", right)
	s.want(429, `"n";r=0;t=3600`, "/", right)
}

// TestRewritesAreSeen: a gate leaves Caddy its request, so placeholders go on telling the truth.
func TestRewritesAreSeen(t *testing.T) {
	s := start(t, `
	route {
		slidegate {
			limit n=9/1h
		}
		rewrite /new?b=2
		vars name value
		respond "{http.request.uri} {http.vars.name} {http.vars.client_ip}"
	}`)
	if r := s.want(200, `"n";r=8;t=3600`, "/old?a=1"); r.body != "/new?b=2 value 127.0.0.1" {
		t.Errorf("the answer is %q", r.body)
	}
}

// TestTwoHandlersCountEach: and the fields speak of both.
func TestTwoHandlersCountEach(t *testing.T) {
	s := start(t, `
	route {
		slidegate {
			zone site
			limit site=5/1h
			headers draft-8 legacy
		}
		slidegate /login {
			zone login
			limit login=1/1h
			headers draft-8 legacy
		}
		respond "ok"
	}`)
	s.want(200, `"site";r=4;t=3600`, "/")
	r := s.want(200, `"site";r=3;t=3600, "login";r=0;t=3600`, "/login")
	if got := r.header.Get("X-RateLimit-Remaining"); got != "0" {
		t.Errorf("X-RateLimit-Remaining is %q, of the limit that binds it is 0", got)
	}
	s.want(429, `"site";r=2;t=3600, "login";r=0;t=3600`, "/login")
	s.want(http.StatusOK, `"site";r=1;t=3600`, "/")
}
