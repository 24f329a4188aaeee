package soak

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/test/servetest"
)

var (
	soakFor  = flag.Duration("for", 20*time.Second, "how long TestSoak keeps everything at work; all acts are played once however short that is")
	plotFile = flag.String("plot", "", "where TestSoak draws memory over time, as SVG; nowhere unless said so")
)

// command is the path of the one that TestMain built.
var command string

// TestMain builds the command, and finds goroutines that any test leaves behind.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // what go-redis has to say comes as errors as well
	built, remove, err := servetest.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command = built
	goleak.VerifyTestMain(m,
		// A rueidis pings for a moment after it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).backgroundPing.func1"),
		goleak.Cleanup(func(code int) {
			remove()
			os.Exit(code)
		}))
}
