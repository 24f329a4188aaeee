package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	rlsrules "github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// rlsSettings are the flags about the rate limit service that open no door.
var rlsSettings = []string{
	"rls-config", "rls-algorithm", "rls-all-or-nothing", "rls-shadow-mode", "rls-quota-mode", "rls-headers", "rls-metadata",
	"rls-merge-domains", "rls-original-metrics",
}

func (p *plan) rlsFlags(f *pflag.FlagSet) {
	f.StringVar(&p.rlsListen, "rls-listen", "", "the `address` of the rate limit service of Envoy, over gRPC (default: none)")
	f.StringVar(&p.rlsHTTPListen, "rls-http-listen", "", "the `address` of the same in JSON: POST /json and GET /healthcheck (default: none)")
	f.StringVar(&p.rlsConfig, "rls-config", "", "the `directory` with its rule files, which are those of envoyproxy/ratelimit")
	f.StringVar(&p.rlsAlgorithm, "rls-algorithm", "log", "what its limits are: log, which is exact, or counter")
	f.BoolVar(&p.rlsTogether, "rls-all-or-nothing", false, "charge all descriptors of a request or none")
	f.BoolVar(&p.rlsShadow, "rls-shadow-mode", false, "refuse no request, and only say what is over its limit")
	f.BoolVar(&p.rlsQuota, "rls-quota-mode", false, "refuse a request only where all its descriptors are over their limits")
	f.BoolVar(&p.rlsHeaders, "rls-headers", false, "add RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset and Retry-After to answers")
	f.BoolVar(&p.rlsMetadata, "rls-metadata", false, "send the metadata of rules with answers")
	f.BoolVar(&p.rlsMerge, "rls-merge-domains", false, "let several files speak of one domain")
	f.BoolVar(&p.rlsOriginalMetrics, "rls-original-metrics", false, "call its metrics as envoyproxy/ratelimit does")
}

// hasRLS tells whether a door of the rate limit service is open.
func (p plan) hasRLS() bool { return p.rlsListen != "" || p.rlsHTTPListen != "" }

// newRLS makes the rate limit service, if a door of it is to be, with the rules that there are at the start. What cannot be
// decided is an error of its protocol, so that Envoy says what becomes of the request: --on-store-error is not about it.
func (s *server) newRLS() (err error) {
	if !s.hasRLS() {
		return config.RefuseFlags(s.given, "it is about --rls-listen and --rls-http-listen, neither of which is given", rlsSettings...)
	}
	if s.rlsConfig == "" {
		return config.Usagef("--rls-config is missing: give the directory with the rule files, such as --rls-config rules")
	}
	if s.rls, err = rls.New(s.backend.store, nil, s.rlsOptions()); err != nil {
		return err
	}
	if err := s.rls.Load(s.rlsConfig); err != nil {
		return config.Usagef("--rls-config: %w", err)
	}
	return nil
}

// CheckRLS reads a directory of rule files as --rls-config would, with --rls-merge-domains if merge. Nothing is started.
// What cannot be read is a problem of it.
func CheckRLS(dir string, merge bool) (*rlsrules.Set, error) {
	store := memstore.New()
	defer store.Close()
	service, err := rls.New(store, nil, rls.Options{Algorithm: slidegate.SlidingLog, MergeDomains: merge, Logger: newLogger(io.Discard, "text")})
	if err != nil {
		return nil, err
	}
	err = service.Load(dir)
	var unreadable *fs.PathError
	switch {
	case err == nil:
		return service.Rules(), nil
	case errors.As(err, &unreadable):
		return nil, rlsrules.Problems{fmt.Sprintf("%s: cannot be read: %v", unreadable.Path, unreadable.Err)}
	case errors.Is(err, rlsrules.ErrInvalid):
		return nil, err
	}
	return nil, rlsrules.Problems{err.Error()} // of a rule that no store takes, with its place
}

