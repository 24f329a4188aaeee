package serve

import (
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
)

// A server is ready to run: everything that can be wrong has been looked at.
type server struct {
	plan
	limits        []slidegate.Limit
	formats       []httpgate.Format
	key           *keyexpr.Expr
	upstream      *url.URL
	auth          http.Handler   // nil for none
	api           http.Handler   // nil for none
	rls           *rls.Service   // nil for none
	hasToken      bool           // who asks at the JSON door must show one
	trusts        []netip.Prefix // who may send a PROXY header
	backend       *backend
	limiter       *slidegate.Limiter // of --limit, nil without
	probe         *slidegate.Limiter // what a remote store is asked by whether it is there, nil for memory
	wrap          func(http.Handler) http.Handler
	verdicts      func(http.Handler) http.Handler // wrap for doors that do not see how a request is answered
	live          *rules.Live                     // nil without a file of rules
	bans          *bans.List                      // of keys that people have banned
	refusals      *admin.Refusals                 // nil where nobody may look at them
	manage        http.Handler                    // the door of those who run the process; nil for none
	isManaged     bool                            // it has more than health and metrics
	hasAdminToken bool                            // who asks there for more must show one

	addresses *httpgate.Addresses
	metrics   *metrics
	stderr    io.Writer
	log       *slog.Logger
	outage    outage
	away      outage       // of the store
	checked   selfCheck    // likewise
	proxies   sync.Map     // of upstreams: string to http.Handler
	underWay  atomic.Int64 // requests that were taken on, WebSockets included
	draining  atomic.Bool

	fronts        []netip.Prefix // the proxies that --trusted-proxies names
	buffers       buffers
	certificates  *certificates  // nil without TLS
	upstreamRoots *x509.CertPool // nil for those of the system
	connections   atomic.Int64   // of all doors but that of those who run the process
}

// build looks at every flag and starts nothing.
func (p plan) build(version string, stderr io.Writer) (*server, error) {
	s := &server{plan: p, stderr: stderr, log: newLogger(stderr, p.logFormat)}
	steps := []func() error{p.checkWords, p.checkNumbers, p.checkBounds, p.checkAddresses, s.checkStaying, s.parse, s.newStore, s.parseProxies}
	if p.file == nil {
		steps = append(steps, s.parseLimits, s.newGate)
	} else {
		steps = append(steps, s.newEngine)
	}
	s.metrics = newMetrics(version)
	for _, step := range append(steps, s.newAuth, s.newAPI, s.newRLS, s.readProxyProtocol, s.newTLS, s.newAdmin) {
		if err := step(); err != nil {
			return nil, p.inFile(err)
		}
	}
	s.measure()
	if s.rls != nil {
		s.metrics.registry.MustRegister(s.rls.Metrics)
	}
	return s, nil
}

func newLogger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

func (p plan) checkWords() error {
	for _, c := range []struct{ flag, value string }{
		{"when-full", p.whenFull}, {"on-store-error", p.onStoreError}, {"log-format", p.logFormat}, {"rls-algorithm", p.rlsAlgorithm}, {"audit-keys", p.auditKeys},
	} {
		if !slices.Contains(words[c.flag], c.value) {
			return config.Usagef("--%s %q: allowed is %s", c.flag, c.value, strings.Join(words[c.flag], " or "))
		}
	}
	return nil
}

func (p plan) checkNumbers() error {
	if p.maxKeys < 1 || p.maxKeys > 1<<30 {
		return config.Usagef("--max-keys %d: allowed is 1 to %d", p.maxKeys, 1<<30)
	}
	for _, c := range []struct {
		flag  string
		value time.Duration
	}{
		{"read-header-timeout", p.readHeaderTimeout}, {"idle-timeout", p.idleTimeout}, {"upstream-timeout", p.upstreamTimeout}, {"client-timeout", p.clientTimeout}, {"grace", p.grace},
	} {
		if c.value <= 0 {
			return config.Usagef("--%s %s: allowed is a duration above 0, such as 10s", c.flag, c.value)
		}
	}
	return nil
}

func (p plan) checkAddresses() error {
	for _, c := range []struct {
		flag, value string
		mayBeEmpty  bool
	}{
		{"listen", p.listen, p.authListen+p.apiListen+p.rlsListen+p.rlsHTTPListen != ""}, {"auth-listen", p.authListen, true},
		{"api-listen", p.apiListen, true}, {"rls-listen", p.rlsListen, true}, {"rls-http-listen", p.rlsHTTPListen, true},
		{"admin", p.admin, true},
	} {
		if c.value == "" && c.mayBeEmpty {
			continue
		}
		if path, ok := admin.SocketPath(c.value); ok && c.flag == "admin" && path != "" {
			continue
		}
		if _, port, err := net.SplitHostPort(c.value); err != nil || !config.IsPort(port) {
			return config.Usagef("--%s %q: allowed is HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:8080", c.flag, c.value)
		}
	}
	if !p.gatesRequests() {
		return config.RefuseFlags(p.given, "it is about --listen and --auth-listen, which are empty", append(slices.Clone(proxyFlags),
			"key", "trusted-proxies", "trusted-hops", "client-ip-header", "ipv6-prefix", "on-store-error")...)
	}
	if p.listen == "" {
		return config.RefuseFlags(p.given, "it is about --listen, which is empty", proxyFlags...)
	}
	return nil
}

// proxyFlags are about what is passed on to a service.
var proxyFlags = []string{"upstream", "upstream-timeout", "upstream-ca", "upstream-server-name", "max-body"}

