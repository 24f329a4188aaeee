package rediscases

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// absent returns a store on a server that is not there.
func absent(t *testing.T) *redisstore.Store {
	t.Helper()
	return redisstore.New(throughGoredis(t, redistest.NewServer(t).Addr))
}

func openWithNobodyThere(t *testing.T, _ *redistest.Server) {
	s := newSite(t, newLimiter(t, absent(t), slidegate.PerMinute(1)))
	for range 10 {
		w := s.get("a")
		equal(t, "status and fields", strconv.Itoa(w.Code)+fields(w.Header()), "200")
	}
	equal(t, "the handler ran, and store errors", []int64{s.runs.Load(), s.errors.Load()}, "[10 10]")
}

// closedWithNobodyThere is the half of HTTP: there is no gate for gRPC yet.
func closedWithNobodyThere(t *testing.T, _ *redistest.Server) {
	s := newSite(t, newLimiter(t, absent(t), slidegate.PerMinute(1)), httpgate.FailClosed())
	w := s.get("a")
	equal(t, "status and fields", strconv.Itoa(w.Code)+fields(w.Header()), "503")
	equal(t, "the handler ran, and store errors", []int64{s.runs.Load(), s.errors.Load()}, "[0 1]")
}

func openWithASilentRedis(t *testing.T, server *redistest.Server) {
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Blackhole()
	circuit := wrap.Circuit(redisstore.New(throughGoredis(t, proxy.Addr), redisstore.WithTimeout(50*time.Millisecond)))
	s := newSite(t, newLimiter(t, circuit, slidegate.PerMinute(1)))
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	late := lateness()
	for range 10 {
		wg.Go(func() {
			for range 20 {
				began := time.Now()
				equal(t, "status", s.get("a").Code, 200)
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	worst := late()
	slices.Sort(all)
	if all[199] > 150*time.Millisecond+2*worst {
		t.Errorf("the slowest took %s, on a machine that is %s late", all[199], worst)
	}
	equal(t, "the circuit", circuit.State(), wrap.Open)
	if all[100] > 2*time.Millisecond+worst {
		t.Errorf("half of the requests took more than %s, on a machine that is %s late", all[100], worst)
	}
}

func fiveLimitsOneTimeout(t *testing.T, server *redistest.Server) {
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Blackhole()
	l := newLimiter(t, redisstore.New(throughGoredis(t, proxy.Addr), redisstore.WithTimeout(50*time.Millisecond)),
		slidegate.PerSecond(1), slidegate.PerMinute(2), slidegate.PerHour(3), slidegate.PerDay(4), slidegate.PerDay(5).Counter())
	s := newSite(t, l)
	began, late := time.Now(), lateness()
	equal(t, "status", s.get("a").Code, 200)
	took := time.Since(began)
	if worst := late(); took > 150*time.Millisecond+2*worst {
		t.Errorf("the answer took %s, on a machine that is %s late", took, worst)
	}
	equal(t, "store errors", s.errors.Load(), 1)
}

// withFallback returns a site that asks a limiter of its own where Redis cannot be asked.
func withFallback(t *testing.T, first, second *slidegate.Limiter) *site {
	t.Helper()
	var s *site
	local := httpgate.MustNew(second, httpgate.ByHeader("User")).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.runs.Add(1) }))
	s = newSite(t, first, httpgate.FailWith(local))
	return s
}

func refusalIsNoFailure(t *testing.T, server *redistest.Server) {
	fallback := memstore.New()
	defer fallback.Close()
	circuit := wrap.Circuit(newStore(t, server), wrap.WithFailures(1))
	s := withFallback(t, newLimiter(t, circuit, slidegate.PerMinute(2)), newLimiter(t, fallback, slidegate.PerMinute(100)))
	equal(t, "statuses", s.codes(3, "a"), "200 200 429")
	equal(t, "keys of the fallback", fallback.Len(), 0)
	equal(t, "the circuit", circuit.State(), wrap.Closed)
}

// sharesOfAFallback has a limiter for each route, each with its own share: a quarter of 100, and of 40.
func sharesOfAFallback(t *testing.T, _ *redistest.Server) {
	quotas := []int64{100, 40}
	sum := make([]int64, len(quotas))
	for range 4 {
		redis, fallback := wrap.Circuit(absent(t)), memstore.New()
		defer fallback.Close()
		for route, quota := range quotas {
			name := "route " + strconv.Itoa(route)
			s := withFallback(t, newLimiter(t, redis, slidegate.PerMinute(quota).Named(name)), newLimiter(t, fallback, slidegate.PerMinute(quota/4).Named(name)))
			s.codes(200, "a")
			equal(t, name+": admitted by an instance", s.runs.Load(), quota/4)
			sum[route] += s.runs.Load()
		}
	}
	equal(t, "admitted by four instances", sum, quotas)
}

func lostReply(t *testing.T, server *redistest.Server) {
	for _, through := range libraries {
		proxy := redistest.NewProxy(t, server.Addr)
		l := newLimiter(t, redisstore.New(through.connect(t, proxy.Addr), redisstore.WithTimeout(generous)), slidegate.PerMinute(10))
		peek(t, l, "a")
		proxy.CutReply("evalsha", 1)
		s := newSite(t, l)
		equal(t, through.name+": status", s.get(through.name).Code, 200)
		equal(t, through.name+": units used", 10-left(t, l, "header:User:"+through.name), 1)
	}
}

func clusterOfOneNode(t *testing.T, _ *redistest.Server) {
	server := clusterOfOne(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	defer client.Close()
	also, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer also.Close()
	for name, c := range map[string]redisstore.Client{"goredis": goredisstore.New(client), "rueidis": rueidisstore.New(also)} {
		l := newLimiter(t, redisstore.New(c, redisstore.WithTimeout(generous)), three...)
		for i := range 20 {
			key := name + strconv.Itoa(i)
			n, d := take(t, l, key, 6)
			if n != 5 || d.Binding().Limit.Name != "sustained" || d.State(2).Remaining != 45 {
				t.Errorf("%s: %d of six admitted, then %s", key, n, d)
			}
		}
	}
}

func deadSeed(t *testing.T, _ *redistest.Server) {
	server, dead := clusterOfOne(t), redistest.NewServer(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	for what, seeds := range map[string][]string{"a dead seed and one that lives": {dead.Addr, server.Addr}, "a name": {"localhost:" + port}} {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: seeds})
		defer client.Close()
		also, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: seeds, DisableCache: true})
		if err != nil {
			t.Errorf("rueidis with %s: %v", what, err)
			continue
		}
		defer also.Close()
		for name, c := range map[string]redisstore.Client{"goredis": goredisstore.New(client), "rueidis": rueidisstore.New(also)} {
			s := newSite(t, newLimiter(t, redisstore.New(c, redisstore.WithTimeout(generous)), slidegate.PerMinute(2)))
			equal(t, name+" with "+what, s.codes(3, name+what), "200 200 429")
			equal(t, name+" with "+what+": store errors", s.errors.Load(), 0)
		}
	}
}

