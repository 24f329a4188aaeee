package redisfaults_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// An outage is a way in which Redis is not there for a while.
type outage struct {
	name    string
	begin   func(*redistest.Server, *redistest.Proxy)
	end     func(*redistest.Server, *redistest.Proxy)
	forgets bool // what was charged
}

var outages = []outage{
	{"Stopped", func(s *redistest.Server, _ *redistest.Proxy) { s.Stop() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Start() }, true},
	{"Killed", func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Start() }, true},
	{"Restarted", func(s *redistest.Server, _ *redistest.Proxy) { s.StopAndSave() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Start() }, false},
	{"Frozen", func(s *redistest.Server, _ *redistest.Proxy) { s.Freeze() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Thaw() }, false},
	{"Paused", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause(3 * timeout) }, func(s *redistest.Server, _ *redistest.Proxy) { s.Do("DBSIZE") }, false},
	{"Refusing", func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse() }, func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }, false},
	{"BlackHole", func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole() }, func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }, false},
	{"TooSlow", func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(2 * timeout) }, func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }, false},
	{"OutOfMemory", func(s *redistest.Server, _ *redistest.Proxy) { s.Set("maxmemory", "1") }, func(s *redistest.Server, _ *redistest.Proxy) { s.Set("maxmemory", "0") }, false},
	{"ReadOnly", func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "127.0.0.1", "1") }, func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "NO", "ONE") }, false},
}

// TestAnOutageIsHealed: whatever it is, every call is answered in time while it lasts, and afterwards
// Redis is asked again, nothing has been charged twice, and two lines were logged.
func TestAnOutageIsHealed(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			each(t, func(t *testing.T, connect connect) {
				server := redistest.Standalone(t, redistest.With("maxmemory-policy", "noeviction"))
				proxy := redistest.NewProxy(t, server.Addr)
				r := newRig(t, connect(t, through(proxy)))
				r.begin(t)
				before := r.failed
				o.begin(server, proxy)
				r.takeFor(500*time.Millisecond, 8)
				if r.failed == before {
					t.Error("no call failed")
				}
				t.Logf("during the outage: %v", r.cause)
				o.end(server, proxy)
				r.awaitBack(t)
				r.check(t)
				if !o.forgets {
					r.checkCharged(t)
				}
				r.checkLogged(t)
			})
		})
	}
}

// TestRedisMayComeUpLate: a limiter is made without it, and uses it when it is there. A rueidis client
// cannot be made without a server, so this one has lost it by then.
func TestRedisMayComeUpLate(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.NewServer(t)
		other := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, other.Addr)
		client := connect(t, through(proxy))
		proxy.Retarget(server.Addr)
		proxy.Refuse()
		r := newRig(t, client)
		r.takeFor(300*time.Millisecond, 4)
		if r.admitted != 0 {
			t.Errorf("%d admitted by nobody", r.admitted)
		}
		server.Start()
		proxy.Pass()
		r.awaitBack(t)
		r.check(t)
		r.checkCharged(t)
	})
}

// TestALoadingRedisIsWaitedFor: LOADING is an outage that ends.
func TestALoadingRedisIsWaitedFor(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		r := newRig(t, connect(t, to(server)))
		r.begin(t)
		fill(server)
		server.StopAndSave()
		server.Configure("key-load-delay", "5000") // microseconds
		server.Launch()
		redistest.Await(t, 5*time.Second, "an error that says LOADING", func() bool {
			err := r.take()
			return err != nil && strings.Contains(err.Error(), "LOADING")
		})
		server.Start()
		r.awaitBack(t)
		r.check(t)
		r.checkCharged(t)
		r.checkLogged(t)
	})
}

// fill makes a server need a second to load what it saves: with key-load-delay, 200 keys of a size
// that it looks around ten times or so.
func fill(s *redistest.Server) {
	s.Do("EVAL", "for i = 1, 200 do redis.call('SET', i, string.rep('x', 100000)) end", "0")
	s.Set("rdbcompression", "no")
}

