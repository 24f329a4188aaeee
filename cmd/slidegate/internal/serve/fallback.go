package serve

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/wrap"
)

// A share is what a process decides by while Redis is away; the zero share is none at all.
type share struct{ numerator, denominator int }

// perReplica is the share of a process among those that live, which is not known before it is needed.
const perReplica = -1

func (s share) isNone() bool     { return s.denominator == 0 }
func (s share) isReplicas() bool { return s.denominator == perReplica }

// mostShares is the largest number below the line of a share, as [wrap.WithShare] has it.
const mostShares = 1_000_000

// parseShare reads what --fallback says.
func parseShare(text string) (share, error) {
	switch text {
	case "none":
		return share{}, nil
	case "replicas":
		return share{1, perReplica}, nil
	}
	above, below, _ := strings.Cut(text, "/")
	n, errAbove := strconv.Atoi(above)
	d, errBelow := strconv.Atoi(below)
	if errAbove != nil || errBelow != nil || n < 1 || d < n || d > mostShares {
		return share{}, config.Usagef("--fallback %q: allowed is none, replicas, or a share of 1/1000000 to 1/1, such as 1/4", text)
	}
	return share{n, d}, nil
}

// checkStaying looks at what is said of a Redis that is away, and of what is not asked of it.
func (p *plan) checkStaying() (err error) {
	if p.storage.IsMemory() {
		return config.RefuseFlags(p.given, "it is about Redis, and --store is memory", "fallback", "remember-refusals", "remember-refusals-max")
	}
	if p.share, err = parseShare(p.fallback); err != nil {
		return err
	}
	if d := p.rememberRefusals; d != 0 && (d < time.Millisecond || d > time.Minute) {
		return config.Usagef("--remember-refusals %s: allowed is 0s for not at all, or 1ms to 1m", d)
	}
	if p.rememberRefusals == 0 {
		return config.RefuseFlags(p.given, "it is about --remember-refusals, which is not given", "remember-refusals-max")
	}
	if n := p.refusalsMax; n < leastRefusals || n > mostRefusals {
		return config.Usagef("--remember-refusals-max %d: allowed is %d to %d", n, leastRefusals, mostRefusals)
	}
	return nil
}

// How many refusals may be remembered, as [wrap.WithMaxDenials] has it.
const (
	leastRefusals = 8
	mostRefusals  = 1 << 24
)

// remember puts what remembers refusals in front of Redis, if it is to be.
func (s *server) remember(b *backend) {
	if s.rememberRefusals == 0 {
		return
	}
	denials := wrap.Denials(b.store, wrap.WithCap(s.rememberRefusals), wrap.WithMaxDenials(s.refusalsMax))
	b.store = denials
	b.facts = append(b.facts, fact{"refusals", fmt.Sprintf("remembered for up to %s: what another process resets or gives back is seen that much later", s.rememberRefusals)})
	b.collectors = append(b.collectors, denialMetrics(denials)...)
}

// fallBack puts the memory of this process behind Redis, if it is to decide while that is away.
func (s *server) fallBack(b *backend) {
	if s.share.isNone() {
		return
	}
	memory, _ := s.newMemory()
	by := wrap.WithShare(s.share.numerator, s.share.denominator)
	about := fmt.Sprintf("%d/%d of each quota", s.share.numerator, s.share.denominator)
	if s.share.isReplicas() {
		by = wrap.WithReplicas(b.replicas.Live)
		about = "an equal share of each quota for each process that lives, by what Redis last said, or all of it if it never did"
	}
	fallback := wrap.Fallback(b.store, memory, by)
	b.store, b.fallback = fallback, fallback
	closeRedis := b.close
	b.close = func() {
		closeRedis()
		_ = memory.Close()
	}
	b.facts = append(b.facts, fact{"fallback", "while Redis is away this process decides by " + about + "; what it admits is charged in Redis afterwards"})
	b.collectors = append(b.collectors, s.fallbackMetrics(b)...)
	b.collectors = append(b.collectors, memoryMetrics(memory, s.maxKeys)...)
}

// beat has this process counted until the returned function is called, which waits until it is off the count.
func (s *server) beat(ctx context.Context) (leave func()) {
	if s.backend.replicas == nil {
		return func() {}
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // it is one of those that decide until it has drained
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.backend.replicas.Run(ctx)
	}()
	return func() {
		end()
		<-left
	}
}
