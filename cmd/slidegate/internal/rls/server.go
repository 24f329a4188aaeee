package rls

import (
	"context"
	"errors"
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// NewServer returns a gRPC server with the service, grpc.health.v1 and reflection. Connections live as long as the client
// wants, unless an option says otherwise: Envoy keeps one for as long as it runs.
func (s *Service) NewServer(options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options, grpc.ChainStreamInterceptor(s.untilDrained))...)
	pb.RegisterRateLimitServiceServer(server, s)
	healthpb.RegisterHealthServer(server, s.health)
	reflection.Register(server)
	return server
}

// untilDrained ends what a stream waits for when the service drains.
func (s *Service) untilDrained(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(s.draining, cancel)
	defer stop()
	return handle(service, &boundStream{stream, ctx})
}

// A boundStream has a context of its own.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *boundStream) Context() context.Context { return s.ctx }

// mostJSON is how long the body of a request may be, in bytes.
const mostJSON = 1 << 20

// Handler serves POST /json, which is ShouldRateLimit in the JSON of protocol buffers, and GET /healthcheck. The status is
// 200 for OK, 429 for OVER_LIMIT, 400 for a request that cannot be decided as it is, and 503 where the store cannot be asked.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("GET /healthcheck", s.serveHealth)
	return mux
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostJSON))
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		http.Error(w, "the body is too long: allowed are 1048576 bytes", http.StatusRequestEntityTooLarge)
		return
	}
	request := &pb.RateLimitRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	if err != nil {
		http.Error(w, "the body is no RateLimitRequest: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.ShouldRateLimit(r.Context(), request)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), statusOf(err))
		return
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// serveHealth answers 200 where the gRPC health service says SERVING, else 500, as the original does.
func (s *Service) serveHealth(w http.ResponseWriter, r *http.Request) {
	h, err := s.health.Check(r.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		http.Error(w, "not serving", http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}
