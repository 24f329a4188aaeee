package main_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// asking are the fields that the recipe for nginx sets, about a request of a client.
func asking(client string) []string {
	return []string{"X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", client}
}

// TestDoorsShareTheQuotas, and each counts by the client's address.
func TestDoorsShareTheQuotas(t *testing.T) {
	r := start(t, nil, "--limit", "2/1h", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--auth-deny-status", "403")
	r.want("200")
	for i, want := range []int{200, 403, 403} {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.auth, asking("127.0.0.1")...)
		if resp.StatusCode != want || resp.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: %d %v, want %d", i, resp.StatusCode, resp.Header, want)
		}
	}
	r.want("429")
	if resp, _ := fetch(t, http.DefaultClient, "POST", r.auth, asking("203.0.113.7")...); resp.StatusCode != 200 {
		t.Errorf("another client got %d", resp.StatusCode)
	}
	if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, `slidegate_decisions_total{limit="2/1h",result="admitted"} 3`) {
		t.Errorf("the metrics are %s", text)
	}
}

// TestNoProxyIsServedWhereListenIsEmpty.
func TestNoProxyIsServedWhereListenIsEmpty(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--listen", "", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx")
	if r.url != r.auth || !strings.HasSuffix(r.auth, "/auth") {
		t.Errorf("listening on %s, forward-auth on %s", r.url, r.auth)
	}
	base := strings.TrimSuffix(r.auth, "/auth")
	for path, want := range map[string]int{"/auth": 200, "/": 404, "/metrics": 404} {
		if resp, _ := fetch(t, http.DefaultClient, "GET", base+path, asking("203.0.113.7")...); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	r.terminate()
	if status := r.end(); status != 0 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// TestProxiesInFrontOfTheOneThatAsks are trusted as they are where there is no other.
func TestProxiesInFrontOfTheOneThatAsks(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "haproxy", "--trusted-proxies", "10.0.0.0/8")
	for _, c := range []struct {
		list string
		want int
	}{
		{"203.0.113.1, 10.0.0.1", 200}, {"203.0.113.2, 10.0.0.1", 200}, {"203.0.113.9, 203.0.113.1, 10.0.0.2", 429},
		{"203.0.113.5, 192.0.2.1", 200}, {"203.0.113.6, 192.0.2.1", 429}, // 192.0.2.1 is no proxy
	} {
		if resp, _ := fetch(t, http.DefaultClient, "HEAD", r.auth, asking(c.list)...); resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.list, resp.StatusCode, c.want)
		}
	}
}

// TestAskingFromElsewhere is refused: who may ask may say who the client is.
func TestAskingFromElsewhere(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--auth-trusted-peers", "127.0.0.2, 192.0.2.0/24")
	for source, want := range map[string]int{"127.0.0.1": 403, "127.0.0.2": 200} {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		defer transport.CloseIdleConnections()
		for range 2 {
			if resp, _ := fetch(t, &http.Client{Transport: transport}, "GET", r.auth, asking("203.0.113.7")...); resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", source, resp.StatusCode, want)
			}
		}
	}
	eventually(t, "the log tells of it", func() bool { return strings.Contains(r.said(), "(--auth-trusted-peers)") })
	if n := strings.Count(r.said(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, r.said())
	}
}
