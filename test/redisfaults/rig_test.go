package redisfaults_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	timeout  = 500 * time.Millisecond // of a store that meets a fault
	slack    = 2 * time.Second        // for a busy machine
	backIn   = 2 * time.Second        // a store that is back is used again
	generous = 20 * time.Second       // timeout of a store that meets none
)

var background = context.Background()

// A rig is a limiter over a store, and all that was seen of it.
type rig struct {
	*slidegate.Limiter
	store *redisstore.Store
	log   *logged
	quota int64

	mu               sync.Mutex
	admitted, failed int64 // units of key
	worst            time.Duration
	wrong            error // the first error that is none of a store that cannot be asked
	cause            error // the last error
}

// key is the one key of a rig. Whoever finds it in an error or a log line has found a leak.
const key = "somebody"

// newRig returns a limiter that no test exhausts.
func newRig(t testing.TB, client redisstore.Client, options ...redisstore.Option) *rig {
	t.Helper()
	r := &rig{log: new(logged), quota: 1_000_000}
	options = append([]redisstore.Option{redisstore.WithTimeout(timeout), redisstore.WithLogger(slog.New(slog.NewTextHandler(r.log, nil)))}, options...)
	r.store = redisstore.New(client, options...)
	l, err := slidegate.New(r.store, slidegate.PerHour(r.quota).Named("hour"))
	if err != nil {
		t.Fatal(err)
	}
	r.Limiter = l
	return r
}

// take takes one unit of key and notes what came of it.
func (r *rig) take() error {
	start := time.Now()
	d, err := r.Take(background, key)
	took := time.Since(start)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worst = max(r.worst, took)
	switch {
	case err == nil && d.Allowed:
		r.admitted++
		return nil
	case err == nil:
		err = errors.New("refused")
		r.wrong = err
	case !isUnavailable(err) && r.wrong == nil:
		r.wrong = err
	}
	r.failed++
	r.cause = err
	return err
}

// isUnavailable tells whether an error is as that of a store that could not be asked has to be.
func isUnavailable(err error) bool {
	return errors.Is(err, slidegate.ErrUnavailable) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), key)
}

// takeFor takes one unit after the other, n callers at a time, each at most every two milliseconds,
// until the time is over.
func (r *rig) takeFor(d time.Duration, n int) {
	end := time.Now().Add(d)
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			pace := time.NewTicker(2 * time.Millisecond)
			defer pace.Stop()
			for r.take(); time.Now().Before(end); r.take() {
				<-pace.C
			}
		})
	}
	callers.Wait()
}

// mustTake takes n units and fails the test at the first error.
func (r *rig) mustTake(t testing.TB, n int) {
	t.Helper()
	for range n {
		if err := r.take(); err != nil {
			t.Fatal(err)
		}
	}
}

// begin opens connections, and more than one.
func (r *rig) begin(t testing.TB) {
	t.Helper()
	redistest.Await(t, generous, "a first decision", func() bool { return r.take() == nil })
	r.takeFor(50*time.Millisecond, 8)
}

// awaitBack fails the test if the store is not used again within two seconds, and soon for good:
// errors may come while connections are renewed.
func (r *rig) awaitBack(t testing.TB) {
	t.Helper()
	redistest.Await(t, backIn+slack, "a store that is back is used", func() bool { return r.take() == nil })
	r.takeFor(100*time.Millisecond, 8)
	redistest.Await(t, 5*backIn, "a store that is back stays", func() bool {
		for range 50 {
			if r.take() != nil {
				return false
			}
		}
		return true
	})
}

// check fails the test if an answer was late or an error wrong.
func (r *rig) check(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worst > timeout+slack {
		t.Errorf("an answer after %s, the timeout is %s", r.worst, timeout)
	}
	if r.wrong != nil {
		t.Errorf("an error that is none of a store that cannot be asked: %v", r.wrong)
	}
}

// checkCharged fails the test if something was charged twice, or not at all: what a call charged
// that failed is not known, all others were charged exactly once.
func (r *rig) checkCharged(t testing.TB) {
	t.Helper()
	used := r.used(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if used < r.admitted || used > r.admitted+r.failed {
		t.Errorf("%d units are charged, of %d that were admitted and %d that failed", used, r.admitted, r.failed)
	}
}

func (r *rig) used(t testing.TB) int64 {
	t.Helper()
	d, err := r.Peek(background, key)
	if err != nil {
		t.Fatal(err)
	}
	return r.quota - d.Remaining()
}

// logged is what a logger wrote.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns what was logged at a level.
func (l *logged) lines(level slog.Level) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level="+level.String()+" ") {
			all = append(all, line)
		}
	}
	return all
}

// checkLogged fails the test unless it was logged that Redis was gone, and then that it was back:
// once, or once more where the machine was too busy to answer in time, and not for every call.
func (r *rig) checkLogged(t testing.TB) {
	t.Helper()
	redistest.Await(t, backIn+slack, "a line that Redis is back", func() bool {
		r.take()
		return len(r.log.lines(slog.LevelInfo)) > 0
	})
	gone, back := r.log.lines(slog.LevelWarn), r.log.lines(slog.LevelInfo)
	all := strings.Join(append(gone, back...), "")
	if len(gone) < 1 || len(gone) > 3 || len(back) > len(gone) || len(r.log.lines(slog.LevelError)) != 0 || strings.Contains(all, key) {
		t.Errorf("logged, of %d failures:\n%s", r.failed, all)
	}
}
