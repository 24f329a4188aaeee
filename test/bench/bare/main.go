// Bare answers every request with the same bytes: over HTTP those that it reads from standard input, over gRPC, with -rls, those of
// the rate limit service of Envoy. It decides nothing, so it is what a door can be held against.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address")
	isRLS := flag.Bool("rls", false, "answer over gRPC")
	flag.Parse()
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if *isRLS {
		log.Fatal(serveRLS(l, body))
	}
	log.Fatal(serveHTTP(l, body))
}

// serveHTTP answers with a head and a body that are given as JSON.
func serveHTTP(l net.Listener, given []byte) error {
	var answer struct {
		Header http.Header
		Body   []byte
	}
	if err := json.Unmarshal(given, &answer); err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, values := range answer.Header {
			h[name] = values
		}
		_, _ = w.Write(answer.Body)
	}))
}

// constant is a service that knows its answer.
type constant struct {
	pb.UnimplementedRateLimitServiceServer
	answer pb.RateLimitResponse
}

func (c *constant) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &c.answer, nil
}

func serveRLS(l net.Listener, given []byte) error {
	c := &constant{}
	if err := proto.Unmarshal(given, &c.answer); err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(server, c)
	return server.Serve(l)
}
