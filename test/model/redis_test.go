package model

import (
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/test/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

func limiterOn(t *testing.T, server *redistest.Server) *slidegate.Limiter {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(goredisstore.New(client), redisstore.WithTimeout(20*time.Second))
	return slidegate.MustNew(store, slidegate.PerHour(shared))
}

// admits takes until a unit is refused, or most are admitted, and returns the decisions.
func admits(t *testing.T, l *slidegate.Limiter, most int) (all []slidegate.Decision) {
	t.Helper()
	for len(all) < most {
		d, err := l.Take(background, "k")
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			break
		}
		all = append(all, d)
	}
	return all
}

// TestARealFailoverAdmitsWhatWasLost, as the model says: no more than that, and as much. What was lost cannot be given back.
func TestARealFailoverAdmitsWhatWasLost(t *testing.T) {
	pair := redistest.PrimaryReplica(t)
	primary := limiterOn(t, pair.Primary)
	admits(t, primary, 2)
	pair.AwaitSync()
	pair.Replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(pair.Replica.Port)) // itself: it hears nothing from now on
	lost := admits(t, primary, shared)
	pair.Primary.Kill()
	pair.Promote()
	promoted := limiterOn(t, pair.Replica)
	if n := len(admits(t, promoted, 2*shared)); n != len(lost) || n != shared-2 {
		t.Errorf("of %d units %d were lost, and %d were admitted again", shared, len(lost), n)
	}
	if err := promoted.Refund(background, &lost[0]); err != nil {
		t.Fatal(err)
	}
	if n := len(admits(t, promoted, 2*shared)); n != 0 {
		t.Errorf("what was lost was given back: %d more were admitted", n)
	}
}

// TestARealPrimaryThatIsCutOffServesItsOwnQuota, as the model says, and none where a primary without a replica takes no charge.
func TestARealPrimaryThatIsCutOffServesItsOwnQuota(t *testing.T) {
	pair := redistest.PrimaryReplica(t)
	old, promoted := limiterOn(t, pair.Primary), limiterOn(t, pair.Replica)
	pair.Promote()
	if n, m := len(admits(t, old, 2*shared)), len(admits(t, promoted, 2*shared)); n != shared || m != shared {
		t.Errorf("the old primary admits %d, the new one %d, want %d each", n, m, shared)
	}
	pair.Primary.Flush()
	pair.Primary.Set("min-replicas-to-write", "1")
	if d, err := old.Take(background, "k"); err == nil {
		t.Errorf("a primary that has lost its replica decides: %s", d)
	}
}