// redisComesLate is the half of the library; the command's is among its own tests.
func redisComesLate(t *testing.T, _ *redistest.Server) {
	server := redistest.NewServer(t)
	l := newLimiter(t, wrap.Circuit(redisstore.New(throughGoredis(t, server.Addr)), wrap.WithProbeInterval(50*time.Millisecond)), slidegate.PerHour(2))
	s := newSite(t, l)
	for range 50 {
		equal(t, "status before Redis", s.get("a").Code, 200)
	}
	server.Start()
	redistest.Await(t, generous, "a Redis that is used", func() bool { _, err := l.Peek(background, "b"); return err == nil })
	equal(t, "when Redis is there", s.codes(3, "b"), "200 200 429") // of a, some may have been charged
}

// impostor answers every EVAL and EVALSHA with the same bytes, and anything else with OK; it does not
// know HELLO.
func impostor(t *testing.T, reply string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var conns sync.Map
	t.Cleanup(func() {
		listener.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, nil)
			serving.Go(func() { impersonate(conn, reply) })
		}
	})
	return listener.Addr().String()
}

func impersonate(conn net.Conn, reply string) {
	defer conn.Close()
	for r := bufio.NewReader(conn); ; {
		var words int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &words); err != nil {
			return
		}
		name := ""
		for range words {
			var size int
			if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(r, word); err != nil {
				return
			}
			if name == "" {
				name = strings.ToUpper(string(word[:size]))
			}
		}
		answer := "+OK\r\n"
		switch {
		case strings.HasPrefix(name, "EVAL"):
			answer = reply
		case name == "HELLO":
			answer = "-ERR unknown command 'HELLO'\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func repliesThatAreNone(t *testing.T, _ *redistest.Server) {
	for what, reply := range map[string]string{
		"nil":                  "$-1\r\n",
		"a nil array":          "*-1\r\n",
		"a string":             "$5\r\nhello\r\n",
		"a status":             "+OK\r\n",
		"an array of one":      "*1\r\n:0\r\n",
		"an empty array":       "*0\r\n",
		"a huge integer":       ":9223372036854775807\r\n",
		"one too many":         "*6\r\n:0\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n",
		"text where numbers":   "*5\r\n$1\r\na\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
		"nil where numbers":    "*5\r\n:0\r\n$-1\r\n:1\r\n:1\r\n:0\r\n",
		"an array in an array": "*5\r\n*1\r\n:0\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
		"beyond 64 bits":       "*5\r\n:99999999999999999999\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
		"an error":             "-ERR out of order\r\n",
		"no RESP":              "HTTP/1.1 400 Bad Request\r\n\r\n",
	} {
		addr := impostor(t, reply)
		also, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		defer also.Close()
		for name, client := range map[string]redisstore.Client{"goredis": throughGoredis(t, addr), "rueidis": rueidisstore.New(also)} {
			s := newSite(t, newLimiter(t, redisstore.New(client, redisstore.WithTimeout(time.Second)), slidegate.PerMinute(1)))
			w := s.get("a")
			equal(t, name+", "+what+": status and fields", strconv.Itoa(w.Code)+fields(w.Header()), "200")
			equal(t, name+", "+what+": store errors", s.errors.Load(), 1)
		}
	}
}

func sameFieldsFromBothStores(t *testing.T, server *redistest.Server) {
	w := newTwin(t, server, []slidegate.Limit{slidegate.PerMinute(3)}, httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.Legacy))
	for i := range 5 {
		want := 200
		if i >= 3 {
			want = 429
		}
		equal(t, "status", w.get("a").Code, want)
	}
}

