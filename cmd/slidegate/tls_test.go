package main_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// An authority vouches for others.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
	path        string // of a file with its certificate
	last        int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, path: filepath.Join(t.TempDir(), "ca.pem"), pool: x509.NewCertPool(), last: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.certificate)
	write(t, a.path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// issue returns a certificate for a name and for 127.0.0.1, and its key, as the texts of files.
func (a *authority) issue(name string) (certificate, key string) {
	a.t.Helper()
	a.last++
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, pair.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// files returns the files of a certificate and its key.
func (a *authority) files(name string) (certificate, key string) {
	a.t.Helper()
	dir := a.t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.renew(name, certificate, key)
	return certificate, key
}

// renew writes a new certificate and its key into files that are there.
func (a *authority) renew(name, certificate, key string) {
	a.t.Helper()
	text, private := a.issue(name)
	write(a.t, certificate, text)
	write(a.t, key, private)
}

// client returns one that trusts the authority, over HTTP/2 or HTTP/1.1.
func (a *authority) client(isHTTP2 bool, own ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, Certificates: own}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!isHTTP2)
	transport.Protocols.SetHTTP2(isHTTP2)
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestTLS: in both versions of HTTP, and the upstream is told.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.files("shop.example")
	r := start(t, nil, "--limit", "9/1h", "--tls-cert", certificate, "--tls-key", key, "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-Proto")+" "+r.Header.Get("X-Forwarded-For"))
	}))
	if !strings.HasPrefix(r.url, "https://127.0.0.1:") {
		t.Fatalf("the URL is %s", r.url)
	}
	for isHTTP2, want := range map[bool]int{true: 2, false: 1} {
		resp, body := fetch(t, a.client(isHTTP2), "GET", r.url)
		if resp.StatusCode != 200 || resp.ProtoMajor != want || body != "https 127.0.0.1" || resp.Header.Get("RateLimit") == "" {
			t.Errorf("%s: %d %q %v", resp.Proto, resp.StatusCode, body, resp.Header)
		}
	}
	address := strings.TrimPrefix(r.url, "https://")
	if conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: a.pool, MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	} else {
		conn.Close()
	}
	if resp, body := fetch(t, http.DefaultClient, "GET", "http://"+address); resp.StatusCode != 400 {
		t.Errorf("without TLS: %d %s", resp.StatusCode, body)
	}
}

// TestTLSAtOtherDoors: those that are named have it and the others do not, and gRPC speaks it.
func TestTLSAtOtherDoors(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.files("shop.example")
	r := start(t, nil, "--limit", "9/1h", "--tls-cert", certificate, "--tls-key", key, "--tls-doors", "api-listen,rls-listen,auth-listen,admin",
		"--api-listen", "127.0.0.1:0", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--rls-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1")))
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.url); resp.StatusCode != 200 {
		t.Errorf("--listen: %d", resp.StatusCode)
	}
	for _, url := range []string{r.api + "/openapi.json", r.auth, r.admin + "/healthz"} {
		if resp, body := fetch(t, a.client(true), "GET", url, "X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "203.0.113.9"); !strings.HasPrefix(url, "https://") || resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", url, resp.StatusCode, body)
		}
	}
	_, address, _ := strings.Cut(r.said(), "grpcs://")
	conn, err := grpc.NewClient(strings.Fields(address)[0], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: a.pool})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	verdicts(t, conn, "OK", "ada")
}

// shown returns the serial number of the certificate that a server shows to a new connection.
func shown(t *testing.T, a *authority, url string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: a.pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificatesAreFollowed: new connections get the new one, those there are go on, and wrong files change nothing.
func TestCertificatesAreFollowed(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.files("shop.example")
	r := start(t, nil, "--limit", "99/1h", "--tls-cert", certificate, "--tls-key", key)
	client := a.client(false)
	connections := 0
	dial := (&net.Dialer{}).DialContext
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connections++
		return dial(ctx, network, address)
	}
	fetch(t, client, "GET", r.url)
	first := shown(t, a, r.url)
	a.renew("shop.example", certificate, key)
	eventually(t, "the new certificate is shown", func() bool { return shown(t, a, r.url) == a.last && a.last > first })
	text, _ := a.issue("shop.example")
	write(t, certificate, text) // of another key
	eventually(t, "a pair that is none is told of", func() bool { return r.metric(`slidegate_tls_reloads_total{result="failure"}`) == "1" })
	if got := shown(t, a, r.url); got != a.last-1 {
		t.Errorf("by wrong files: certificate %d, want %d", got, a.last-1)
	}
	write(t, key, "no key")
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "SIGHUP looks at once", func() bool { return r.metric(`slidegate_tls_reloads_total{result="failure"}`) != "1" })
	a.renew("shop.example", certificate, key)
	eventually(t, "the next good certificate is shown", func() bool { return shown(t, a, r.url) == a.last })
	if resp, _ := fetch(t, client, "GET", r.url); resp.StatusCode != 200 || connections != 1 {
		t.Errorf("the first connection: %d, and %d were made", resp.StatusCode, connections)
	}
	for _, want := range []string{"the changed certificates are wrong: the last good ones hold", "the certificates are read again"} {
		if !strings.Contains(r.said(), want) {
			t.Errorf("the log does not have %q: %s", want, r.said())
		}
	}
}

