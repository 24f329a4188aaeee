package caddygate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/wrap"
)

func init() { caddy.RegisterModule(App{}) }

const appName = "slidegate"

// App is what the handlers of one configuration have in common: the stores of its zones, and the metrics. It has
// no settings; Caddy makes it where a handler needs it.
type App struct {
	logger  *slog.Logger
	metrics *metrics
	zones   map[string]zone
	held    []any // keys of pool, once for each use
	kept    []*memory
}

// A zone is a name and the store behind it.
type zone struct {
	settings Store
	store    slidegate.Store
}

// pool holds what outlives a configuration: the memory of a zone, and the client of a Redis. Caddy
// provisions a configuration before it lets go of the one before, so what both use is never closed.
var pool = caddy.NewUsagePool()

// CaddyModule implements [caddy.Module].
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: appName, New: func() caddy.Module { return new(App) }}
}

// Provision implements [caddy.Provisioner].
func (a *App) Provision(ctx caddy.Context) (err error) {
	a.logger = ctx.Slogger()
	a.zones = make(map[string]zone)
	a.metrics, err = newMetrics(ctx.GetMetricsRegistry())
	return err
}

// Start implements [caddy.App]. From here on this configuration is the one whose logs are open.
func (a *App) Start() error {
	for _, m := range a.kept {
		m.relay.to.Store(a.logger)
	}
	return nil
}

// Stop implements [caddy.App].
func (a *App) Stop() error { return nil }

// Cleanup implements [caddy.CleanerUpper]: it lets go of the stores.
func (a *App) Cleanup() (err error) {
	for _, key := range a.held {
		_, failed := pool.Delete(key)
		err = errors.Join(err, failed)
	}
	return err
}

// open returns the store of a zone, the same for every handler of a configuration.
func (a *App) open(name string, s *Store) (slidegate.Store, error) {
	settings, err := s.resolve()
	if err != nil {
		return nil, err
	}
	if z, ok := a.zones[name]; ok {
		if z.settings != settings {
			return nil, fmt.Errorf("zone %q: two of its handlers have stores with other settings: a zone has one store; other zones may have others", name)
		}
		return z.store, nil
	}
	store := a.memory
	if settings.isRedis() {
		store = a.redis
	}
	z := zone{settings: settings}
	if z.store, err = store(name, settings); err == nil {
		a.zones[name] = z
	}
	return z.store, err
}

// A memory is a memory store in the pool.
type memory struct {
	*memstore.Store
	relay *relay
}

// Destruct implements [caddy.Destructor].
func (m *memory) Destruct() error { return m.Close() }

// memoryKey is what a memory is found by. Each zone has its own, so one cannot crowd out another.
type memoryKey struct {
	zone    string
	maxKeys int
}

func (a *App) memory(name string, s Store) (slidegate.Store, error) {
	key := memoryKey{name, s.MaxKeys}
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		r := new(relay)
		r.to.Store(a.logger)
		return &memory{memstore.New(memstore.WithMaxKeys(s.MaxKeys), memstore.WithLogger(slog.New(r))), r}, nil
	})
	if err != nil {
		return nil, err
	}
	m := value.(*memory)
	a.held, a.kept = append(a.held, key), append(a.kept, m)
	return m.Store, nil
}

// A client is a Redis client in the pool. It connects when it is first asked.
type client struct{ *rueidis.LazyClient }

// Destruct implements [caddy.Destructor].
func (c client) Destruct() error {
	c.Close()
	return nil
}

// redis returns the store of a zone in Redis. Its state is there, so the store itself is made anew for each
// configuration. It has a logger and the circuit none: both would tell of the same outage.
func (a *App) redis(name string, s Store) (slidegate.Store, error) {
	option, err := s.client()
	if err != nil {
		return nil, err
	}
	prefix := s.Prefix
	if name != "" {
		prefix += ":" + name
	}
	s.Prefix = ""
	value, _, err := pool.LoadOrNew(s, func() (caddy.Destructor, error) {
		return client{rueidis.Lazy(option)}, nil
	})
	if err != nil {
		return nil, err
	}
	a.held = append(a.held, s)
	store := redisstore.New(value.(client).LazyClient,
		redisstore.WithPrefix(prefix), redisstore.WithTimeout(time.Duration(s.Timeout)), redisstore.WithLogger(a.logger))
	return wrap.Circuit(store, wrap.Ignore(redisstore.ErrNewerFormat)), nil
}

// A relay hands log lines of what outlives a configuration to the logger of the one that is in force.
type relay struct{ to atomic.Pointer[slog.Logger] }

func (r *relay) Enabled(ctx context.Context, level slog.Level) bool {
	return r.to.Load().Enabled(ctx, level)
}

func (r *relay) Handle(ctx context.Context, record slog.Record) error {
	return r.to.Load().Handler().Handle(ctx, record)
}

// WithAttrs and WithGroup are for loggers made of this one, of which the memory store makes none.
func (r *relay) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *relay) WithGroup(string) slog.Handler { return r }
