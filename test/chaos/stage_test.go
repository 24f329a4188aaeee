package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/servetest"
	"github.com/slidegate/slidegate/wrap"
)

const (
	timeout = 250 * time.Millisecond // of every store here
	slack   = 3 * time.Second        // for a busy machine
	backIn  = 2 * time.Second        // a store that is back is used again

	quota  = 60
	window = 2 * time.Second
	share  = quota / 4 // of each that has a fallback
	shares = 2 * share // of all of them
)

// A stage is all that a fault meets: a Redis, three processes of the command that let pass, turn away, and decide by a
// share where Redis cannot be asked, two limiters in a program, and who asks them all.
type stage struct {
	t testing.TB

	server  *redistest.Server // who is asked now
	proxy   *redistest.Proxy  // between it and who asks; nil with sentinels and in a cluster
	pair    *redistest.ReplicatedPair
	watched *redistest.Watched
	cluster *redistest.RedisCluster

	open, closed, sharing *servetest.Replica
	replicas              []*servetest.Replica // all of them
	fallback              *wrap.FallbackStore
	circuits              []*wrap.CircuitStore // of the limiters in this program
	stores                []*redisstore.Store
	upstream              *upstream
	voices                []*voice
	crowd, rules          *budget

	hush func() // ends what the voices say, and waits for it
}

func newStage(t testing.TB, redis func(*stage)) *stage {
	t.Helper()
	s := &stage{
		t:     t,
		crowd: &budget{"crowd", quota, window},
		rules: &budget{"rules", 10, time.Second},
		hush:  func() {},
	}
	t.Cleanup(func() { s.hush() })
	redis(s)
	s.upstream = newUpstream(t)
	s.newReplicas()
	s.newLimiters()
	return s
}

// newReplicas starts the command with every door that speaks HTTP, once for each policy.
func (s *stage) newReplicas() {
	rules := s.t.(*testing.T).TempDir()
	text := fmt.Sprintf("domain: chaos\ndescriptors:\n  - key: client\n    rate_limit: {unit: second, requests_per_unit: %d}\n", s.rules.quota)
	if err := os.WriteFile(filepath.Join(rules, "chaos.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := func(more ...string) []string {
		return append(more, "--listen", "127.0.0.1:0", "--upstream", s.upstream.URL, "--key", "header:X-Client",
			"--limit", s.limit().String(), "--store", s.url(), "--store-timeout", timeout.String(),
			"--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--api-listen", "127.0.0.1:0",
			"--rls-http-listen", "127.0.0.1:0", "--rls-config", rules)
	}
	s.open = servetest.Start(s.t, binary, "open", args("--on-store-error", "open", "--client", "rueidis")...)
	s.closed = servetest.Start(s.t, binary, "closed", args("--on-store-error", "closed", "--client", "goredis")...)
	s.sharing = servetest.Start(s.t, binary, "sharing", args("--fallback", "1/4", "--remember-refusals", "1s")...)
	s.replicas = []*servetest.Replica{s.open, s.closed, s.sharing}
	s.add(&voice{name: "open proxy", at: s.open, undecided: passed, budget: s.crowd}, toProxy)
	s.add(&voice{name: "open auth", at: s.open, undecided: passed, budget: s.crowd}, toAuth)
	s.add(&voice{name: "rls", at: s.open, undecided: turnedAway, budget: s.rules}, toRLS)
	s.add(&voice{name: "closed proxy", at: s.closed, undecided: turnedAway, budget: s.crowd}, toProxy)
	s.add(&voice{name: "closed auth", at: s.closed, undecided: turnedAway, budget: s.crowd}, toAuth)
	s.add(&voice{name: "api", at: s.closed, undecided: turnedAway, budget: s.crowd}, toAPI)
	s.add(&voice{name: "sharing proxy", at: s.sharing, undecided: admitted, budget: s.crowd, isBackup: true}, toProxy)
	s.add(&voice{name: "sharing api", at: s.sharing, undecided: admitted, budget: s.crowd, isBackup: true}, toAPI)
}

func (s *stage) add(v *voice, q question) {
	client := &http.Client{Timeout: servetest.Patience, Transport: &http.Transport{}}
	s.t.Cleanup(client.CloseIdleConnections)
	v.ask = q.at(v.at, client)
	s.voices = append(s.voices, v)
}

// newLimiters makes those of a program: one behind a circuit, and one with all that there is.
func (s *stage) newLimiters() {
	circuit := s.newCircuit(s.goredis())
	s.voices = append(s.voices, &voice{
		name: "circuit", undecided: turnedAway, budget: s.crowd, ask: ofLimiter(slidegate.MustNew(circuit, s.limit())),
	})
	memory := memstore.New()
	s.t.Cleanup(func() { _ = memory.Close() })
	s.fallback = wrap.Fallback(wrap.Denials(s.newCircuit(s.rueidis())), memory, wrap.WithShare(share, quota))
	s.voices = append(s.voices, &voice{
		name: "fallback", undecided: admitted, budget: s.crowd, isBackup: true, ask: ofLimiter(slidegate.MustNew(s.fallback, s.limit())),
	})
}

func (s *stage) newCircuit(client redisstore.Client) *wrap.CircuitStore {
	store := redisstore.New(client, redisstore.WithTimeout(timeout))
	circuit := wrap.Circuit(store, wrap.Ignore(redisstore.ErrNewerFormat))
	s.stores, s.circuits = append(s.stores, store), append(s.circuits, circuit)
	return circuit
}

func (s *stage) limit() slidegate.Limit { return slidegate.Per(window, quota).Named(s.crowd.name) }

// url is how the command finds Redis.
func (s *stage) url() string {
	if s.watched != nil {
		return "redis+sentinel://" + s.watched.Sentinel.Addr + "/" + s.watched.Name
	}
	if s.cluster != nil {
		return "redis+cluster://" + strings.Join(s.cluster.Addrs(), ",")
	}
	return "redis://" + s.proxy.Addr + "/0"
}

// addrs is how a program finds Redis, and master what sentinels know it by.
func (s *stage) addrs() (addrs []string, master string) {
	switch {
	case s.watched != nil:
		return []string{s.watched.Sentinel.Addr}, s.watched.Name
	case s.cluster != nil:
		return s.cluster.Addrs(), ""
	}
	return []string{s.proxy.Addr}, ""
}

func (s *stage) goredis() redisstore.Client {
	options := &goredis.UniversalOptions{ContextTimeoutEnabled: true, IsClusterMode: s.cluster != nil}
	options.Addrs, options.MasterName = s.addrs()
	client := goredis.NewUniversalClient(options)
	s.t.Cleanup(func() { client.Close() })
	return goredisstore.New(client)
}

func (s *stage) rueidis() redisstore.Client {
	option := rueidis.ClientOption{DisableCache: true, ForceSingleClient: s.proxy != nil}
	option.InitAddress, option.Sentinel.MasterSet = s.addrs()
	client := rueidisstore.Lazy(option)
	s.t.Cleanup(client.Close)
	return client
}

// speak lets all voices ask until hush.
func (s *stage) speak() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, v := range s.voices {
		all.Go(func() { v.speak(ctx) })
	}
	s.hush = func() {
		cancel()
		all.Wait()
	}
}

