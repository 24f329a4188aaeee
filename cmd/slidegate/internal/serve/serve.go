// Package serve is the command that stands in front of a service.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A plan is what the flags say.
type plan struct {
	listen, admin, upstream, key, store, onStoreError, clientIPHeader, logFormat string
	limits, trusted, headers                                                     []string
	trustedHops, ipv6Prefix, maxKeys                                             int
	readHeaderTimeout, idleTimeout, upstreamTimeout, grace                       time.Duration
}

// Command returns the command.
func Command() *cobra.Command {
	var p plan
	cmd := &cobra.Command{
		Use:   "serve --limit L … [--upstream URL]",
		Short: "Stand in front of a service and refuse what is too much",
		Long: `Serve is a reverse proxy that holds clients to limits. Requests that are admitted go to the
upstream; others get 429 with the time to retry. Streaming, WebSocket and HTTP/2 pass. Without
an upstream it answers itself, with a small JSON, so that limits can be tried.

Every limit of a request is charged or none. State is in this process: a restart begins with full
quotas.`,
		Example: `  slidegate serve --limit 100/1m --upstream http://127.0.0.1:3000
  slidegate serve --limit login=5/15m --key ip+path --listen :8080 --admin 127.0.0.1:9090
  slidegate serve --limit 100/1m --trusted-proxies 10.0.0.0/8 --client-ip-header X-Forwarded-For
  SLIDEGATE_LIMIT='burst=20/1s;sustained=100/1m' slidegate serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.build(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&p.limits, "limit", nil, config.LimitsUsage)
	f.StringVar(&p.listen, "listen", "127.0.0.1:8080", "the address to serve on; port 0 takes a free one")
	f.StringVar(&p.upstream, "upstream", "", "the service behind, such as http://127.0.0.1:3000, https:// or h2c:// (default: answer with a small JSON)")
	f.StringVar(&p.key, "key", "ip", "what tells clients apart: ip, header:NAME, cookie:NAME, path, host, method, joined by +")
	f.StringSliceVar(&p.trusted, "trusted-proxies", nil, "CIDRs of the proxies in front whose word on the client's address counts (default: nobody's)")
	f.IntVar(&p.trustedHops, "trusted-hops", 0, "the number of proxies in front, 1 to 32, that each add an address (default: as --trusted-proxies tells)")
	f.StringVar(&p.clientIPHeader, "client-ip-header", "", "the header in which they put it (default: X-Forwarded-For, once proxies are trusted)")
	f.IntVar(&p.ipv6Prefix, "ipv6-prefix", 56, "how many bits of an IPv6 address tell clients apart, 32 to 128")
	f.StringSliceVar(&p.headers, "headers", []string{"draft-8"}, "the RateLimit fields to send: draft-8, draft-7, draft-6, legacy, legacy-delta, several of them, or none")
	f.StringVar(&p.onStoreError, "on-store-error", "open", "what to do with requests that cannot be decided: open lets them pass, closed answers 503")
	f.StringVar(&p.store, "store", "memory", "where the state is: memory")
	f.IntVar(&p.maxKeys, "max-keys", memstore.DefaultMaxKeys, "the most keys to keep in memory, 1 to 1073741824")
	f.StringVar(&p.admin, "admin", "", "the address for /healthz, /readyz and /metrics (default: none)")
	f.StringVar(&p.logFormat, "log-format", "text", "how to log: text or json")
	f.DurationVar(&p.readHeaderTimeout, "read-header-timeout", 10*time.Second, "how long a client may take to send its header")
	f.DurationVar(&p.idleTimeout, "idle-timeout", 2*time.Minute, "how long a connection may be idle")
	f.DurationVar(&p.upstreamTimeout, "upstream-timeout", time.Minute, "how long the upstream may take to begin its answer")
	f.DurationVar(&p.grace, "grace", 15*time.Second, "how long requests may take to end after SIGTERM")
	return cmd
}

// A server is ready to run: everything that can be wrong has been looked at.
type server struct {
	plan
	limits   []slidegate.Limit
	key      *keyexpr.Expr
	upstream *url.URL
	store    *memstore.Store
	gate     *httpgate.Gate
	metrics  *metrics
	stderr   io.Writer
	log      *slog.Logger
	draining atomic.Bool
}

// build looks at every flag and starts nothing.
func (p plan) build(stderr io.Writer) (*server, error) {
	s := &server{plan: p, stderr: stderr}
	var err error
	if s.limits, err = config.Limits(p.limits); err != nil {
		return nil, err
	}
	if s.key, err = keyexpr.Parse(p.key); err != nil {
		return nil, config.Usagef("--%w", err)
	}
	if s.upstream, err = parseUpstream(p.upstream); err != nil {
		return nil, err
	}
	if err := p.checkWords(); err != nil {
		return nil, err
	}
	handler := slog.Handler(slog.NewTextHandler(stderr, nil))
	if p.logFormat == "json" {
		handler = slog.NewJSONHandler(stderr, nil)
	}
	s.log = slog.New(handler)
	s.store = memstore.New(memstore.WithMaxKeys(p.maxKeys), memstore.WithLogger(s.log))
	limiter, err := slidegate.New(s.store, s.limits...)
	if err != nil {
		return nil, err
	}
	s.limits = limiter.Limits()
	s.metrics = newMetrics(s.limits, s.store, func() uint64 { return s.gate.IgnoredHeaders() })
	options, err := s.options()
	if err != nil {
		return nil, err
	}
	s.gate, err = httpgate.New(limiter, options...)
	return s, err
}

func (p plan) checkWords() error {
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"store", p.store, []string{"memory"}},
		{"on-store-error", p.onStoreError, []string{"open", "closed"}},
		{"log-format", p.logFormat, []string{"text", "json"}},
	} {
		ok := false
		for _, a := range c.allowed {
			ok = ok || a == c.value
		}
		if !ok {
			return config.Usagef("--%s %q: allowed is %s", c.flag, c.value, strings.Join(c.allowed, " or "))
		}
	}
	for _, c := range []struct {
		flag  string
		value time.Duration
	}{
		{"read-header-timeout", p.readHeaderTimeout}, {"idle-timeout", p.idleTimeout}, {"upstream-timeout", p.upstreamTimeout}, {"grace", p.grace},
	} {
		if c.value <= 0 {
			return config.Usagef("--%s %s: allowed is a duration above 0, such as 10s", c.flag, c.value)
		}
	}
	for _, c := range []struct{ flag, value string }{{"listen", p.listen}, {"admin", p.admin}} {
		if c.value == "" && c.flag == "admin" {
			continue
		}
		if _, port, err := net.SplitHostPort(c.value); err != nil || port == "" {
			return config.Usagef("--%s %q: allowed is HOST:PORT, such as 127.0.0.1:8080", c.flag, c.value)
		}
	}
	return nil
}

func parseUpstream(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		return nil, config.Usagef("--upstream %q: allowed is a URL of http, https or h2c with a host, such as http://127.0.0.1:3000", text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, config.Usagef("--upstream %q: a user, a query or a fragment has no place in it", u.Redacted())
	}
	return u, nil
}

// options are those of the gate.
func (s *server) options() ([]httpgate.Option, error) {
	formats, err := parseFormats(s.headers)
	if err != nil {
		return nil, err
	}
	options := []httpgate.Option{httpgate.Headers(formats...), httpgate.IPv6Prefix(s.ipv6Prefix), httpgate.Logger(s.log), httpgate.Observe(s.metrics.observe)}
	if !s.key.IsAddress() {
		options = append(options, httpgate.By(s.keyOf))
	}
	if len(s.trusted) > 0 {
		options = append(options, httpgate.TrustProxies(s.trusted...))
	}
	if s.trustedHops != 0 {
		options = append(options, httpgate.TrustHops(s.trustedHops))
	}
	if s.clientIPHeader != "" {
		options = append(options, httpgate.ClientIPHeader(s.clientIPHeader))
	}
	if s.onStoreError == "closed" {
		options = append(options, httpgate.FailClosed())
	}
	return options, nil
}

func parseFormats(names []string) (formats []httpgate.Format, err error) {
	if len(names) == 1 && names[0] == "none" {
		return nil, nil
	}
	for _, name := range names {
		f, err := httpgate.ParseFormat(strings.TrimSpace(name))
		if err != nil {
			return nil, config.Usagef("--headers: %w, or none alone", err)
		}
		formats = append(formats, f)
	}
	return formats, nil
}

func (s *server) keyOf(r *http.Request) (string, error) {
	address := ""
	if addr, _ := s.gate.Addresses().Find(r); addr.IsValid() {
		address = "ip:" + s.gate.Addresses().Key(addr)
	}
	return s.key.Key(r, address), nil
}

// run binds every address, says what it does, serves, and drains when it is told to end.
func (s *server) run(ctx context.Context) error {
	defer s.store.Close()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	var adminListener net.Listener
	if s.admin != "" {
		if adminListener, err = net.Listen("tcp", s.admin); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
		defer adminListener.Close()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	front := s.frontServer()
	failed := make(chan error, 2)
	go func() { failed <- front.Serve(listener) }()
	var admin *http.Server
	if adminListener != nil {
		admin = &http.Server{Handler: s.adminHandler(), ReadHeaderTimeout: s.readHeaderTimeout, IdleTimeout: s.idleTimeout}
		go func() { failed <- admin.Serve(adminListener) }()
		defer admin.Close()
	}
	s.announce(listener.Addr(), adminListener)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the program at once
	return s.drain(front)
}

func (s *server) drain(front *http.Server) error {
	s.draining.Store(true)
	s.log.Info("draining: no new requests, those under way may end", "grace", s.grace)
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	if err := front.Shutdown(ctx); err != nil {
		front.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Warn("requests were still under way when the grace time was over")
			return nil
		}
		return err
	}
	return nil
}

func (s *server) frontServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.gate.Wrap(s.behind()),
		ReadHeaderTimeout: s.readHeaderTimeout,
		IdleTimeout:       s.idleTimeout,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// announce says what is limited, how clients are told apart, and what happens without the store.
func (s *server) announce(at net.Addr, admin net.Listener) {
	names := make([]string, len(s.limits))
	for i, l := range s.limits {
		names[i] = l.String()
	}
	p := func(format string, args ...any) { fmt.Fprintf(s.stderr, format+"\n", args...) }
	p("slidegate: listening on http://%s", at)
	p("  limits    %s: all are charged or none", strings.Join(names, " and "))
	p("  clients   told apart by %s; %s", s.key, s.addressRule())
	p("  store     memory of this process, at most %d keys: a restart begins with full quotas", s.maxKeys)
	p("  failing   %s: requests that cannot be decided %s", s.onStoreError, map[string]string{"open": "pass", "closed": "get 503"}[s.onStoreError])
	if s.upstream != nil {
		p("  upstream  %s", s.upstream.Redacted())
	}
	if admin != nil {
		p("  admin     http://%s/healthz /readyz /metrics", admin.Addr())
	}
	if !s.key.TellsClients() {
		s.log.Warn("the key has no client in it: all clients share one quota", "key", s.key.String())
	}
	if s.upstream == nil {
		p("  try       curl -i http://%s/", at)
		p("  read on   docs/command.md")
	}
}

func (s *server) addressRule() string {
	header := s.clientIPHeader
	if header == "" {
		header = "X-Forwarded-For"
	}
	switch {
	case len(s.trusted) > 0:
		return fmt.Sprintf("addresses are those in %s from %s", header, strings.Join(s.trusted, ", "))
	case s.trustedHops > 0:
		return fmt.Sprintf("addresses are those in %s, %d from the right", header, s.trustedHops)
	}
	return "addresses are those who connect, whatever they say"
}
