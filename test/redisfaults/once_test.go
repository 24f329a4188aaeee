package redisfaults_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestALostReplyIsChargedOnce: the script has run, the connection is cut before the answer comes,
// and nobody sends it again. A lost request is not charged.
func TestALostReplyIsChargedOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		lose    func(*redistest.Proxy)
		flush   bool // scripts
		charged int64
	}{
		{"Reply", func(p *redistest.Proxy) { p.CutReply("EVALSHA", 1) }, false, 1},
		{"ReplyToTheSource", func(p *redistest.Proxy) { p.CutReply("EVAL", 1) }, true, 1},
		{"NoScript", func(p *redistest.Proxy) { p.CutReply("EVALSHA", 1) }, true, 0},
		{"Request", func(p *redistest.Proxy) { p.CutCommand("EVALSHA", 1) }, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, connect connect) {
				server := redistest.Standalone(t)
				proxy := redistest.NewProxy(t, server.Addr)
				r := newRig(t, connect(t, through(proxy)), redisstore.WithTimeout(generous))
				for round := range int64(5) {
					r.mustTake(t, 1)
					before := r.used(t)
					if c.flush {
						server.Do("SCRIPT", "FLUSH")
					}
					c.lose(proxy)
					if err := r.take(); err == nil || !isUnavailable(err) {
						t.Fatalf("round %d: %v", round, err)
					}
					redistest.Await(t, backIn, "a new connection", func() bool {
						_, err := r.Peek(background, key)
						return err == nil
					})
					if got := r.used(t) - before; got != c.charged {
						t.Errorf("round %d: charged %d times, want %d", round, got, c.charged)
					}
				}
			})
		})
	}
}

// TestALostReplyOfAClusterIsChargedOnce: also a client that knows where else it could ask.
func TestALostReplyOfAClusterIsChargedOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	proxies, detour := map[string]*redistest.Proxy{}, map[string]string{}
	for _, addr := range cluster.Addrs() {
		proxies[addr] = redistest.NewProxy(t, addr)
		detour[addr] = proxies[addr].Addr
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			cluster.Flush()
			to := toCluster(cluster)
			to.detour = detour
			r := newRig(t, c.connect(t, to), redisstore.WithTimeout(generous))
			r.mustTake(t, 1)
			owner := cluster.OwnerOf(cluster.SlotOf("slidegate:{" + key + "}:"))
			for round := range int64(5) {
				before := r.used(t)
				proxies[owner.Addr].CutReply("EVALSHA", 1)
				if err := r.take(); err == nil || !isUnavailable(err) {
					t.Fatalf("round %d: %v", round, err)
				}
				redistest.Await(t, backIn, "a new connection", func() bool {
					_, err := r.Peek(background, key)
					return err == nil
				})
				if got := r.used(t) - before; got != 1 {
					t.Errorf("round %d: charged %d times, want once", round, got)
				}
			}
		})
	}
}

// TestAForgottenScriptIsNoError and nothing is charged twice, however often it is forgotten.
func TestAForgottenScriptIsNoError(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		r := newRig(t, connect(t, to(server)), redisstore.WithTimeout(generous))
		var done atomic.Bool
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for !done.Load() && r.take() == nil {
				}
			})
		}
		for range 100 {
			server.Do("SCRIPT", "FLUSH")
			r.mustTake(t, 1)
		}
		done.Store(true)
		callers.Wait()
		if r.failed != 0 {
			t.Errorf("%d errors, the last: %v", r.failed, r.cause)
		}
		if used := r.used(t); used != r.admitted {
			t.Errorf("%d units charged, %d admitted", used, r.admitted)
		}
	})
}

// TestAFlushedServerStartsAfresh without an error, and each time with the whole quota and no more.
func TestAFlushedServerStartsAfresh(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		const quota, rounds = 20, 20
		server := redistest.Standalone(t)
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)),
			slidegate.PerHour(quota), slidegate.PerHour(quota).Named("counter").Counter())
		for round := range rounds {
			admitted := int64(0)
			for range quota + 5 {
				ok, err := l.Allow(background, key)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					admitted++
				}
			}
			if admitted != quota {
				t.Errorf("round %d: %d admitted, want %d", round, admitted, quota)
			}
			server.Flush()
		}
	})
}

// TestOneDecisionIsOneCommand: commandstats know of one EVALSHA for each, whatever the verb and however
// many the limits, and of one EVAL for each script that the server did not know.
func TestOneDecisionIsOneCommand(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		l := eightLimits(t, redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous), redisstore.WithFolding(1)))
		decide := func() (decisions int64) {
			for range 40 { // of which 37 are refused
				d, err := l.Take(background, key)
				mustDo(t, err)
				decisions++
				if d.Allowed {
					mustDo(t, l.Refund(background, &d))
					_, err = l.Take(background, key)
					mustDo(t, err)
					decisions += 2
				}
				_, err = l.Peek(background, key)
				mustDo(t, err)
				decisions++
			}
			mustDo(t, l.Reset(background, key))
			return decisions + 1
		}
		decide()
		server.ResetCalls()
		n := decide()
		calls := server.Calls()
		if calls["evalsha"] != n || calls["eval"] != 0 {
			t.Errorf("%d decisions, %d EVALSHA, %d EVAL: %v", n, calls["evalsha"], calls["eval"], calls)
		}
		for command, times := range calls {
			ours := command == "config|resetstat" || command == "config" // before Redis 7
			alive := command == "ping" && times <= 30                    // rueidis sends one a second
			if !slices.Contains(commands, command) && !ours && !alive {
				t.Errorf("%d decisions, and %s was sent %d times", n, command, times)
			}
		}
		server.Do("SCRIPT", "FLUSH")
		server.ResetCalls()
		n = decide()
		if calls = server.Calls(); calls["evalsha"] != n || calls["eval"] != 3 {
			t.Errorf("scripts forgotten: %d decisions, %d EVALSHA, %d EVAL", n, calls["evalsha"], calls["eval"])
		}
	})
}

func eightLimits(t testing.TB, store slidegate.Store) *slidegate.Limiter {
	t.Helper()
	var limits []slidegate.Limit
	for i := range 4 {
		window := time.Duration(i+1) * time.Hour
		limits = append(limits, slidegate.Per(window, 3), slidegate.Per(window, 3).Counter())
	}
	l, err := slidegate.New(store, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFoldedDecisionsNeedFewerCommands and are all answered for themselves.
func TestFoldedDecisionsNeedFewerCommands(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		const callers, rounds, quota = 64, 50, 1000
		server := redistest.Standalone(t)
		store := redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous))
		l := slidegate.MustNew(store, slidegate.PerHour(quota))
		mustDo(t, l.Reset(background, key))
		server.ResetCalls()
		var admitted, failed atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range rounds {
					ok, err := l.Allow(background, key)
					if err != nil {
						failed.Add(1)
					} else if ok {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if admitted.Load() != quota || failed.Load() != 0 {
			t.Errorf("%d admitted, want %d; %d errors", admitted.Load(), quota, failed.Load())
		}
		calls := server.Calls()
		if sent := calls["evalsha"]; sent >= callers*rounds || int64(store.Stats().Calls) != sent+1 {
			t.Errorf("%d commands for %d decisions; the store counts %d", sent, callers*rounds, store.Stats().Calls-1)
		}
		t.Logf("%d EVALSHA for %d decisions", calls["evalsha"], callers*rounds)
	})
}