// An upstream is the service that is protected. It answers at once, but what is asked at /slow when that is let go.
type upstream struct {
	*httptest.Server
	slow  chan struct{} // one for each request that is under way at /slow
	letGo func()        // lets them end

	served atomic.Int64 // that somebody sent
}

func newUpstream(t testing.TB) *upstream {
	mayEnd := make(chan struct{})
	u := &upstream{slow: make(chan struct{}, 1), letGo: sync.OnceFunc(func() { close(mayEnd) })}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			u.slow <- struct{}{}
			<-mayEnd
		}
		if r.Header.Get("X-Client") == who {
			u.served.Add(1)
		}
	}))
	t.Cleanup(u.Close)
	t.Cleanup(u.letGo)
	return u
}

// A state is what a process, or a Redis, holds on to while nobody asks.
type state struct {
	name  string
	value float64
	more  float64 // that it may be after a fault
}

// states measures what could leak. It is called while nobody asks.
func (s *stage) states() (all []state) {
	for _, r := range s.replicas {
		m := r.Metrics()
		all = append(all,
			state{r.Name + ": goroutines", m["go_goroutines"], 10},
			state{r.Name + ": file descriptors", m["process_open_fds"], 10},
			state{r.Name + ": bytes", m["process_resident_memory_bytes"], grown},
			state{r.Name + ": calls overdue", m["slidegate_redis_overdue"], 0},
		)
	}
	for i, store := range s.stores {
		all = append(all, state{fmt.Sprintf("limiter %d: calls overdue", i), float64(store.Stats().Overdue), 0})
	}
	var clients float64
	_, err := fmt.Sscan(s.server.Info("clients")["connected_clients"], &clients)
	if err != nil {
		s.t.Fatal(err)
	}
	return append(all, state{"connections to Redis", clients, 10})
}

// awaitStates fails the test if more is held on to than before.
func (s *stage) awaitStates(before []state) {
	s.t.Helper()
	var over []string
	isBack := func() bool {
		over = nil
		for i, now := range s.states() {
			if now.value > before[i].value+before[i].more {
				over = append(over, fmt.Sprintf("%s: %.0f, and %.0f before", now.name, now.value, before[i].value))
			}
		}
		return len(over) == 0
	}
	defer func() {
		if s.t.Failed() && len(over) > 0 {
			s.t.Logf("held on to:\n%s", strings.Join(over, "\n"))
		}
	}()
	redistest.Await(s.t, servetest.Patience, "what a fault took is given back", isBack)
}
