package main_test

import (
	"bufio"
	"bytes"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// version1 is the PROXY header of a connection from a client, as text.
func version1(from string) []byte {
	at := netip.MustParseAddrPort(from)
	family, to := "TCP4", "192.0.2.1"
	if at.Addr().Is6() {
		family, to = "TCP6", "2001:db8::1"
	}
	return fmt.Appendf(nil, "PROXY %s %s %s %d 443\r\n", family, at.Addr(), to, at.Port())
}

// version2 is the same in binary, with a TLV behind the addresses. command is 1, or 0 for a connection of the proxy's own.
func version2(command byte, from string) []byte {
	at := netip.MustParseAddrPort(from)
	family, to := byte(0x11), netip.MustParseAddr("192.0.2.1").AsSlice()
	if at.Addr().Is6() {
		family, to = 0x21, netip.MustParseAddr("2001:db8::1").AsSlice()
	}
	addresses := append(at.Addr().AsSlice(), to...)
	addresses = bigendian.BigEndian.AppendUint16(addresses, at.Port())
	addresses = bigendian.BigEndian.AppendUint16(addresses, 443)
	addresses = append(addresses, 0x04, 0, 3, 'a', 'b', 'c') // a no-op
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x20|command, family)
	b = bigendian.BigEndian.AppendUint16(b, uint16(len(addresses)))
	return append(b, addresses...)
}

// said sends bytes on a connection of its own and returns what comes back until it is closed: a status, or nothing.
func said(t *testing.T, url string, parts ...[]byte) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	conn.Write(bytes.Join(parts, nil)) // who is not heard may be closed by now
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection stays open after %q", answer)
	}
	if len(answer) == 0 {
		return ""
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	resp.Body.Close()
	return resp.Status[:3]
}

var get = []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")

// TestProxyProtocol: the client is the one that the header names, in both versions and both families.
func TestProxyProtocol(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--proxy-protocol", "listen")
	for _, c := range []struct {
		what   string
		header []byte
		want   string
	}{
		{"version 1", version1("203.0.113.9:40000"), "200"},
		{"the same client in version 2", version2(1, "203.0.113.9:40001"), "429"},
		{"another client", version2(1, "203.0.113.10:40000"), "200"},
		{"the other again, in version 1", version1("203.0.113.10:1"), "429"},
		{"IPv6", version1("[2001:db8:1::9]:40000"), "200"},
		{"the same network, in version 2", version2(1, "[2001:db8:1::8]:40000"), "429"},
		{"a connection of the proxy's own", version2(0, "203.0.113.77:1"), "200"},
		{"another of those, in version 1", []byte("PROXY UNKNOWN\r\n"), "429"},
		{"nobody named it", version1("203.0.113.77:1"), "200"},
		{"no header", nil, ""},
		{"two headers", append(version1("203.0.113.20:1"), version1("203.0.113.21:1")...), "400"},
		{"no addresses", []byte("PROXY TCP4\r\n"), ""},
		{"no address", []byte("PROXY TCP4 localhost 192.0.2.1 1 443\r\n"), ""},
		{"a Unix socket", append(append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8"), bytes.Repeat([]byte{'a'}, 108)...), make([]byte, 108)...), ""},
		{"UDP", append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x12\x00\x0c"), make([]byte, 12)...), ""},
		{"a header without end", bytes.Repeat([]byte("PROXY "), 50), ""},
	} {
		if got := said(t, r.url, c.header, get); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if n := strings.Count(r.said(), "sent no PROXY header"); n != 1 {
		t.Errorf("it is said %d times that no header came: %s", n, r.said())
	}
	if strings.Contains(r.said(), "203.0.113.") {
		t.Error(r.said())
	}
}

// TestProxyProtocolFromStrangersIsNotHeard: nobody can be whom he likes, nor ask without saying.
func TestProxyProtocolFromStrangersIsNotHeard(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--api-listen", "127.0.0.1:0", "--proxy-protocol", "listen,api-listen", "--proxy-protocol-from", "192.0.2.0/24")
	for what, header := range map[string][]byte{"version 1": version1("192.0.2.7:40000"), "version 2": version2(1, "192.0.2.7:40000"), "no header": nil} {
		for _, url := range []string{r.url, r.api} {
			if got := said(t, url, header, get); got != "" {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	for _, flag := range []string{"at=--listen", "at=--api-listen"} {
		if n := strings.Count(r.said(), "somebody who is not trusted connected where a PROXY header is wanted"); n != 2 || !strings.Contains(r.said(), flag) {
			t.Errorf("%s: %s", flag, r.said())
		}
	}
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.admin+"/healthz"); resp.StatusCode != 200 {
		t.Errorf("a door that is not behind a proxy: %d", resp.StatusCode)
	}
}

// TestSlowProxyHeaderIsNotWaitedFor longer than for any header, and holds nobody else up.
func TestSlowProxyHeaderIsNotWaitedFor(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--proxy-protocol", "listen", "--read-header-timeout", "300ms")
	for what, part := range map[string][]byte{"nothing": nil, "the begin of version 1": []byte("PRO"), "half of version 2": version2(1, "203.0.113.9:1")[:20]} {
		begin := time.Now()
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write(part)
		if got := said(t, r.url, version1("203.0.113.9:1"), get); got != "200" {
			t.Errorf("somebody else got %q", got)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		answer, err := io.ReadAll(conn)
		if took := time.Since(begin); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) || took < 300*time.Millisecond {
			t.Errorf("%s: %q, %v after %s", what, answer, err, took)
		}
	}
}

// TestProxyProtocolOnEveryDoor, and the upstream is told of the client.
func TestProxyProtocolOnEveryDoor(t *testing.T) {
	told := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("X-Forwarded-For") }))
	defer upstream.Close()
	r := start(t, nil, "--limit", "9/1h", "--upstream", upstream.URL, "--api-listen", "127.0.0.1:0", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx",
		"--proxy-protocol", "listen,auth-listen,api-listen,admin")
	if got := said(t, r.url, version2(1, "203.0.113.9:40000"), get); got != "200" || <-told != "203.0.113.9" {
		t.Errorf("%q", got)
	}
	const take = "POST /v1/take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"key\":\"a\"}"
	if got := said(t, r.api, version1("203.0.113.9:40000"), []byte(take)); got != "200" {
		t.Errorf("the API: %q", got)
	}
	auth := strings.TrimSuffix(r.auth, "/auth")
	const ask = "GET /auth HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
	for client, want := range map[string]string{"127.0.0.1:40000": "200", "203.0.113.9:40000": "403"} {
		if got := said(t, auth, version1(client), []byte(ask)); got != want {
			t.Errorf("who may ask is who is named: %s got %q, want %s", client, got, want)
		}
	}
	if got := said(t, r.admin, version1("203.0.113.9:1"), bytes.Replace(get, []byte("/"), []byte("/healthz"), 1)); got != "200" {
		t.Errorf("the admin's: %q", got)
	}
}