// TestClientCertificates: who has none that is vouched for is not heard, and who is vouched for no longer is not either.
func TestClientCertificates(t *testing.T) {
	servers, clients := newAuthority(t), newAuthority(t)
	certificate, key := servers.files("shop.example")
	r := start(t, nil, "--limit", "99999/1h", "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", clients.path)
	pair := func(a *authority) tls.Certificate {
		text, private := a.issue("client.example")
		own, err := tls.X509KeyPair([]byte(text), []byte(private))
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	vouched, stranger := pair(clients), pair(servers)
	status := func(own ...tls.Certificate) int {
		resp, err := servers.client(false, own...).Get(r.url)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := []int{status(), status(stranger), status(vouched)}; fmt.Sprint(got) != "[0 0 200]" {
		t.Errorf("without, by a stranger, vouched for: %v", got)
	}
	text, err := os.ReadFile(servers.path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, clients.path, string(text))
	eventually(t, "others are vouched for", func() bool { return status(vouched) == 0 && status(stranger) == 200 })
}

// TestUpstreamCertificatesAreChecked by who vouches for them and by their name, in HTTP/1.1 and HTTP/2.
func TestUpstreamCertificatesAreChecked(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	text, private := a.issue("shop.internal")
	pair, err := tls.X509KeyPair([]byte(text), []byte(private))
	if err != nil {
		t.Fatal(err)
	}
	for _, isHTTP2 := range []bool{false, true} {
		upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto+" "+r.TLS.ServerName) }))
		upstream.Config.ErrorLog = log.New(io.Discard, "", 0)
		upstream.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		upstream.EnableHTTP2 = isHTTP2
		upstream.StartTLS()
		defer upstream.Close()
		proto := map[bool]string{false: "HTTP/1.1 ", true: "HTTP/2.0 "}[isHTTP2]
		for _, c := range []struct {
			what   string
			args   []string
			status int
			body   string
		}{
			{"by its address", []string{"--upstream-ca", a.path}, 200, proto},
			{"by its name", []string{"--upstream-ca", a.path, "--upstream-server-name", "shop.internal"}, 200, proto + "shop.internal"},
			{"by another name", []string{"--upstream-ca", a.path, "--upstream-server-name", "other.internal"}, 502, ""},
			{"others vouch", []string{"--upstream-ca", other.path}, 502, ""},
			{"the system vouches", nil, 502, ""},
		} {
			r := start(t, nil, append([]string{"--limit", "9/1h", "--upstream", upstream.URL}, c.args...)...)
			resp, body := fetch(t, http.DefaultClient, "GET", r.url)
			if resp.StatusCode != c.status || c.status == 200 && body != c.body {
				t.Errorf("%s: %d %q, want %d %q", c.what, resp.StatusCode, body, c.status, c.body)
			}
			if c.status == 502 {
				eventually(t, "the log says why", func() bool { return strings.Contains(r.said(), "x509") })
			}
		}
	}
}

// TestTLSBehindPROXY: the header of the balancer comes first.
func TestTLSBehindPROXY(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.files("shop.example")
	r := start(t, nil, "--limit", "1/1h", "--tls-cert", certificate, "--tls-key", key, "--proxy-protocol", "listen")
	for _, c := range []struct{ from, want string }{{"203.0.113.9:1", "200"}, {"203.0.113.9:2", "429"}, {"203.0.113.10:1", "200"}} {
		raw, err := net.Dial("tcp", strings.TrimPrefix(r.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(20 * time.Second))
		raw.Write(version2(1, c.from))
		conn := tls.Client(raw, &tls.Config{RootCAs: a.pool, ServerName: "shop.example"})
		conn.Write(get)
		answer, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 "+c.want)) {
			t.Errorf("%s: %q, %v, want %s", c.from, answer, err, c.want)
		}
	}
}
