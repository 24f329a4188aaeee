package rls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
)

// mostDescriptors is how many a request may have.
const mostDescriptors = 1000

// ShouldRateLimit implements the service. The error is INVALID_ARGUMENT for a request that cannot be decided as it is, and
// UNAVAILABLE where there are no rules yet or the store cannot be asked.
func (s *Service) ShouldRateLimit(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	began := time.Now()
	answer, err := s.answer(ctx, r)
	s.Metrics.request(answer, err, time.Since(began))
	return answer, err
}

func (s *Service) answer(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	switch {
	case r.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(r.GetDescriptors()) == 0:
		return nil, status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(r.GetDescriptors()) > mostDescriptors:
		return nil, status.Errorf(codes.InvalidArgument, "%d descriptors: allowed are 1 to %d", len(r.GetDescriptors()), mostDescriptors)
	}
	b := s.rules.Load()
	if b == nil {
		return nil, status.Error(codes.Unavailable, errNoRules.Error())
	}
	asks, err := s.asks(b, r)
	if err != nil {
		return nil, err
	}
	admitted, err := s.ask(ctx, b, asks)
	s.tell(asks, err)
	if err != nil {
		return s.unavailable(asks, err)
	}
	s.Metrics.decided(r.GetDomain(), asks)
	if !admitted && s.Shadow {
		s.Metrics.overrule()
	}
	return s.respond(r, asks, admitted || s.Shadow), nil
}

func (s *Service) ask(ctx context.Context, b *bound, asks []ask) (bool, error) {
	if s.Together {
		return s.decideTogether(ctx, b, asks)
	}
	return s.decide(ctx, asks)
}

// tell tells what came of asking the store, if it was asked.
func (s *Service) tell(asks []ask, err error) {
	if s.Asked == nil || err != nil && !errors.Is(err, slidegate.ErrUnavailable) {
		return
	}
	for i := range asks {
		if asks[i].limiter != nil {
			s.Asked(err)
			return
		}
	}
}

// unavailable answers for a store that could not be asked. A caller who has gone gets the error of that.
func (s *Service) unavailable(asks []ask, err error) (*pb.RateLimitResponse, error) {
	s.Metrics.storeError(err)
	switch {
	case errors.Is(err, slidegate.ErrUnavailable) && s.FailOpen:
		return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: unlimitedStatuses(len(asks))}, nil
	case errors.Is(err, slidegate.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, "the store of the rate limits does not answer")
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return nil, status.FromContextError(err).Err()
	}
	return nil, status.Error(codes.Internal, "the rate limits cannot be decided")
}

// asks finds the rules of the descriptors, without those that others replace.
func (s *Service) asks(b *bound, r *pb.RateLimitRequest) ([]ask, error) {
	asks := make([]ask, len(r.GetDescriptors()))
	replaced := false
	for i, d := range r.GetDescriptors() {
		a := &asks[i]
		a.Match = b.set.Match(r.GetDomain(), d)
		a.hits, a.negative = hitsOf(d, r.GetHitsAddend()), d.GetIsNegativeHits()
		if err := s.limit(b, a, d); err != nil {
			return nil, err
		}
		replaced = replaced || a.Rule != nil && len(a.Rule.Replaces) > 0
	}
	if !b.set.Has(r.GetDomain()) {
		s.Metrics.unknownDomain()
	}
	if replaced {
		replace(asks)
	}
	return asks, nil
}

// hitsOf returns what a descriptor spends: its own addend, else that of the request, else 1.
func hitsOf(d *ratelimitv3.RateLimitDescriptor, ofRequest uint32) int64 {
	switch {
	case d.GetHitsAddend() != nil:
		return int64(min(d.GetHitsAddend().GetValue(), math.MaxInt64))
	case ofRequest > 0:
		return int64(ofRequest)
	}
	return 1
}

// units are those of rules as answers have them.
var units = map[rules.Unit]pb.RateLimitResponse_RateLimit_Unit{
	rules.Second: pb.RateLimitResponse_RateLimit_SECOND, rules.Minute: pb.RateLimitResponse_RateLimit_MINUTE,
	rules.Hour: pb.RateLimitResponse_RateLimit_HOUR, rules.Day: pb.RateLimitResponse_RateLimit_DAY,
	rules.Week: pb.RateLimitResponse_RateLimit_WEEK, rules.Month: pb.RateLimitResponse_RateLimit_MONTH,
	rules.Year: pb.RateLimitResponse_RateLimit_YEAR,
}

// overrides are the units of limits that come with requests.
var overrides = map[typev3.RateLimitUnit]rules.Unit{
	typev3.RateLimitUnit_SECOND: rules.Second, typev3.RateLimitUnit_MINUTE: rules.Minute, typev3.RateLimitUnit_HOUR: rules.Hour,
	typev3.RateLimitUnit_DAY: rules.Day, typev3.RateLimitUnit_MONTH: rules.Month, typev3.RateLimitUnit_YEAR: rules.Year,
}

// limit gives an ask its limit: that of the request, or of the rule that matches.
func (s *Service) limit(b *bound, a *ask, d *ratelimitv3.RateLimitDescriptor) error {
	if rule := a.Rule; rule != nil && !rule.Unlimited {
		a.limit, a.limiter, a.window = b.limits[rule.ID], b.limiters[rule.ID], rule.Unit.Length()
		a.shadow, a.quota = rule.Shadow, rule.Quota || s.Quota
	}
	o := d.GetLimit()
	if o == nil || a.Key == "" {
		return nil
	}
	unit, multiplier := overrides[o.GetUnit()], uint32(1)
	if m := o.GetUnitMultiplier(); m != nil {
		multiplier = m.GetValue()
	}
	if unit == 0 {
		return status.Errorf(codes.InvalidArgument, "the unit %s of a limit: allowed is SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.GetUnit())
	}
	if multiplier == 0 || time.Duration(multiplier) > slidegate.MaxWindow/unit.Length() {
		return status.Errorf(codes.InvalidArgument, "the unit_multiplier %d of a limit in units of a %s: allowed is 1 to %d", multiplier, unit, slidegate.MaxWindow/unit.Length())
	}
	a.window = unit.Length() * time.Duration(multiplier)
	a.limit = &pb.RateLimitResponse_RateLimit{RequestsPerUnit: o.GetRequestsPerUnit(), Unit: units[unit], UnitMultiplier: o.GetUnitMultiplier()}
	if o.GetRequestsPerUnit() == 0 {
		return nil
	}
	var err error
	if a.limiter, err = s.limits.get(a.StateName, o.GetRequestsPerUnit(), a.window); err != nil {
		return status.Error(codes.InvalidArgument, fmt.Sprintf("a limit of a request: %v", err))
	}
	return nil
}

// replace drops the limits whose name another rule of the request replaces.
func replace(asks []ask) {
	gone := map[string]bool{}
	for i := range asks {
		if asks[i].Rule != nil {
			for _, name := range asks[i].Rule.Replaces {
				gone[name] = true
			}
		}
	}
	for i := range asks {
		if a := &asks[i]; a.Rule != nil && gone[a.Rule.Name] {
			*a = ask{}
		}
	}
}
