package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/wrap"
)

// A backend is where the state is: in memory, or in Redis behind a circuit and a deadline, with what remembers refusals before
// that and what decides while Redis is away around it.
type backend struct {
	store      slidegate.Store     // what everything asks. Not embedded, which would hide what else it can, such as several keys at once
	remote     slidegate.Store     // Redis behind its circuit, nil for memory: it may be away
	fallback   *wrap.FallbackStore // nil for none
	replicas   *wrap.Replicas      // nil where no share goes by them
	about      string              // what the start says of it
	facts      []fact              // and of what is around it
	inner      slidegate.Store     // what all else is around: it can list charges
	shared     *bans.Shared        // of the processes over it; nil for a store of this process alone
	collectors []prometheus.Collector
	close      func()
}

// newBackend makes the store that the flags say. It does not connect.
func (s *server) newBackend() (*backend, error) {
	r, err := s.storage.Redis()
	if err != nil {
		return nil, err
	}
	if r == nil {
		return s.inMemory(), nil
	}
	if s.share.isNone() {
		if err := config.RefuseFlags(s.given, "it is about the memory store, and --store is Redis, which bounds itself (see maxmemory)", "max-keys", "when-full"); err != nil {
			return nil, err
		}
	}
	if warning := r.Warning(); warning != "" {
		s.log.Warn(warning)
	}
	return s.inRedis(r)
}

// newMemory makes a memory store, and says what becomes of new keys when it is full.
func (s *server) newMemory() (store *memstore.Store, full string) {
	options := []memstore.Option{memstore.WithMaxKeys(s.maxKeys), memstore.WithLogger(s.log)}
	full = "the one idle soonest is forgotten"
	if s.whenFull == "refuse" {
		options = append(options, memstore.RefuseNewKeys())
		full = "new ones cannot be decided"
	}
	return memstore.New(options...), full
}

func (s *server) inMemory() *backend {
	store, full := s.newMemory()
	return &backend{
		store:      store,
		inner:      store,
		about:      fmt.Sprintf("memory of this process: a restart begins with full quotas; beyond %d keys %s", s.maxKeys, full),
		collectors: memoryMetrics(store, s.maxKeys),
		close:      func() { _ = store.Close() },
	}
}

// inRedis leaves it to asked to tell of an outage, which also knows what becomes of requests: the store, the circuit and
// the gates would tell of the same one.
func (s *server) inRedis(r *storage.Redis) (*backend, error) {
	client := r.Client()
	store := redisstore.New(client, append(r.Options(), redisstore.WithLogger(s.log), redisstore.WithoutOutages())...)
	circuit := wrap.Circuit(store, wrap.Ignore(redisstore.ErrNewerFormat))
	b := &backend{
		store:      wrap.Observe(wrap.Deadline(circuit, r.Timeout), func(e wrap.Event) { s.asked(e.Err) }),
		remote:     circuit,
		about:      fmt.Sprintf("%s, keys %s:{…}: shared by all who use it; it has %s for all that a request asks it, and is asked once a second while it gives no answer", r.Address, r.Prefix, r.Timeout),
		inner:      store,
		shared:     bans.NewShared(client, r.Prefix, max(r.Timeout, time.Second)),
		collectors: redisMetrics(store, circuit),
		close:      client.Close,
	}
	s.remember(b)
	if s.share.isReplicas() {
		var err error
		if b.replicas, err = wrap.CountReplicas(circuit); err != nil {
			return nil, err
		}
	}
	s.fallBack(b)
	return b, nil
}

// bound has all that a request asks of Redis take no longer together than one call may, where it may ask more than once: for
// several rules, or to charge there what a share has admitted.
func (s *server) bound(gate func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if s.backend.remote == nil || s.live == nil && s.backend.fallback == nil {
		return gate
	}
	return func(next http.Handler) http.Handler { return asOneRequest(gate(next)) }
}

func asOneRequest(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(wrap.Request(r.Context())))
	})
}

// asked tells of an outage of the store once, whichever door and rule meets it first.
func (s *server) asked(err error) {
	switch {
	case err == nil && s.away.recovered():
		s.log.Info("requests are decided again as they were before")
	case errors.Is(err, slidegate.ErrUnavailable) && s.away.failed():
		s.log.Error("the store cannot be asked: "+s.meanwhile(), "error", err)
	}
}

// observed looks at a decision of a gate for what came of asking. Of Redis that is known already.
func (s *server) observed(e *httpgate.Event) {
	if s.backend.remote == nil && !e.After {
		s.asked(e.Err)
	}
}

// meanwhile is what becomes of requests while the store cannot be asked.
func (s *server) meanwhile() string {
	if s.backend.fallback != nil {
		return "this process decides by its share of each quota"
	}
	var all []string
	if s.gatesRequests() {
		what := map[string]string{"open": "requests pass", "closed": "requests get 503"}[s.policy()]
		if s.live != nil {
			what += ", unless their rules say otherwise"
		}
		all = append(all, what)
	}
	if s.apiListen != "" {
		all = append(all, "who asks in JSON gets 503")
	}
	if s.hasRLS() {
		all = append(all, "calls of the rate limit service get UNAVAILABLE")
	}
	return strings.Join(all, "; ")
}

// newProbe makes what a remote store is asked by whether it is there.
func (s *server) newProbe() (err error) {
	if s.backend.remote != nil {
		s.probe, err = slidegate.New(s.backend.remote, slidegate.PerSecond(1).Named("probe"))
	}
	return err
}

// look asks a remote store how nobody stands, which charges nothing: is it there?
func (s *server) look(ctx context.Context) error {
	if s.probe == nil {
		return nil
	}
	_, err := s.probe.Peek(ctx, "nobody")
	return err
}
