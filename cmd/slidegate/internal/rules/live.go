package rules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
)

// A Reload is an attempt to take up a changed file.
type Reload struct {
	At      time.Time
	Err     error    // why the file was not taken: Problems, or that it cannot be read; the last good one holds
	Changes []Change // what it means, where it was taken
	File    *File    // the one that holds now
}

// A Live is the Engine of a file that may change. Requests that are under way end with the rules they began with. A
// change loses and refills nothing, since the store is the same and its state is found by names. It is safe for
// concurrent use.
type Live struct {
	path   string
	flags  *pflag.FlagSet
	make   func(*File) (*Engine, error)
	report func(Reload)

	mu      sync.Mutex // of reloading
	tried   []byte     // what was last looked at
	ignored atomic.Uint64
	current atomic.Pointer[Engine]
}

// Open makes the Engine of a file that was read with [ReadFile], to follow its changes. report is told of every later
// attempt to take up a change, on the goroutine of Reload or Watch.
func Open(f *File, engine func(*File) (*Engine, error), report func(Reload)) (*Live, error) {
	e, err := engine(f)
	if err != nil {
		return nil, err
	}
	l := &Live{path: f.Name, flags: f.flags, make: engine, report: report}
	l.tried = l.content(f, nil)
	l.current.Store(e)
	return l, nil
}

// ReadFile reads a file as Read does. One that cannot be read is a problem of it.
func ReadFile(path string, flags *pflag.FlagSet) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Problems{{File: path, Text: "cannot be read: " + unwrapped(err).Error()}}
	}
	return Read(path, text, flags)
}

// Engine returns the one that holds now.
func (l *Live) Engine() *Engine { return l.current.Load() }

// Handler returns a handler that holds requests to the rules before next.
func (l *Live) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Engine().serve(w, r, next, false) })
}

// Verdicts is that of the Engine.
func (l *Live) Verdicts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Engine().serve(w, r, next, true) })
}

// IgnoredHeaders is that of all engines there have been.
func (l *Live) IgnoredHeaders() uint64 { return l.ignored.Load() + l.Engine().IgnoredHeaders() }

// Reload takes up the file as it is now, also where it has not changed. If it is wrong the last good one holds, and the
// error says what is.
func (l *Live) Reload() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := ReadFile(l.path, l.flags)
	l.tried = l.content(f, err)
	return l.take(f, err)
}

// take replaces the engine, or keeps it.
func (l *Live) take(f *File, err error) error {
	var next *Engine
	if err == nil {
		next, err = l.make(f)
	}
	done := Reload{At: time.Now(), Err: err, File: l.Engine().file}
	if err == nil {
		old := l.current.Swap(next)
		l.ignored.Add(old.IgnoredHeaders())
		done.File, done.Changes = f, Diff(old.file, f)
	}
	if l.report != nil {
		l.report(done)
	}
	return err
}

// Watch reloads the file when it has changed, or one that it names, until ctx ends. It looks every so often at what is
// there, whatever way it came there: written in place, renamed, or behind a symbolic link, as Kubernetes swaps a
// ConfigMap. A change is taken up when it is there at two looks in a row, so that a file is not read half-written.
func (l *Live) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			last = l.look(last)
		}
	}
}

// look reloads what has changed since it was last tried and is as it was at the last look. It returns what is there.
func (l *Live) look(last []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := ReadFile(l.path, l.flags)
	now := l.content(f, err)
	if bytes.Equal(now, l.tried) || !bytes.Equal(now, last) {
		return now
	}
	l.tried = now
	_ = l.take(f, err) // which is reported
	return now
}

// content is what a file is known by: everything that was read for it, or what is wrong with it.
func (l *Live) content(f *File, err error) []byte {
	sum := sha256.New()
	if err != nil {
		text, unreadable := os.ReadFile(l.path)
		fmt.Fprintf(sum, "%v\x00%v\x00%s", err, unreadable, text)
		return sum.Sum(nil)
	}
	for _, path := range sortedNames(f.sources) {
		fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(f.sources[path]), f.sources[path])
	}
	return sum.Sum(nil)
}
