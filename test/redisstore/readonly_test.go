package redisstore_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestAnAddressThatMovesIsFollowed: the address of the primary leads to another server, while open
// connections lead to the old one, which is a replica now, closes none of them, and answers READONLY.
func TestAnAddressThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, connect connector) {
		pair := redistest.PrimaryReplica(t)
		proxy := redistest.NewProxy(t, pair.Primary.Addr)
		limiter, _ := limiterOn(t, connect(t, proxy.Addr), slidegate.PerHour(1_000_000), redisstore.WithTimeout(ample))
		takeTogether(limiter, 32) // opens more than one connection
		pair.AwaitSync()
		pair.Swap()
		proxy.Retarget(pair.Primary.Addr)
		redistest.Await(t, 2*time.Second, "100 answers, one after the other", func() bool {
			for range 100 {
				if _, err := limiter.Take(background, "k"); err != nil {
					return false
				}
			}
			return true
		})
	})
}
