package rules_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/memstore"
)

// A watched is a file whose changes are taken up.
type watched struct {
	t    *testing.T
	path string
	live *rules.Live
	mu   sync.Mutex
	said []rules.Reload
}

// write puts a file in the place of another at once.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{t: t, path: path}
	store := memstore.New()
	t.Cleanup(func() { store.Close() })
	engine := func(f *rules.File) (*rules.Engine, error) { return rules.New(f, rules.Options{Store: store}) }
	f, err := rules.ReadFile(path, flags())
	if err != nil {
		t.Fatal(err)
	}
	if w.live, err = rules.Open(f, engine, w.report); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watched) report(r rules.Reload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, r)
}

// watch looks every millisecond until the test ends.
func (w *watched) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.live.Watch(ctx, time.Millisecond) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// reloads waits for so many attempts in all and returns the last.
func (w *watched) reloads(n int) rules.Reload {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		w.mu.Lock()
		said := w.said
		w.mu.Unlock()
		if len(said) >= n {
			return said[len(said)-1]
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d reloads, want %d", len(said), n)
		}
	}
}

func (w *watched) status(path string) int {
	r := httptest.NewRequest("GET", path, nil)
	rec := httptest.NewRecorder()
	w.live.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})).ServeHTTP(rec, r)
	return rec.Code
}

func limited(quota int) string { return fmt.Sprintf("rules: [{name: all, limits: %d/1h}]\n", quota) }

// TestABadFileKeepsTheLastGoodOne, says so once, and the next good one is taken with what was counted.
func TestABadFileKeepsTheLastGoodOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, limited(2))
	w := open(t, path)
	w.watch()
	got := []int{w.status("/")}
	write(t, path, "rules: [{name: all, limits: 3/")
	if r := w.reloads(1); r.Err == nil || !strings.Contains(r.Err.Error(), "rules.yaml") || len(r.File.Rules) != 1 {
		t.Errorf("it said %+v", r)
	}
	got = append(got, w.status("/"), w.status("/"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r := w.reloads(2); r.Err == nil || !strings.Contains(r.Err.Error(), "cannot be read: no such file") {
		t.Errorf("it said %+v", r)
	}
	got = append(got, w.status("/"))
	write(t, path, limited(3))
	if r := w.reloads(3); r.Err != nil || fmt.Sprint(r.Changes) != "[all: 2/1h → 3/1h, 1.5 times looser]" {
		t.Errorf("it said %+v", r)
	}
	got = append(got, w.status("/"), w.status("/"))
	if fmt.Sprint(got) != "[200 200 429 429 200 429]" {
		t.Errorf("got %v", got)
	}
	if err := w.live.Reload(); err != nil { // as it is
		t.Error(err)
	}
	if n := len(w.said); n != 4 {
		t.Errorf("%d reloads were told of", n)
	}
}

// TestAConfigMapIsSwapped: Kubernetes puts a new directory behind a symbolic link, and the file is a link through it.
func TestAConfigMapIsSwapped(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "rules.yaml"), text)
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version("..v1", limited(1))
	link("..v1", "..data")
	link(filepath.Join("..data", "rules.yaml"), "rules.yaml")
	w := open(t, filepath.Join(dir, "rules.yaml"))
	w.watch()
	got := []int{w.status("/"), w.status("/")}
	version("..v2", limited(2))
	link("..v2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "..v1")); err != nil {
		t.Fatal(err)
	}
	for w.reloads(1).Err != nil { // a look between two of the steps
		w.reloads(2)
	}
	if got = append(got, w.status("/"), w.status("/")); fmt.Sprint(got) != "[200 429 200 429]" {
		t.Errorf("got %v", got)
	}
}

// TestOverridesFileIsWatched with the file that names it.
func TestOverridesFileIsWatched(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plans.txt"), "# nobody yet\n\n")
	write(t, filepath.Join(dir, "rules.yaml"), "rules: [{name: all, limits: 1/1h, plans: {big: 3/1h}, overrides-file: plans.txt}]\n")
	w := open(t, filepath.Join(dir, "rules.yaml"))
	w.watch()
	got := []int{w.status("/"), w.status("/")}
	write(t, filepath.Join(dir, "plans.txt"), "ip:192.0.2.1 big\nip:192.0.2.9\tblocked\n")
	if r := w.reloads(1); r.Err != nil || fmt.Sprint(r.Changes) != "[all: overrides: 2 keys added, 0 removed, 0 with another plan]" {
		t.Errorf("it said %+v", r)
	}
	got = append(got, w.status("/"), w.status("/"), w.status("/"))
	if fmt.Sprint(got) != "[200 429 200 200 429]" {
		t.Errorf("got %v", got)
	}
	write(t, filepath.Join(dir, "plans.txt"), "ip:192.0.2.1 big\n\nip:192.0.2.9 bgi\nnobody\n")
	r := w.reloads(2)
	for _, want := range []string{`plans.txt:3: plan "bgi": did you mean "big"? allowed is unlimited, blocked or big`, "plans.txt:4: a line has a key and the name of its plan"} {
		if r.Err == nil || !strings.Contains(r.Err.Error(), want) || strings.Contains(r.Err.Error(), "192.0.2.9") {
			t.Errorf("it said %v, not %s", r.Err, want)
		}
	}
}

// TestReloadsUnderLoadLoseAndRefillNothing: while the quota goes up and down, exactly the largest that ever was is admitted.
func TestReloadsUnderLoadLoseAndRefillNothing(t *testing.T) {
	const least, most, clients, each = 500, 800, 8, 400
	path := filepath.Join(t.TempDir(), "rules.yaml")
	text := func(quota int) string {
		return fmt.Sprintf("match: all\nrules:\n- {name: all, limits: %d/1h}\n- {name: path, key: ip+path, limits: %d/1h, cost: 2}\n", quota, 10*quota)
	}
	write(t, path, text(least))
	w := open(t, path)
	var admitted atomic.Int64
	var load sync.WaitGroup
	for range clients {
		load.Go(func() {
			for range each {
				if w.status("/") == 200 {
					admitted.Add(1)
				}
			}
		})
	}
	reloads := 0
	for done := false; !done; reloads++ {
		quota := least + reloads%2*100
		if done = admitted.Load() >= least && reloads >= 20; done {
			quota = most
		}
		write(t, path, text(quota))
		if err := w.live.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	load.Wait()
	for w.status("/") == 200 {
		admitted.Add(1)
	}
	if admitted.Load() != most {
		t.Errorf("%d admitted over %d reloads, want %d", admitted.Load(), reloads, most)
	}
	if r := w.said[len(w.said)-1]; r.Err != nil {
		t.Error(r.Err)
	}
}

func TestReadFileRefusesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "rules: [{name: a}]\n")
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml: cannot be read: no such file or directory",
		filepath.Join(dir, "bad.yaml"):  "bad.yaml:1: rule 1 has no limits",
		dir:                             "cannot be read: is a directory",
	} {
		if _, err := rules.ReadFile(path, flags()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
