package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/test/servetest"
)

// binary is the command that TestMain built.
var binary string

// TestMain builds the command, runs several faults at a time, since most of the time is spent in waiting for one to
// end, and finds goroutines that any of them leaves behind.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // what go-redis has to say comes as errors as well
	built, remove, err := servetest.Build()
	binary = built
	if err == nil {
		err = flag.Set("test.parallel", "4")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m,
		// A rueidis pings for a moment after it was closed, and closes connections to a cluster five seconds after it has
		// replaced them.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).backgroundPing.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.Cleanup(func(code int) {
			remove()
			os.Exit(code)
		}))
}
