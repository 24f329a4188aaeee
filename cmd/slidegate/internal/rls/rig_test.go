package rls_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/memstore"
)

const (
	ok   = pb.RateLimitResponse_OK
	over = pb.RateLimitResponse_OVER_LIMIT
)

// A rig is a service on a real socket, with a client.
type rig struct {
	*testing.T
	service *rls.Service
	client  pb.RateLimitServiceClient
	conn    *grpc.ClientConn
	clock   clock
}

// A clock stands until it is moved, or goes on by a step with every look at it.
type clock struct{ ms, step atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Add(c.step.Load())) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// inMemory serves rules from memory, by a clock that begins at 1,700,000,000 s.
func inMemory(t *testing.T, text string, o rls.Options) *rig {
	t.Helper()
	r := &rig{T: t}
	r.clock.ms.Store(1_700_000_000_000)
	store := memstore.New(memstore.WithClock(r.clock.now))
	t.Cleanup(func() { _ = store.Close() })
	return r.serve(store, text, o)
}

func (r *rig) serve(store slidegate.Store, text string, o rls.Options) *rig {
	r.Helper()
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	service, err := rls.New(store, read(r.T, text), o)
	if err != nil {
		r.Fatal(err)
	}
	r.service = service
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	server := service.NewServer()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	r.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = r.conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			r.Errorf("serve: %v", err)
		}
	})
	r.client = pb.NewRateLimitServiceClient(r.conn)
	return r
}

func read(t *testing.T, text string) *rules.Set {
	t.Helper()
	if text == "" {
		return nil
	}
	set, err := rules.Read([]rules.File{{Name: "rules.yaml", Text: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// ask sends a request of domain d, which must be decided.
func (r *rig) ask(descriptors ...*ratelimitv3.RateLimitDescriptor) *pb.RateLimitResponse {
	r.Helper()
	answer, err := r.try(&pb.RateLimitRequest{Domain: "d", Descriptors: descriptors})
	if err != nil {
		r.Fatal(err)
	}
	if len(answer.GetStatuses()) != len(descriptors) {
		r.Fatalf("%d statuses for %d descriptors", len(answer.GetStatuses()), len(descriptors))
	}
	return answer
}

func (r *rig) try(request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return r.client.ShouldRateLimit(ctx, request)
}

// left returns how many units a descriptor has left, which changes nothing.
func (r *rig) left(entries string) uint32 {
	r.Helper()
	return r.ask(hits(0, entries)).GetStatuses()[0].GetLimitRemaining()
}

// expect sends a request and looks at the overall code and those of the descriptors.
func (r *rig) expect(what string, overall pb.RateLimitResponse_Code, codes []pb.RateLimitResponse_Code, descriptors ...*ratelimitv3.RateLimitDescriptor) {
	r.Helper()
	answer := r.ask(descriptors...)
	if answer.GetOverallCode() != overall {
		r.Errorf("%s: overall %s, want %s", what, answer.GetOverallCode(), overall)
	}
	for i, st := range answer.GetStatuses() {
		if st.GetCode() != codes[i] {
			r.Errorf("%s: descriptor %d is %s, want %s", what, i+1, st.GetCode(), codes[i])
		}
		if wait := st.GetDurationUntilReset(); st.GetCode() == over && (st.GetLimitRemaining() != 0 || wait.GetSeconds() < 1 || wait.GetNanos() != 0) {
			r.Errorf("%s: descriptor %d is over with %d left and a wait of %s", what, i+1, st.GetLimitRemaining(), wait.AsDuration())
		}
	}
}

// entries makes a descriptor of text: "a=x,b=y".
func entries(text string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// hits makes a descriptor with an addend, which gives back where it is negative.
func hits(n int64, text string) *ratelimitv3.RateLimitDescriptor {
	d := entries(text)
	d.IsNegativeHits = n < 0
	d.HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
	return d
}

func codes(all ...pb.RateLimitResponse_Code) []pb.RateLimitResponse_Code { return all }
