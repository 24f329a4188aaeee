package soak

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	window  = 2 * time.Second        // of most limits
)

// A stage is all that takes part: a Redis, three processes of the command over it and one that has its state in memory,
// limiters in this program, and who asks them all.
type stage struct {
	t    *testing.T
	wide time.Duration // the longest window

	server *redistest.Server
	proxy  *redistest.Proxy // between it and who asks

	rules                        rules
	rulesPath                    string
	open, closed, sharing, alone *servetest.Replica
	replicas                     []*servetest.Replica
	client                       *http.Client
	upstream                     *httptest.Server

	memory, backup *memstore.Store
	fallback       *wrap.FallbackStore

	ledgers  []*ledger
	onRedis  []*ledger // of these, those of Redis
	ofShares []*ledger // of these, those of the process that has a share
	inAlone  []*ledger // those of the process that has its state in memory
	callers  []*caller
	history  *history
	tally    tally

	hush func() // ends what the callers say, and waits for it
}

func newStage(t *testing.T, wide time.Duration) *stage {
	t.Helper()
	s := &stage{t: t, wide: wide, history: newHistory(t), client: newClient(), hush: func() {}}
	t.Cleanup(func() { s.hush() })
	t.Cleanup(s.client.CloseIdleConnections)
	s.server = redistest.Standalone(t, redistest.With("maxmemory-policy", "noeviction"))
	s.proxy = redistest.NewProxy(t, s.server.Addr)
	s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/unknown") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.upstream.Close)
	s.newReplicas()
	s.newLimiters()
	return s
}

// A rules is what the file of rules says.
type rules struct {
	hot, cost int64 // quotas in a window
	hasExtra  bool  // the rule that comes and goes is there
	isWrong   bool  // and so nothing of it holds
}

// extra is the rule that comes and goes.
const extra = "extra"

// The quotas of the other rules, in a window.
const (
	ruleCounter = 12
	ruleExtra   = 8
)

func (s *stage) text(r rules) string {
	text := fmt.Sprintf(`rules:
  - {name: hot, path: /hot/, key: header:X-Client, limits: [%s, %s]}
  - {name: cost, path: /cost/, key: header:X-Client, cost: header:X-Cost, limits: [%s], refund-if-status: 404}
  - {name: counter, path: /counter/, key: header:X-Client, limits: [%s]}
`, quoted(burst(r.hot)), quoted(s.wideOf(r.hot)), quoted(burst(r.cost)), quoted(steady(ruleCounter)))
	if r.hasExtra {
		text += fmt.Sprintf("  - {name: extra, path: /extra/, key: header:X-Client, limits: [%s]}\n", quoted(burst(ruleExtra)))
	}
	if r.isWrong {
		text += "  - {name: hot, limits: soon}\n"
	}
	return text
}

func quoted(l slidegate.Limit) string { return `"` + l.String() + `"` }

func burst(quota int64) slidegate.Limit { return slidegate.Per(window, quota).Named("burst") }
func steady(quota int64) slidegate.Limit {
	return slidegate.Per(window, quota).Named("steady").Counter()
}

// wideOf returns a limit of the longest window that holds less than as many bursts.
func (s *stage) wideOf(burst int64) slidegate.Limit {
	return slidegate.Per(s.wide, burst*2/3*int64(s.wide/window)).Named("wide")
}

