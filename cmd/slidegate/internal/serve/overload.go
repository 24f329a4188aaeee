package serve

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/httpgate"
)

// bounds are what the flags say of how much is taken on.
type bounds struct {
	maxConnections, maxPerClient, maxRequests int
	maxHeader                                 int
	maxBody                                   int64
	clientTimeout                             time.Duration
}

// boundFlags are the flags about how much is taken on, and the most that each may say. All begin with 1, but for
// max-header.
var boundFlags = map[string]int64{
	"max-connections": 1 << 20, "max-connections-per-client": 1 << 20, "max-requests": 1 << 20, "max-header": 1 << 20, "max-body": 1 << 50,
}

// leastHeader is the least that --max-header may say, in bytes: less than what browsers send is a mistake.
const leastHeader = 4 << 10

func (b *bounds) flags(f *pflag.FlagSet) {
	f.IntVar(&b.maxConnections, "max-connections", 10000, "how many `connections` each address but --admin may have at once, 1 to 1048576; further ones get 503 and are closed")
	f.IntVar(&b.maxPerClient, "max-connections-per-client", unset, "how many of them one `client` may have, 1 to 1048576; trusted proxies any number (default: as many as there may be)")
	f.IntVar(&b.maxRequests, "max-requests", 10000, "how many `requests` may be under way at once, 1 to 1048576, streams and WebSockets included; further ones get 503")
	f.IntVar(&b.maxHeader, "max-header", 64<<10, "how many `bytes` the header of a request may have, 4096 to 1048576; a longer one gets 431")
	f.Int64Var(&b.maxBody, "max-body", unset, "how many `bytes` the body of a proxied request may have; a longer one gets 413 (default: any number)")
	f.DurationVar(&b.clientTimeout, "client-timeout", time.Minute, "how long a client may take for the next piece of its body to come, or of its answer to go")
}

// check says which bound is none.
func (p plan) checkBounds() error {
	for name, most := range boundFlags {
		flag := p.given.Lookup(name)
		if !flag.Changed {
			continue
		}
		least := int64(1)
		if name == "max-header" {
			least = leastHeader
		}
		if n, err := strconv.ParseInt(flag.Value.String(), 10, 64); err != nil || n < least || n > most {
			return config.Usagef("--%s %s: allowed is %d to %d", name, flag.Value, least, most)
		}
	}
	if p.maxPerClient != unset && p.trustedHops != unset && len(p.trusted) == 0 {
		return config.Usagef("--max-connections-per-client with --trusted-hops: whoever connects is a proxy: name them (--trusted-proxies), and clients are bounded")
	}
	return nil
}

// What is shed, and why.
const (
	shedConnections = "connections"            // there are as many as there may be
	shedPerClient   = "connections_per_client" // the client has as many as it may have
	shedRequests    = "requests"               // as many are under way as may be
	shedBody        = "body"                   // it is too long
	shedSlow        = "slow_client"            // it sent or took nothing
)

var shedReasons = []string{shedConnections, shedPerClient, shedRequests, shedBody, shedSlow}

// shedding counts what is shed, and logs it once an episode: what a flood causes must be no flood.
type shedding struct {
	counters map[string]prometheus.Counter
	last     map[string]*atomic.Int64 // in Unix nanoseconds
}

func newShedding(registry *prometheus.Registry) *shedding {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: shedTotal, Help: "What was turned away, cut off or refused by the bounds of this process, by reason.",
	}, []string{"reason"})
	registry.MustRegister(total)
	s := &shedding{map[string]prometheus.Counter{}, map[string]*atomic.Int64{}}
	for _, reason := range shedReasons {
		s.counters[reason], s.last[reason] = total.WithLabelValues(reason), new(atomic.Int64)
	}
	return s
}

// shedEpisode is how long nothing must be shed for a reason before it is logged again.
const shedEpisode = time.Minute

// count counts, and tells whether an episode begins.
func (s *shedding) count(reason string) (begins bool) {
	s.counters[reason].Inc()
	now := time.Now().UnixNano()
	last := s.last[reason].Swap(now)
	return last == 0 || now-last >= int64(shedEpisode)
}

var shedTold = map[string]string{
	shedConnections: "as many connections as may be are open: further ones are turned away (--max-connections)",
	shedPerClient:   "a client has as many connections as it may have: further ones are turned away (--max-connections-per-client)",
	shedRequests:    "as many requests as may be are under way: further ones get 503 (--max-requests)",
	shedBody:        "the body of a request is too long: it gets 413 (--max-body)",
	shedSlow:        "a client sends or takes nothing: it is cut off (--client-timeout)",
}

// shed counts what is turned away.
func (s *server) shed(reason string) {
	if s.metrics.shedding.count(reason) {
		s.log.Warn(shedTold[reason]+"; further ones are counted and not logged", "reason", reason)
	}
}

// measure has the numbers of what is taken on.
func (s *server) measure() {
	s.metrics.registry.MustRegister(
		gauge(openConnections, "Connections open now, but for those of --admin.", func() int { return int(s.connections.Load()) }),
		gauge(requestsNow, "Requests under way now, streams and WebSockets included.", func() int { return int(s.underWay.Load()) }),
	)
}

// retryAfter is when to come again after what was shed, in seconds.
const retryAfter = 1

// enter takes a request on, unless there are as many as may be. Who was let in has to leave.
func (s *server) enter() bool {
	if s.underWay.Add(1) <= int64(s.maxRequests) {
		return true
	}
	s.leave()
	s.shed(shedRequests)
	return false
}

func (s *server) leave() { s.underWay.Add(-1) }

// admit holds requests to --max-requests. There is no queue: whoever waits in one holds what there is too little of.
func (s *server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			closeAfter(w, r)
			refuse(w, r, http.StatusServiceUnavailable)
			return
		}
		defer s.leave()
		next.ServeHTTP(w, r)
	})
}

// admitCall is admit for gRPC. Health is always told.
func (s *server) admitCall(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if strings.HasPrefix(info.FullMethod, "/grpc.health.v1.Health/") {
		return handle(ctx, request)
	}
	if !s.enter() {
		return nil, status.Error(codes.Unavailable, "too many requests are under way")
	}
	defer s.leave()
	return handle(ctx, request)
}

// closeAfter ends the connection of a request whose body nobody will read, so that nobody waits for it either.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

// limitConnections puts the bounds on the connections of a door.
func (s *server) limitConnections(d *door, l net.Listener) net.Listener {
	b := &bounded{Listener: l, server: s, flag: d.flag, parting: make(chan struct{}, mostParting)}
	if d.flag != "rls-listen" && !s.isSecure(d.flag) {
		b.farewell = farewell
	}
	if s.maxPerClient != unset {
		b.byClient = map[netip.Prefix]int{}
	}
	return b
}

// connectsForOthers tells whether who connects is a proxy that is trusted to say for whom.
func (s *server) connectsForOthers(flag string, peer netip.Addr) bool {
	contains := func(network netip.Prefix) bool { return network.Contains(peer) }
	return slices.ContainsFunc(s.fronts, contains) || slices.Contains(s.proxyProtocol, flag) && slices.ContainsFunc(s.trusts, contains)
}

// parseProxies reads the networks of the proxies whose connections are not one client's.
func (s *server) parseProxies() error {
	for _, text := range trimmed(s.trusted) {
		network, err := httpgate.ParseTrusted(text)
		if err != nil {
			return inFlags(err)
		}
		s.fronts = append(s.fronts, network)
	}
	return nil
}
