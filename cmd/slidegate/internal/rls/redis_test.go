package rls_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

func init() { logging.Disable() } // the tests wait for a server that is not there yet

// A redisServer is a real one on a free port. It ends with the test.
type redisServer struct {
	client *redis.Client
	cmd    *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	s := &redisServer{cmd: exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() {
		_ = s.client.Close()
		s.kill()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for s.client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			t.Fatal("the Redis does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return s
}

func (s *redisServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// inRedis serves rules from the Redis, which may take long, for the machine may be busy.
func (s *redisServer) inRedis(t *testing.T, text string, o rls.Options) *rig {
	t.Helper()
	o.Remote = true
	store := redisstore.New(goredis.New(s.client), redisstore.WithTimeout(5*time.Second), redisstore.WithoutOutages())
	return (&rig{T: t}).serve(store, text, o)
}

// TestReplicasShareCounters: of requests to two services over one Redis as many are admitted as a limit has, whichever
// way they are decided, and descriptors with the same keys and values are one.
func TestReplicasShareCounters(t *testing.T) {
	server := startRedis(t)
	for i, o := range []rls.Options{{}, {Together: true}} {
		one, other := server.inRedis(t, plain, o), server.inRedis(t, plain, o)
		a, b := fmt.Sprintf("b=x%d", i), fmt.Sprintf("token=y%d", i)
		admitted := make(chan int64, 2)
		for _, r := range []*rig{one, other} {
			go func() { admitted <- r.storm(20, entries(a), entries(b)) }()
		}
		if n := <-admitted + <-admitted; n != 10 {
			t.Errorf("%+v: %d admitted, want 10", o, n)
		}
		if left, want := other.left(b), map[bool]uint32{true: 990, false: 960}[o.Together]; left != want {
			t.Errorf("%+v: %d left of the other, want %d", o, left, want)
		}
	}
	keys, err := server.client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if want := "slidegate:{rls:d|b=x0}:b:1m slidegate:{rls:d|b=x1}:b:1m slidegate:{rls:d|token=y0}:token:1h slidegate:{rls:d|token=y1}:token:1h"; strings.Join(keys, " ") != want {
		t.Errorf("%q, want %s", keys, want)
	}
}

// TestRefundsInRedis are those in memory.
func TestRefundsInRedis(t *testing.T) {
	r := startRedis(t).inRedis(t, plain, rls.Options{})
	r.expect("charged", ok, codes(ok), hits(400, "token=x"))
	r.expect("charged", ok, codes(ok), hits(1, "token=x"))
	r.expect("given back", ok, codes(ok), hits(-301, "token=x"))
	if left := r.left("token=x"); left != 900 {
		t.Errorf("%d left, want 900", left)
	}
	r.expect("what is left", over, codes(over), hits(1000, "token=x"))
	r.expect("nothing", over, codes(over), hits(0, "token=x"))
	r.expect("given back", ok, codes(ok), hits(-5000, "token=x"))
	if left := r.left("token=x"); left != 1000 {
		t.Errorf("%d left, want all", left)
	}
}

// TestAStoreThatIsAway is no refusal: the call fails with UNAVAILABLE, so that Envoy does what its failure mode says, or is
// OK without a limit, as it is chosen. POST /json says 503.
func TestAStoreThatIsAway(t *testing.T) {
	server := startRedis(t)
	for _, together := range []bool{false, true} {
		closed := server.inRedis(t, plain, rls.Options{Together: together})
		open := server.inRedis(t, plain, rls.Options{Together: together, FailOpen: true})
		if !together {
			open.expect("while it is there", ok, codes(ok, ok), entries("a=x"), entries("b=x"))
			open.expect("while it is there", over, codes(over), entries("a=x"))
			server.kill()
		}
		_, err := closed.try(&pb.RateLimitRequest{Domain: "d", Descriptors: closed.descriptors("a=x", "b=x")})
		if status.Code(err) != grpccodes.Unavailable || strings.Contains(err.Error(), "a=x") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("closed: %v", err)
		}
		if code, _, body := closed.post(`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"x"}]}]}`); code != 503 {
			t.Errorf("closed: %d %s", code, body)
		}
		answer := open.ask(entries("a=x"), entries("b=x"))
		if answer.GetOverallCode() != ok || answer.GetStatuses()[0].GetCode() != ok || answer.GetStatuses()[0].GetCurrentLimit() != nil {
			t.Errorf("open: %v", answer)
		}
	}
}

// TestACallerWhoHasGone gets the error of that, also where calls that fail are OK, and it is no fault of the store.
func TestACallerWhoHasGone(t *testing.T) {
	m := rls.NewMetrics(rls.OurNames)
	r := startRedis(t).inRedis(t, plain, rls.Options{FailOpen: true, Metrics: m})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.service.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "d", Descriptors: r.descriptors("a=x")})
	if got := values(t, m); status.Code(err) != grpccodes.Canceled || got["slidegate_rls_errors_total{canceled}"] != 1 || got["slidegate_rls_errors_total{store}"] != 0 {
		t.Errorf("%v, %v", err, got)
	}
}
