package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// security is what the flags say of TLS.
type security struct {
	tlsCert, tlsKey, tlsClientCA string
	tlsDoors                     []string
	upstreamCA, upstreamName     string
}

func (p *security) flags(f *pflag.FlagSet) {
	f.StringVar(&p.tlsCert, "tls-cert", "", "the `file` with the certificate to serve TLS with, and those between it and its root (default: no TLS)")
	f.StringVar(&p.tlsKey, "tls-key", "", "the `file` with its key")
	f.StringVar(&p.tlsClientCA, "tls-client-ca", "", "the `file` with the certificates of those who vouch for clients, which must then have one (default: none is asked for)")
	f.StringSliceVar(&p.tlsDoors, "tls-doors", []string{"listen"}, "the `flags` of the addresses with TLS: "+strings.Join(doorFlags, ", "))
	f.StringVar(&p.upstreamCA, "upstream-ca", "", "the `file` with the certificates of those who vouch for upstreams of https (default: those of the system)")
	f.StringVar(&p.upstreamName, "upstream-server-name", "", "the `name` that their certificates are for (default: the host of the URL)")
}

// newTLS reads the certificates, if there are to be any.
func (s *server) newTLS() (err error) {
	if s.upstreamCA != "" {
		if s.upstreamRoots, err = readRoots(s.upstreamCA); err != nil {
			return config.Usagef("--upstream-ca: %w", err)
		}
	}
	if s.tlsCert+s.tlsKey == "" {
		return config.RefuseFlags(s.given, "it is about --tls-cert, which is not given", "tls-client-ca", "tls-doors")
	}
	for name, given := range map[string]string{"tls-cert": s.tlsCert, "tls-key": s.tlsKey} {
		if given == "" {
			return config.Usagef("--%s is missing: a certificate and its key are two files", name)
		}
	}
	if s.tlsDoors, err = s.openDoors("tls-doors", s.tlsDoors); err != nil {
		return err
	}
	s.certificates = newCertificates(s)
	if err := s.certificates.load(); err != nil {
		return config.Usagef("--%w", err)
	}
	return nil
}

// openDoors returns the doors that the values of a flag name, all of which must be open.
func (s *server) openDoors(flag string, names []string) ([]string, error) {
	addresses := map[string]string{
		"listen": s.listen, "auth-listen": s.authListen, "api-listen": s.apiListen, "rls-listen": s.rlsListen, "rls-http-listen": s.rlsHTTPListen, "admin": s.admin,
	}
	names = trimmed(names)
	if len(names) == 0 {
		return nil, config.Usagef("--%s is empty: allowed is %s, or several of them", flag, strings.Join(doorFlags, ", "))
	}
	for _, name := range names {
		if !slices.Contains(doorFlags, name) {
			return nil, config.Usagef("--%s %q: allowed is %s, or several of them", flag, name, strings.Join(doorFlags, ", "))
		}
		if addresses[name] == "" {
			return nil, config.Usagef("--%s %s: --%[2]s is not given", flag, name)
		}
	}
	return names, nil
}

// isSecure tells whether a door has TLS.
func (p plan) isSecure(flag string) bool {
	return p.tlsCert != "" && slices.Contains(p.tlsDoors, flag)
}

// scheme is that of the URL of a door.
func (p plan) scheme(flag string) string {
	scheme := "http"
	if flag == "rls-listen" {
		scheme = "grpc"
	}
	if p.isSecure(flag) {
		scheme += "s"
	}
	return scheme
}

// followCertificates takes up changes of the certificates until ctx ends.
func (s *server) followCertificates(ctx context.Context) {
	if s.certificates == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go s.certificates.follow(ctx, time.Second, hangup)
}

// tlsFact is about TLS.
func (s *server) tlsFact() fact {
	now := s.certificates.current.Load()
	text := fmt.Sprintf("--%s by %s, which ends %s", strings.Join(s.tlsDoors, " and --"), s.tlsCert, now.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
	if s.tlsClientCA != "" {
		text += "; clients need a certificate by " + s.tlsClientCA
	}
	return fact{"tls", text}
}

// readRoots reads certificates that others are checked against.
func readRoots(path string) (*x509.CertPool, error) {
	text, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in it: allowed is PEM", path)
	}
	return roots, nil
}

// longestPEM of a file of certificates or of a key, in bytes. Those of a whole system have less than a tenth of it.
const longestPEM = 4 << 20

func readPEM(path string) ([]byte, error) {
	text, err := config.ReadFileAtOnce(path, longestPEM)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return text, nil
}

// certificates are those that the doors show and ask for, and follow their files. Connections that there are go on with
// those they began with. It is safe for concurrent use.
type certificates struct {
	server  *server
	current atomic.Pointer[tls.Config]
	tried   []byte // what was last looked at; of the goroutine that follows
	reloads *prometheus.CounterVec
	expiry  prometheus.Gauge
}

func newCertificates(s *server) *certificates {
	c := &certificates{server: s}
	c.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: tlsReloads, Help: "Times that the files of --tls-cert were read again: taken, or wrong so that the last good ones hold.",
	}, []string{"result"})
	c.expiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: tlsExpiry, Help: "When the certificate of --tls-cert ends, in Unix seconds.",
	})
	for _, result := range []string{"success", "failure"} {
		c.reloads.WithLabelValues(result)
	}
	s.metrics.registry.MustRegister(c.reloads, c.expiry)
	return c
}

// listener puts TLS on the connections of a door.
func (c *certificates) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	})
}

// load takes the files as they are now.
func (c *certificates) load() error {
	s := c.server
	c.tried = c.content()
	pair, err := readPair(s.tlsCert, s.tlsKey)
	if err != nil {
		return fmt.Errorf("tls-cert: %w", err)
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if s.tlsClientCA != "" {
		if next.ClientCAs, err = readRoots(s.tlsClientCA); err != nil {
			return fmt.Errorf("tls-client-ca: %w", err)
		}
		next.ClientAuth = tls.RequireAndVerifyClientCert
		next.SessionTicketsDisabled = true // who is vouched for no longer is asked again
	}
	c.current.Store(next)
	c.expiry.Set(float64(pair.Leaf.NotAfter.Unix()))
	return nil
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := readPEM(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readPEM(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// content is what the files are known by.
func (c *certificates) content() []byte {
	sum := sha256.New()
	for _, path := range []string{c.server.tlsCert, c.server.tlsKey, c.server.tlsClientCA} {
		text, err := readPEM(path)
		fmt.Fprintf(sum, "%d\x00%s\x00%t\x00", len(text), text, err != nil)
	}
	return sum.Sum(nil)
}

// follow takes up changes of the files until ctx ends, at once at SIGHUP. A change has to be there at two looks in a row: a
// certificate is written before its key or after it.
func (c *certificates) follow(ctx context.Context, every time.Duration, hangup <-chan os.Signal) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			c.reload()
		case <-tick.C:
			now := c.content()
			if !bytes.Equal(now, c.tried) && bytes.Equal(now, last) {
				c.reload()
			}
			last = now
		}
	}
}

func (c *certificates) reload() {
	if err := c.load(); err != nil {
		c.reloads.WithLabelValues("failure").Inc()
		c.server.log.Error("the changed certificates are wrong: the last good ones hold", "problem", err.Error())
		return
	}
	c.reloads.WithLabelValues("success").Inc()
	c.server.log.Info("the certificates are read again", "end", c.current.Load().Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
}
