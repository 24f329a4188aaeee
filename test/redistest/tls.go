package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A certificate is its own authority, for 127.0.0.1 and localhost.
type certificate struct {
	certFile, keyFile string
	pool              *x509.CertPool
}

func newCertificate(t testing.TB, dir string) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "redistest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{loopback, net.IPv6loopback},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificate{certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	writePEM(t, c.certFile, "CERTIFICATE", der)
	writePEM(t, c.keyFile, "PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(parsed)
	return c
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *certificate) lines(port int) []string {
	return []string{
		"port 0",
		"tls-port " + strconv.Itoa(port),
		"tls-cert-file " + quote(c.certFile),
		"tls-key-file " + quote(c.keyFile),
		"tls-ca-cert-file " + quote(c.certFile),
		"tls-auth-clients no",
	}
}

func withoutTLS(s *Server) {
	s.t.Helper()
	if s.tls != nil {
		s.t.Fatal("redistest: WithTLS is for Standalone alone")
	}
}

// TLSConfig returns what a client needs to trust the server; nil without [WithTLS].
func (s *Server) TLSConfig() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return &tls.Config{RootCAs: s.tls.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// CertFile returns the path of the certificate that a client has to trust; "" without [WithTLS].
func (s *Server) CertFile() string {
	if s.tls == nil {
		return ""
	}
	return s.tls.certFile
}
