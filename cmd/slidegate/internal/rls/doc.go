// Package rls is the rate limit service of Envoy, version 3, over any store: gRPC, and the JSON of the same over HTTP. It
// answers by the rules of package rules.
//
// What is counted is a sliding window for each descriptor that has a rule: no window of the rule's unit, wherever it begins,
// holds more than its requests, and every wait in an answer is how long it takes until the same request fits. Only what fits
// is counted. A descriptor that asks for more than there is room for is over its limit, and uses up what room there is,
// as its hits are counted in the original: so usage that is reported when it is over, as with tokens, leaves nothing behind.
//
//	New(store, set, options)      the service; Use and Load give it other rules while it runs
//	(*Service) Follow             loads the rules of a directory again when they change
//	(*Service) NewServer          gRPC, with health and reflection
//	(*Service) Handler            POST /json and GET /healthcheck
package rls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
)

// Options are the choices of a service. The zero value is what the original does.
type Options struct {
	// Algorithm of all limits: an exact log, unless said otherwise.
	Algorithm slidegate.Algorithm

	// Together admits a request only if every descriptor of it does, and else charges none. Unless said so each
	// descriptor is charged for itself, also when another is over its limit.
	Together bool

	// FailOpen answers OK, without a status to speak of, where the store cannot be asked. Unless said so the call fails with
	// UNAVAILABLE, and failure_mode_deny of Envoy says what becomes of the request.
	FailOpen bool

	// Shadow answers OK overall, whatever the statuses are.
	Shadow bool

	// Quota makes quota_mode of every rule.
	Quota bool

	// Headers are added to answers if they are not nil.
	Headers *Headers

	// Metadata adds dynamic metadata to answers.
	Metadata bool

	// Remote says that the store does I/O: the descriptors of a request are then asked for at the same time, which costs a
	// goroutine for each and saves a round trip for each.
	Remote bool

	// MergeDomains is for Load: several files may speak of one domain.
	MergeDomains bool

	// Metrics count if they are not nil.
	Metrics *Metrics

	// Asked is told what came of asking the store, unless it is nil: nil, or an error that wraps [slidegate.ErrUnavailable].
	// It is called for many requests at once, and each waits for it.
	Asked func(error)

	// Logger tells of rules that were loaded again or could not be; slog.Default unless said otherwise.
	Logger *slog.Logger
}

// A Service decides requests. It is safe for concurrent use, and needs no closing; its store may.
type Service struct {
	pb.UnimplementedRateLimitServiceServer
	Options
	store  slidegate.Store
	rules  atomic.Pointer[bound] // nil until there are some
	limits limits
	health *health.Server

	reload sync.Mutex
	tried  digest // of what was last loaded, or could not be

	draining context.Context
	drain    context.CancelFunc
}

// A bound is a set of rules with their limiters.
type bound struct {
	set      *rules.Set
	limits   []*pb.RateLimitResponse_RateLimit // by Rule.ID; answers share them
	limiters []*limiter                        // by Rule.ID, nil for rules that nothing fits or all
	groups   groups
}

// New returns a service. Without a set, nil, it answers nothing until [Service.Use] or [Service.Load] gives it one.
func New(store slidegate.Store, set *rules.Set, o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{Options: o, store: store, health: health.NewServer()}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.limits = limits{store: store, algorithm: o.Algorithm, all: map[slidegate.Limit]*limiter{}, windows: map[time.Duration]bool{}}
	s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	if set == nil {
		return s, nil
	}
	return s, s.Use(set)
}

// Use decides by a set from then on; requests under way end by the rules they began with. What has been counted stays, for
// a counter is found by the domain, the keys and values of its descriptor and the length of its unit, and not by its
// rule: one whose number changes goes on with what it has.
func (s *Service) Use(set *rules.Set) error {
	b := &bound{set: set, limits: make([]*pb.RateLimitResponse_RateLimit, len(set.Rules)), limiters: make([]*limiter, len(set.Rules))}
	same := map[slidegate.Limit]*limiter{}
	for _, rule := range set.Rules {
		b.limits[rule.ID] = &pb.RateLimitResponse_RateLimit{Name: rule.Name, RequestsPerUnit: rule.Requests, Unit: units[rule.Unit]}
		if rule.Unlimited || rule.Requests == 0 {
			continue
		}
		limit := newLimit(rule.StateName, rule.Requests, rule.Unit.Length(), s.Algorithm)
		if same[limit] == nil {
			l, err := bind(s.store, limit)
			if err != nil {
				return fmt.Errorf("%s: %w", rule.Place, err)
			}
			same[limit] = l
		}
		b.limiters[rule.ID] = same[limit]
	}
	s.rules.Store(b)
	s.setHealth(healthpb.HealthCheckResponse_SERVING)
	return nil
}

// Rules returns the set in force, nil where there is none yet.
func (s *Service) Rules() *rules.Set {
	if b := s.rules.Load(); b != nil {
		return b.set
	}
	return nil
}

// Drain says NOT_SERVING to health checks from then on, and ends the streams of those who watch: a server that waits for all
// that is under way would wait for as long as they like. Requests are still answered.
func (s *Service) Drain() {
	s.health.Shutdown()
	s.drain()
}

func (s *Service) setHealth(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", "ratelimit", pb.RateLimitService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, status)
	}
}

var errNoRules = errors.New("no rate limit configuration loaded")
