package rediscases

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // the tests look for servers that are not there
	goleak.VerifyTestMain(m,
		// A rueidis closes connections to a cluster five seconds after it has replaced them.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
