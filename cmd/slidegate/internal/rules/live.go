package rules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
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
	paths   []string   // of the files of which it was
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
	l.note(f)
	l.current.Store(e)
	return l, nil
}

// ReadFile reads a file as Read does. One that cannot be read is a problem of it.
func ReadFile(path string, flags *pflag.FlagSet) (*File, error) {
	f, err := read(path, flags, config.ReadFile)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// read returns the file also where it is wrong, for its sources.
func read(path string, flags *pflag.FlagSet, from func(string, int64) ([]byte, error)) (*File, error) {
	text, err := from(path, maxSize)
	if err != nil {
		return &File{sources: map[string][]byte{path: unreadable(err)}}, Problems{{File: path, Text: "cannot be read: " + err.Error()}}
	}
	return parse(path, text, flags)
}

// unreadable is what stands for the content of a file that cannot be read.
func unreadable(err error) []byte { return []byte("\x00" + err.Error()) }

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
	f, err := read(l.path, l.flags, config.ReadFileAtOnce)
	l.note(f)
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
	if bytes.Equal(l.there(), l.tried) {
		return l.tried // without reading rules, of which there may be thousands
	}
	f, err := read(l.path, l.flags, config.ReadFileAtOnce)
	now := content(f.sources)
	if !bytes.Equal(now, last) {
		return now
	}
	l.note(f)
	_ = l.take(f, err) // which is reported
	return now
}

// note keeps what a file is known by, whether it is taken or not.
func (l *Live) note(f *File) {
	l.tried, l.paths = content(f.sources), sortedNames(f.sources)
}

// there is what the files that were last looked at are known by now.
func (l *Live) there() []byte {
	now := make(map[string][]byte, len(l.paths))
	for _, path := range l.paths {
		most := int64(maxSize)
		if path != l.path {
			most = maxOverrides
		}
		text, err := config.ReadFileAtOnce(path, most)
		if err != nil {
			text = unreadable(err)
		}
		now[path] = text
	}
	return content(now)
}

// content is what a file is known by: everything that was read for it, or why it cannot be.
func content(sources map[string][]byte) []byte {
	sum := sha256.New()
	for _, path := range sortedNames(sources) {
		fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(sources[path]), sources[path])
	}
	return sum.Sum(nil)
}