func firstRequestIsCharged(t *testing.T, server *redistest.Server) {
	var apps []*app
	for i := range 4 {
		apps = append(apps, startApp(t, server, libraries[i%2].name, "", slidegate.PerHour(1)))
	}
	for i := range apps {
		route := "never seen " + strconv.Itoa(i)
		first, second := apps[i].admitted(1, route), apps[(i+1)%4].admitted(1, route)
		equal(t, "admitted by two workers", []int{first, second}, "[1 0]")
	}
}

func blockedAndUnlimited(t *testing.T, server *redistest.Server) {
	for what, store := range map[string]slidegate.Store{"Redis": newStore(t, server), "an absent Redis": absent(t), "memory": memstore.New()} {
		limiter := newLimiter(t, store, slidegate.PerMinute(1))
		blocked, unlimited, events := slidegate.Blocked(), slidegate.Unlimited(), 0
		s := newSite(t, limiter, httpgate.Observe(func(*httpgate.Event) { events++ }), httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
			if r.Header.Get("User") == "blocked" {
				return blocked
			}
			return unlimited
		}))
		b, u := s.get("blocked"), s.get("unlimited")
		if b.Code != 429 || u.Code != 200 || b.Header().Get("Retry-After") != "" || events != 2 || s.errors.Load() != 0 {
			t.Errorf("%s: blocked %d, unlimited %d, %d events, %d store errors", what, b.Code, u.Code, events, s.errors.Load())
		}
	}
	equal(t, "keys", server.Keys(), "[]")
}

func twoHooks(t *testing.T, _ *redistest.Server) {
	told := 0
	options := []httpgate.Option{
		httpgate.OnDeny(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("OnDeny for a store failure") })),
		httpgate.OnStoreError(func(err error) {
			if errors.Is(err, slidegate.ErrUnavailable) {
				told++
			}
		}),
	}
	l := newLimiter(t, absent(t), slidegate.PerMinute(1))
	closed, open := newSite(t, l, append(options, httpgate.FailClosedWith(418, nil))...), newSite(t, l, options...)
	equal(t, "closed and open", closed.codes(1, "a")+" "+open.codes(1, "a"), "418 200")
	equal(t, "told, and ran", []int64{int64(told), closed.runs.Load(), open.runs.Load()}, "[2 0 1]")
}

func outageInTheLog(t *testing.T, _ *redistest.Server) {
	var log syncBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := newSite(t, newLimiter(t, wrap.Circuit(absent(t), wrap.WithLogger(logger)), slidegate.PerMinute(1)), httpgate.Logger(logger))
	for range 5000 {
		s.get("a")
	}
	equal(t, "the handler ran, and store errors", []int64{s.runs.Load(), s.errors.Load()}, "[5000 5000]")
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 10 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// failuresOnly gives back what succeeded, on Redis and in memory.
func failuresOnly(t *testing.T, server *redistest.Server) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	for what, store := range map[string]slidegate.Store{"Redis": newStore(t, server, redisstore.WithClock(clock.Now)), "memory": memstore.New(memstore.WithClock(clock.Now))} {
		login := httpgate.MustNew(newLimiter(t, store, slidegate.PerHour(2)), httpgate.RefundIf(succeeded)).Wrap(onlyGoodUsers)
		var got []int
		for _, user := range []string{"good", "good", "good", "good", "good", "bad", "bad", "good"} {
			got = append(got, get(login, "/", user).Code)
		}
		equal(t, what, got, "[200 200 200 200 200 401 401 429]")
	}
}

// refundFails is a Redis that dies between the verdict and the answer.
func refundFails(t *testing.T, _ *redistest.Server) {
	server := redistest.Standalone(t)
	l := newLimiter(t, redisstore.New(throughGoredis(t, server.Addr)), slidegate.PerHour(2))
	s := newSite(t, l, httpgate.RefundIf(succeeded))
	equal(t, "while Redis is there", s.codes(3, "a"), "200 200 200")
	gate := httpgate.MustNew(l, httpgate.RefundIf(succeeded), httpgate.OnStoreError(func(error) { s.errors.Add(1) }))
	w := get(gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		server.Kill()
		io.WriteString(w, "all of it")
	})), "/", "a")
	equal(t, "the answer, and store errors", fmt.Sprint(w.Code, w.Body, s.errors.Load()), "200 all of it 1")
}
