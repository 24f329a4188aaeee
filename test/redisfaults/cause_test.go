package redisfaults_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestTheErrorSaysWhyNobodyAnswered: where nothing listens, the error says that and wraps it, though a library tries to
// connect for longer than a call may take; and a server that is frozen afterwards is not taken for one that is away.
func TestTheErrorSaysWhyNobodyAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range clients[:2] { // a rueidis does not begin without a server, and says why
		for _, cluster := range []bool{false, true} {
			server := redistest.NewServer(t)
			client := c.connect(t, target{addrs: []string{server.Addr}, cluster: cluster})
			limiter := slidegate.MustNew(redisstore.New(client), slidegate.PerMinute(1000))
			for range 3 {
				_, err := limiter.Take(background, "ann")
				if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused") {
					t.Errorf("%s, a cluster %v: %v", c.name, cluster, err)
				}
			}
			if cluster {
				continue
			}
			server.Start()
			redistest.Await(t, backIn, "an answer", func() bool {
				_, err := limiter.Take(background, "ann")
				return err == nil
			})
			server.Freeze()
			if _, err := limiter.Take(background, "ann"); !errors.Is(err, slidegate.ErrUnavailable) || errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "no answer within 50ms") {
				t.Errorf("%s, frozen: %v", c.name, err)
			}
			server.Thaw()
		}
	}
}
