package httpgate_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// TestNodesOfForwarded: RFC 7239, section 6, with a port that is a number or obfuscated. What cannot be read names nobody.
func TestNodesOfForwarded(t *testing.T) {
	a, err := httpgate.NewAddresses(httpgate.TrustProxies("10.0.0.0/8"), httpgate.ClientIPHeader("Forwarded"))
	if err != nil {
		t.Fatal(err)
	}
	client, proxy := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("10.0.0.1")
	for field, want := range map[string]netip.Addr{
		`for="203.0.113.7:_web"`:        client,
		`for="203.0.113.7:65535"`:       client,
		`for="\203.0.113.7"`:            client, // a quoted pair
		"for=\"203.0.113.7\";by=\"\t\"": client,
		`for="203.0.113.7:65536"`:       proxy,
		`for="203.0.113.7:123456"`:      proxy,
		`for="203.0.113.7:"`:            proxy,
		`for="203.0.113.x:80"`:          proxy,
		`for="[203.0.113.7]:80"`:        proxy,
		"for=\"203.0.113.7\x01\"":       proxy,
		"for=\"203.0.113.7\x7f\"":       proxy,
		`for="203.0.113.7`:              proxy,
	} {
		got, reason := a.Find(request("GET", "/", "10.0.0.1:1", "Forwarded", field))
		if got != want || (reason == httpgate.ReasonMalformed) != (want == proxy) {
			t.Errorf("%q: %s by %s, want %s", field, got, reason, want)
		}
	}
	if got, reason := a.Find(request("GET", "/", "10.0.0.1:1", "Forwarded", "", "Forwarded", "for=203.0.113.7")); got != client {
		t.Errorf("a line that is empty: %s by %s, want %s", got, reason, client)
	}
}

// TestOneHopBeforeAHeaderOfOneAddress: whoever connects is the proxy, and nobody else has to be named.
func TestOneHopBeforeAHeaderOfOneAddress(t *testing.T) {
	a, err := httpgate.NewAddresses(httpgate.TrustHops(1), httpgate.ClientIPHeader("X-Real-IP"))
	if err != nil {
		t.Fatal(err)
	}
	for _, peer := range []string{"10.0.0.1:1", "[2001:db8::1]:1"} {
		if got, reason := a.Find(request("GET", "/", peer, "X-Real-IP", "203.0.113.7")); got.String() != "203.0.113.7" || reason != httpgate.ReasonHeader {
			t.Errorf("through %s: %s by %s", peer, got, reason)
		}
	}
	named, err := httpgate.NewAddresses(httpgate.TrustHops(1), httpgate.TrustProxies("10.0.0.0/8"), httpgate.ClientIPHeader("X-Real-IP"))
	if err != nil {
		t.Fatal(err)
	}
	if got, reason := named.Find(request("GET", "/", "192.0.2.9:1", "X-Real-IP", "203.0.113.7")); got.String() != "192.0.2.9" || reason != httpgate.ReasonPeerUntrusted {
		t.Errorf("from somebody who is not named: %s by %s", got, reason)
	}
}

// TestByTheHostThatIsAskedFor, however it is written.
func TestByTheHostThatIsAskedFor(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.ByHeader("host"))
	for _, c := range []struct {
		host   string
		status int
	}{{"api.example.com", 200}, {"API.Example.com", 429}, {"www.example.com", 200}} {
		r := request("GET", "/", "203.0.113.1:1")
		r.Host = c.host
		if w := s.do(r); w.Code != c.status {
			t.Errorf("%s: %d, want %d", c.host, w.Code, c.status)
		}
	}
}

// TestNoGateNoError: a context of no request has no reason.
func TestNoGateNoError(t *testing.T) {
	if err := httpgate.ErrorFromContext(context.Background()); err != nil {
		t.Error(err)
	}
}