// TestNobodyIsKeptByAnAddressThatDoesNotAnswer at all, however many ask, and few goroutines stay
// behind with it. Only go-redis: a rueidis client cannot be made then.
func TestNobodyIsKeptByAnAddressThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range clients[:2] {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.connect(t, target{addrs: []string{redistest.Unreachable(t)}, dialTimeout: timeout}))
			r.takeFor(700*time.Millisecond, 300)
			if r.admitted != 0 || r.failed < 300 {
				t.Errorf("%d admitted, %d failed", r.admitted, r.failed)
			}
			if n := r.store.Stats().Overdue; n > 256 {
				t.Errorf("%d calls overdue", n)
			}
			r.check(t)
			if lines := r.log.lines(slog.LevelWarn); len(lines) != 1 {
				t.Errorf("logged:\n%s", strings.Join(lines, ""))
			}
			redistest.Await(t, 20*time.Second, "a client that has returned from every call", func() bool { return r.store.Stats().Overdue == 0 })
		})
	}
}

// TestAnUnavailableStoreNamesTheCause that the server or the network gave.
func TestAnUnavailableStoreNamesTheCause(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, server.Addr)
		r := newRig(t, connect(t, through(proxy)))
		r.mustTake(t, 1)
		server.Set("maxmemory", "1")
		if err := r.take(); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("out of memory: %v", err)
		}
		server.Set("maxmemory", "0")
		server.Freeze()
		if err := r.take(); err == nil || !strings.Contains(err.Error(), timeout.String()) {
			t.Errorf("frozen: %v", err)
		}
		server.Thaw()
		r.check(t)
	})
}

// TestOutOfMemoryNobodyIsChargedButAnswered: refusals and peeks need no memory.
func TestOutOfMemoryNobodyIsChargedButAnswered(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)), slidegate.PerHour(1))
		take := func(key string) (bool, error) { return l.Allow(background, key) }
		if ok, err := take("a"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		server.Set("maxmemory", "1")
		if ok, err := take("a"); ok || err != nil {
			t.Error("a refusal:", ok, err)
		}
		if d, err := l.Peek(background, "b"); !d.Allowed || err != nil {
			t.Error("a peek:", d, err)
		}
		if _, err := take("b"); !errors.Is(err, slidegate.ErrUnavailable) {
			t.Error("a charge:", err)
		}
		server.Set("maxmemory", "0")
		if ok, err := take("b"); !ok || err != nil {
			t.Error("with memory again:", ok, err)
		}
	})
}

// TestACallerWhoGivesUpIsNoEvidence: the answer is at once, it is the context's own error, and
// neither the log nor the counts know of it.
func TestACallerWhoGivesUpIsNoEvidence(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		r := newRig(t, connect(t, to(server)), redisstore.WithTimeout(generous))
		r.mustTake(t, 10)
		server.Freeze()
		for _, c := range []struct {
			name string
			ctx  func() (context.Context, context.CancelFunc)
			want error
		}{
			{"cancelled", func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(background)
				time.AfterFunc(30*time.Millisecond, cancel)
				return ctx, cancel
			}, context.Canceled},
			{"deadline", func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(background, 30*time.Millisecond)
			}, context.DeadlineExceeded},
			{"before", func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(background)
				cancel()
				return ctx, cancel
			}, context.Canceled},
		} {
			ctx, cancel := c.ctx()
			calls := r.store.Stats().Calls
			start := time.Now()
			_, err := r.Take(ctx, key)
			cancel()
			if took := time.Since(start); took > slack {
				t.Errorf("%s: after %s", c.name, took)
			}
			if !errors.Is(err, c.want) || errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("%s: %v", c.name, err)
			}
			if sent := r.store.Stats().Calls - calls; c.name == "before" && sent != 0 {
				t.Errorf("%s: %d calls sent", c.name, sent)
			}
		}
		server.Thaw()
		r.mustTake(t, 10)
		if s := r.store.Stats(); s.Failed != 0 {
			t.Errorf("%d failed", s.Failed)
		}
		if r.log.text.Len() != 0 {
			t.Errorf("logged: %s", r.log.text.String())
		}
	})
}
