package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// rateLimitCommand is the original, at a version that is built as its own go.mod says.
const rateLimitCommand = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"

// rules are those of all services.
const rules = `domain: edge
descriptors:
  - key: generic_key
    value: api
    descriptors:
      - key: remote_address
        rate_limit: {unit: minute, requests_per_unit: 1000}
`

// rlsDoors are ours in memory and on Redis, a server that knows its answer, and the original, on the same Redis.
func rlsDoors() []Door {
	serve := func(start func(*Doors) (string, error)) func(*Doors) (asker, error) {
		return func(s *Doors) (asker, error) {
			addr, err := start(s)
			if err != nil {
				return nil, err
			}
			return dialRLS(addr)
		}
	}
	return []Door{
		{RateLimit, serve(startRateLimit)},
		{RLSDoor, serve(func(s *Doors) (string, error) { return startRLS(s) })},
		{RLSRedis, serve(func(s *Doors) (string, error) {
			return startRLS(s, "--store", "redis://"+s.redis().Addr, "--store-timeout", "10s") // as long as the original waits
		})},
		{BareGRPC, serve(startBareRLS)},
	}
}

// ruleDir writes the rules to where both read them.
func (s *Doors) ruleDir() (root, dir string, err error) {
	if _, err = s.programs.build(slidegateCommand); err != nil { // which makes the directory
		return "", "", err
	}
	dir = filepath.Join(s.programs.dir, "runtime", "ratelimit", "config")
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	return filepath.Join(s.programs.dir, "runtime"), dir, os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(rules), 0o600)
}

func startRLS(s *Doors, store ...string) (string, error) {
	_, dir, err := s.ruleDir()
	if err != nil {
		return "", err
	}
	return s.programs.start(slidegateCommand, func(cmd *exec.Cmd, addr string) {
		cmd.Args = append(cmd.Args, "serve", "--listen", "", "--admin", "", "--rls-listen", addr, "--rls-config", dir)
		cmd.Args = append(cmd.Args, store...)
	})
}

// startRateLimit starts the original as it is, but for statistics, which it would send somewhere. A larger pool or a REDIS_PIPELINE_WINDOW
// makes it no quicker here.
func startRateLimit(s *Doors) (string, error) {
	root, _, err := s.ruleDir()
	if err != nil {
		return "", err
	}
	var others [2]string
	for i := range others {
		addr, err := freeAddr()
		if err != nil {
			return "", err
		}
		_, others[i], _ = net.SplitHostPort(addr)
	}
	return s.programs.start(rateLimitCommand, func(cmd *exec.Cmd, addr string) {
		host, port, _ := net.SplitHostPort(addr)
		cmd.Env = append(os.Environ(),
			"USE_STATSD=false", "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+s.redis().Addr,
			"GRPC_HOST="+host, "GRPC_PORT="+port, "HOST="+host, "PORT="+others[0], "DEBUG_HOST="+host, "DEBUG_PORT="+others[1])
	})
}

func startBareRLS(s *Doors) (string, error) {
	addr, err := startRLS(s)
	if err != nil {
		return "", err
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), rlsRequest(0))
	if err != nil {
		return "", err
	}
	text, err := proto.Marshal(answer)
	if err != nil {
		return "", err
	}
	return s.programs.start(bareCommand, func(cmd *exec.Cmd, addr string) {
		cmd.Args = append(cmd.Args, "-rls", "-listen", addr)
		cmd.Stdin = strings.NewReader(string(text))
	})
}

// rlsRequest asks about the i-th client.
func rlsRequest(i int) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{
		{Key: "generic_key", Value: "api"}, {Key: "remote_address", Value: fmt.Sprintf("198.18.%d.%d", i>>8, i&0xff)},
	}}}}
}
