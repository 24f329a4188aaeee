package serve

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/wrap"
)

// A backend is where the state is: in memory, or in Redis behind a circuit.
type backend struct {
	slidegate.Store
	about      string // what the start says of it
	isRemote   bool   // it may be away
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
	if err := config.RefuseFlags(s.given, "it is about the memory store, and --store is Redis, which bounds itself (see maxmemory)", "max-keys", "when-full"); err != nil {
		return nil, err
	}
	if warning := r.Warning(); warning != "" {
		s.log.Warn(warning)
	}
	return s.inRedis(r), nil
}

func (s *server) inMemory() *backend {
	options := []memstore.Option{memstore.WithMaxKeys(s.maxKeys), memstore.WithLogger(s.log)}
	full := "the one idle soonest is forgotten"
	if s.whenFull == "refuse" {
		options = append(options, memstore.RefuseNewKeys())
		full = "new ones cannot be decided"
	}
	store := memstore.New(options...)
	return &backend{
		Store:      store,
		about:      fmt.Sprintf("memory of this process: a restart begins with full quotas; beyond %d keys %s", s.maxKeys, full),
		collectors: memoryMetrics(store, s.maxKeys),
		close:      func() { _ = store.Close() },
	}
}

// inRedis leaves it to the gate to tell of an outage, since the gate also knows what becomes of requests: the store and
// the circuit would tell of the same one.
func (s *server) inRedis(r *storage.Redis) *backend {
	client := r.Client()
	store := redisstore.New(client, append(r.Options(), redisstore.WithLogger(s.log), redisstore.WithoutOutages())...)
	circuit := wrap.Circuit(store, wrap.Ignore(redisstore.ErrNewerFormat))
	return &backend{
		Store:      circuit,
		about:      fmt.Sprintf("%s, keys %s:{…}: shared by all who use it; it has %s for an answer, and is asked once a second while it gives none", r.Address, r.Prefix, r.Timeout),
		isRemote:   true,
		collectors: redisMetrics(store, circuit),
		close:      client.Close,
	}
}

// lookFirst says so if the store is not there at the start, before a request finds out.
func (s *server) lookFirst(ctx context.Context) {
	if err := s.look(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("the store does not answer yet", "error", err)
	}
}

// look asks a remote store how nobody stands, which charges nothing: is it there?
func (s *server) look(ctx context.Context) error {
	if !s.backend.isRemote {
		return nil
	}
	_, err := s.limiter.Peek(ctx, "nobody")
	return err
}