// gatesRequests tells whether a door is open at which requests themselves are limited.
func (p plan) gatesRequests() bool { return p.listen+p.authListen != "" }

// usesLimits tells whether a door is open that --limit and rules are about.
func (p plan) usesLimits() bool { return p.gatesRequests() || p.apiListen != "" }

// parse reads the flags that have a form of their own.
func (s *server) parse() (err error) {
	if s.key, err = keyexpr.Parse(s.plan.key); err != nil {
		return config.Usagef("--%w", err)
	}
	if s.upstream, err = parseUpstream(s.plan.upstream); err != nil {
		return err
	}
	s.formats, err = parseFormats(s.headers)
	return err
}

func (s *server) parseLimits() (err error) {
	if !s.usesLimits() {
		return config.RefuseFlags(s.given, "it is about --listen, --auth-listen and --api-listen, none of which is open", "limit", "headers")
	}
	if len(s.plan.limits) == 0 && s.authListen+s.apiListen == "" && s.hasRLS() {
		return config.Usagef("--limit is missing: --listen holds requests to it: give one, such as --limit 100/1m, or --listen '' to be no proxy")
	}
	s.limits, err = config.Limits(s.plan.limits)
	return err
}

func parseUpstream(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := config.Upstream(text)
	parsed, unreadable := url.Parse(text)
	switch {
	case err == nil:
		return u, nil
	case unreadable == nil:
		return nil, config.Usagef("--upstream %q: %w", parsed.Redacted(), err)
	case strings.Contains(text, "@"): // it may hold a password
		return nil, config.Usagef("--upstream cannot be read: %w", err)
	}
	return nil, config.Usagef("--upstream %q: %w", text, err)
}

func parseFormats(names []string) (formats []httpgate.Format, err error) {
	const allowed = "allowed is draft-8, draft-7, draft-6, legacy, legacy-delta, several of them, or none alone"
	if len(names) == 0 {
		return nil, config.Usagef("--headers is empty: %s", allowed)
	}
	if len(names) == 1 && names[0] == "none" {
		return nil, nil
	}
	for _, name := range names {
		f, err := httpgate.ParseFormat(strings.TrimSpace(name))
		if err != nil {
			return nil, config.Usagef("--headers %q: %s", name, allowed)
		}
		formats = append(formats, f)
	}
	return formats, nil
}

// newStore makes the store, and what finds addresses.
func (s *server) newStore() (err error) {
	if s.addresses, err = httpgate.NewAddresses(s.addressOptions()...); err != nil {
		return inFlags(err)
	}
	if s.backend, err = s.newBackend(); err != nil {
		return err
	}
	s.metrics.of(s.backend)
	s.metrics.ofCheck(&s.checked)
	s.withBans()
	return s.newProbe()
}

// newGate makes the limiter and the gate of --limit, where there is a door for it.
func (s *server) newGate() (err error) {
	if !s.usesLimits() {
		return nil
	}
	if s.limiter, err = slidegate.New(s.backend.store, s.limits...); err != nil {
		return config.Usagef("--limit: %w", err)
	}
	s.limits = s.limiter.Limits()
	s.metrics.ofLimits(s.limits)
	gate, err := httpgate.New(s.limiter, s.gateOptions()...)
	if err != nil {
		return inFlags(err)
	}
	s.metrics.ignored(gate.IgnoredHeaders)
	s.wrap, s.verdicts = s.bound(gate.Wrap), s.bound(gate.Wrap)
	return nil
}

func (s *server) gateOptions() []httpgate.Option {
	options := append(s.addressOptions(), httpgate.Headers(s.formats...), httpgate.Logger(s.log), httpgate.WithoutOutages(), httpgate.Observe(s.observe))
	if !s.key.IsAddress() {
		options = append(options, httpgate.By(s.keyOf))
	}
	if s.listen == "" {
		options = append(options, httpgate.WithoutContext()) // nobody but what is behind --listen looks for the decision there
	}
	if s.onStoreError == "closed" {
		return append(options, httpgate.FailClosed())
	}
	return append(options, httpgate.FailOpen())
}

// addressOptions say how the client's address is found.
func (s *server) addressOptions() []httpgate.Option {
	options := []httpgate.Option{httpgate.IPv6Prefix(s.ipv6Prefix)}
	if len(s.trusted) > 0 {
		options = append(options, httpgate.TrustProxies(trimmed(s.trusted)...))
	}
	if s.trustedHops != unset {
		options = append(options, httpgate.TrustHops(s.trustedHops))
	}
	if s.clientIPHeader != "" {
		options = append(options, httpgate.ClientIPHeader(s.clientIPHeader))
	}
	return options
}

// trimmed returns texts without the spaces around them.
func trimmed(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strings.TrimSpace(text)
	}
	return all
}

// keyOf needs no address where the expression has none in it; the gate knows what to do without a key.
func (s *server) keyOf(r *http.Request) (string, error) {
	address, err := s.addresses.KeyOf(r)
	if err != nil {
		address = ""
	}
	return s.key.Key(r, address), nil
}

// flagNames are what the options of the gate are called here.
var flagNames = strings.NewReplacer(
	", or say TrustEverybody", "", "trusted proxies", "--trusted-proxies", "TrustProxies", "--trusted-proxies",
	"TrustHops", "--trusted-hops", "ClientIPHeader", "--client-ip-header", "IPv6Prefix", "--ipv6-prefix",
)

// inFlags says what is wrong with an option of the gate in terms of the flag.
func inFlags(err error) error {
	return config.Usagef("%s", flagNames.Replace(strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": ")))
}
