// Program connect is a Connect service that holds every client to a limit. The handler is made by hand; yours comes from your
// .proto files and takes the same option.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/connectgate"
)

const procedure = "/greet.v1.GreetService/Greet"

func greet(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	return connect.NewResponse(wrapperspb.String("hello " + r.Msg.Value)), nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	gate := connectgate.PerIP(slidegate.PerHour(2).Named("hourly"))
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, greet, connect.WithInterceptors(gate)))
	log.Fatal(http.ListenAndServe(*listen, mux))
}
