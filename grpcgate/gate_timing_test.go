package grpcgate_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpcgate"
	"github.com/slidegate/slidegate/memstore"
)

// BenchmarkUnary is what a gate adds to a call that is admitted, and all that a refused one costs
// beside the transport.
func BenchmarkUnary(b *testing.B) {
	for name, quota := range map[string]int64{"admitted": slidegate.MaxQuota, "refused": 1} {
		b.Run(name, func(b *testing.B) {
			gate := grpcgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.PerDay(quota).Counter()))
			ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 4711}})
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "api.example", "content-type", "application/grpc", "user-agent", "grpc-go"))
			ctx = grpc.NewContextWithServerTransportStream(ctx, discard{})
			info := &grpc.UnaryServerInfo{FullMethod: "/pkg.Service/Method"}
			handler := func(context.Context, any) (any, error) { return nil, nil }
			_, _ = gate.Unary(ctx, nil, info, handler)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = gate.Unary(ctx, nil, info, handler)
			}
		})
	}
}

// discard is the transport of a call whose metadata nobody reads.
type discard struct{}

func (discard) Method() string               { return "" }
func (discard) SetHeader(metadata.MD) error  { return nil }
func (discard) SendHeader(metadata.MD) error { return nil }
func (discard) SetTrailer(metadata.MD) error { return nil }
