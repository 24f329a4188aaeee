// Program grpc is a gRPC server that holds every client to a limit, and with -call a client of it. The service is the one that
// the tests of grpc-go use; yours comes from your .proto files and is registered in the same way.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpcgate"
)

type service struct {
	testpb.UnimplementedTestServiceServer
}

func (service) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpcgate.PerIP(slidegate.PerHour(2).Named("hourly"))...)
	testpb.RegisterTestServiceServer(server, service{})
	return server.Serve(listener)
}

// call makes n calls, and prints the status of each.
func call(address string, n int) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client := testpb.NewTestServiceClient(conn)
	for range n {
		_, err := client.EmptyCall(context.Background(), &testpb.Empty{})
		fmt.Println(status.Code(err))
	}
	return conn.Close()
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	address := flag.String("call", "", "be a client of the server at this address instead")
	flag.Parse()

	if *address == "" {
		log.Fatal(serve(*listen))
	}
	if err := call(*address, 3); err != nil {
		log.Fatal(err)
	}
}