// write puts rules in the place of the file at once.
func (s *stage) write(r rules) {
	s.t.Helper()
	next := s.rulesPath + ".next"
	if err := os.WriteFile(next, []byte(s.text(r)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, s.rulesPath); err != nil {
		s.t.Fatal(err)
	}
}

// token lets who shows it see the rules of a process.
const token = "only-for-this-test"

// newReplicas starts the command, once for each policy.
func (s *stage) newReplicas() {
	s.t.Helper()
	s.rulesPath = filepath.Join(s.t.TempDir(), "rules.yaml")
	s.rules = rules{hot: 10, cost: 20}
	s.write(s.rules)
	tokenFile := filepath.Join(filepath.Dir(s.rulesPath), "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		s.t.Fatal(err)
	}
	start := func(name string, more ...string) *servetest.Replica {
		r := servetest.Start(s.t, command, name, append(more, "--listen", "127.0.0.1:0", "--upstream", s.upstream.URL,
			"--config", s.rulesPath, "--admin-token-file", tokenFile, "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--api-listen", "127.0.0.1:0")...)
		s.replicas = append(s.replicas, r)
		return r
	}
	redis := []string{"--store", "redis://" + s.proxy.Addr + "/0", "--store-timeout", timeout.String()}
	s.open = start("open", append(redis, "--on-store-error", "open", "--client", "rueidis")...)
	s.closed = start("closed", append(redis, "--on-store-error", "closed", "--client", "goredis")...)
	s.sharing = start("sharing", append(redis, "--fallback", "1/4", "--remember-refusals", "1s")...)
	s.alone = start("alone")
	s.ofShares = s.newRules("Redis", 1)
	s.inAlone = s.newRules("alone", 0)
	s.onRedis = s.ofShares
	s.ask(s.open, s.ofShares, servetest.Proxy, servetest.Auth)
	s.ask(s.closed, s.ofShares, servetest.Proxy, servetest.API)
	s.ask(s.sharing, s.ofShares, servetest.Proxy, servetest.API)
	s.ask(s.alone, s.inAlone, servetest.Proxy, servetest.API)
}

// newRules keeps the account of each rule.
func (s *stage) newRules(where string, sharers int64) []*ledger {
	return []*ledger{
		s.newLedger(where+": hot", sharers, burst(s.rules.hot), s.wideOf(s.rules.hot)),
		s.newLedger(where+": cost", sharers, burst(s.rules.cost)),
		s.newLedger(where+": counter", sharers, steady(ruleCounter)),
		s.newLedger(where+": extra", sharers, burst(ruleExtra)),
	}
}

func (s *stage) newLedger(name string, sharers int64, limits ...slidegate.Limit) *ledger {
	l := newLedger(uint8(len(s.ledgers)), name, sharers, limits...)
	s.ledgers = append(s.ledgers, l)
	return l
}

// ask lets two callers ask at each of the doors, about all rules.
func (s *stage) ask(at *servetest.Replica, of []*ledger, doors ...string) {
	for _, name := range doors {
		c := &caller{name: at.Name + " " + name, pace: 20 * time.Millisecond}
		for i, rule := range []string{"hot", costly, "counter", extra} {
			d := door{at: at, client: s.client, name: name, rule: rule, isFar: at == s.alone}
			if at == s.sharing {
				d.kind = byShare
			}
			c.asks = append(c.asks, ask{d, of[i], 3})
		}
		s.callers = append(s.callers, c, c)
	}
}

// newLimiters makes those of this program: in memory, and over Redis behind a circuit, one of them with all that there is.
func (s *stage) newLimiters() {
	s.memory, s.backup = memstore.New(), memstore.New()
	s.t.Cleanup(func() { _, _ = s.memory.Close(), s.backup.Close() })
	s.fallback = wrap.Fallback(wrap.Denials(s.circuit(s.rueidis())), s.backup, wrap.WithShare(1, share))
	behind := s.circuit(s.goredis())

	const logged, counted = 60, 30
	log := []slidegate.Limit{burst(logged), s.wideOf(logged)}
	memoryLog, memoryCounter := s.newLedger("memory: log", 0, log...), s.newLedger("memory: counter", 0, steady(counted))
	redisLog, redisCounter := s.newLedger("library: log", 1, log...), s.newLedger("library: counter", 1, steady(counted))
	s.onRedis = append(s.onRedis[:len(s.onRedis):len(s.onRedis)], redisLog, redisCounter)
	of := func(name string, store slidegate.Store, pace time.Duration, decided func() uint64, log, counter *ledger) {
		c := &caller{name: name, pace: pace, asks: []ask{
			{library{slidegate.MustNew(store, burst(logged), s.wideOf(logged)), decided}, log, 5},
			{library{slidegate.MustNew(store, steady(counted)), decided}, counter, 5},
		}}
		s.callers = append(s.callers, c, c, c)
	}
	of("memory", s.memory, 4*time.Millisecond, nil, memoryLog, memoryCounter)
	of("circuit", behind, 10*time.Millisecond, nil, redisLog, redisCounter)
	of("fallback", s.fallback, 10*time.Millisecond, func() uint64 { return s.fallback.Stats().Decided }, redisLog, redisCounter)
}

func (s *stage) circuit(client redisstore.Client) *wrap.CircuitStore {
	store := redisstore.New(client, redisstore.WithTimeout(timeout), redisstore.WithPrefix("soak"))
	return wrap.Circuit(store, wrap.Ignore(redisstore.ErrNewerFormat))
}

func (s *stage) goredis() redisstore.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.proxy.Addr, ContextTimeoutEnabled: true, PoolSize: pool})
	s.t.Cleanup(func() { client.Close() })
	return goredisstore.New(client)
}

func (s *stage) rueidis() redisstore.Client {
	client := rueidisstore.Lazy(rueidis.ClientOption{InitAddress: []string{s.proxy.Addr}, DisableCache: true, ForceSingleClient: true})
	s.t.Cleanup(client.Close)
	return client
}

// speak lets all callers ask until hush.
func (s *stage) speak() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, c := range s.callers {
		all.Go(func() { c.speak(ctx, s.history, &s.tally) })
	}
	s.hush = func() {
		cancel()
		all.Wait()
		s.client.CloseIdleConnections()
	}
}

// pool is how many connections to Redis a go-redis may keep, and they are files.
const pool = 20

// holdings measures what could leak beside this program, while nobody asks.
func (s *stage) holdings() (all []holding) {
	s.t.Helper()
	for _, r := range s.replicas {
		m := r.Metrics()
		all = append(all,
			holding{r.Name + ": goroutines", m["go_goroutines"], 10},
			holding{r.Name + ": file descriptors", m["process_open_fds"], pool},
			holding{r.Name + ": calls overdue", m["slidegate_redis_overdue"], 0},
		)
	}
	var clients float64
	if _, err := fmt.Sscan(s.server.Info("clients")["connected_clients"], &clients); err != nil {
		s.t.Fatal(err)
	}
	return append(all, holding{"connections to Redis", clients, 2 * pool})
}