func (s *server) rlsOptions() rls.Options {
	o := rls.Options{
		Algorithm: slidegate.SlidingLog, Together: s.rlsTogether, Shadow: s.rlsShadow, Quota: s.rlsQuota, Metadata: s.rlsMetadata,
		Remote: s.backend.remote != nil, MergeDomains: s.rlsMerge, Metrics: rls.NewMetrics(rls.OurNames), Logger: s.log,
	}
	if !o.Remote {
		o.Asked = s.asked // of Redis that is known already
	}
	if s.rlsAlgorithm == "counter" {
		o.Algorithm = slidegate.SlidingCounter
	}
	if s.rlsHeaders {
		o.Headers = &rls.DefaultHeaders
	}
	if s.rlsOriginalMetrics {
		o.Metrics = rls.NewMetrics(rls.OriginalNames)
	}
	return o
}

// rlsDoors returns those of the rate limit service that the flags open.
func (s *server) rlsDoors() (open []*door) {
	if s.rlsListen != "" {
		open = append(open, &door{flag: "rls-listen", address: s.rlsListen, server: grpcServant{s.rls.NewServer(s.grpcOptions()...)}})
	}
	if s.rlsHTTPListen != "" {
		mux := http.NewServeMux()
		mux.Handle("/", s.admit(asOneRequest(s.rls.Handler())))
		mux.Handle("/healthcheck", s.rls.Handler()) // health is always told
		server := s.newServer(mux)
		server.ReadTimeout = s.readHeaderTimeout // bodies are small
		open = append(open, &door{flag: "rls-http-listen", address: s.rlsHTTPListen, server: server})
	}
	return open
}

// mostPings is how often a connection may be asked whether it lives. The library would close one where a proxy asks more
// often than every five minutes, as connection_keepalive of Envoy does.
const mostPings = 5 * time.Second

// mostCalls is how many calls a connection may have under way. Those of Envoy wait there for their turn.
const mostCalls = 1000

func (s *server) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.admitCall),
		grpc.MaxConcurrentStreams(mostCalls),
		grpc.ConnectionTimeout(s.readHeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: mostPings, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(wrap.Request(ctx), r) // all its descriptors have one deadline
		}),
	}
}

// A grpcServant ends as a server of net/http does.
type grpcServant struct{ *grpc.Server }

// Shutdown takes no new calls and waits for those under way. Where ctx ends first, Close ends them.
func (g grpcServant) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all calls at once.
func (g grpcServant) Close() error {
	g.Stop()
	return nil
}

// rlsFacts are about the rate limit service.
func (s *server) rlsFacts(at map[string]net.Addr) (facts []fact) {
	if s.rls == nil {
		return nil
	}
	if a := at["rls-listen"]; a != nil {
		facts = append(facts, fact{"rls", fmt.Sprintf("%s://%s for Envoy", s.scheme("rls-listen"), a)})
	}
	if a := at["rls-http-listen"]; a != nil {
		facts = append(facts, fact{"rls http", fmt.Sprintf("%s://%s/json /healthcheck", s.scheme("rls-http-listen"), a)})
	}
	set := s.rls.Rules()
	charged := "each descriptor is charged for itself"
	if s.rlsTogether {
		charged = "all descriptors of a request are charged or none"
	}
	if s.rlsShadow {
		charged += ", and no request is refused"
	}
	return append(facts,
		fact{"rls rules", fmt.Sprintf("%s: domains %d, rules %d; %s", s.rlsConfig, len(set.Domains()), len(set.Rules), charged)},
		fact{"rls fails", "calls that cannot be decided get UNAVAILABLE, and Envoy says what becomes of requests"},
	)
}

// followRules loads the rules of the rate limit service again when their files change, and at SIGHUP.
func (s *server) followRules(ctx context.Context) {
	if s.rls == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go s.rls.Follow(ctx, s.rlsConfig, time.Second, hangup)
}
