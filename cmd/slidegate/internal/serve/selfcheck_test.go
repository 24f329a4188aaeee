package serve

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// testServer returns one that is built and does not run, and what it logs.
func testServer(t *testing.T, args ...string) (*server, *strings.Builder) {
	t.Helper()
	cmd, p := command("test")
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	log := new(strings.Builder)
	s, err := p.build("test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.backend.close)
	return s, log
}

// lenient is a store that admits all.
func lenient(store slidegate.Store) slidegate.Store {
	return wrap.Shadow(store, func([]slidegate.Limit) {})
}

// TestCheckStore: a store has to admit the quota and no more, whatever counts; one that cannot be asked says nothing.
func TestCheckStore(t *testing.T) {
	memory := memstore.New()
	defer memory.Close()
	for _, c := range []struct {
		name  string
		store slidegate.Store
		want  error
	}{
		{"one that holds", memory, nil},
		{"one that admits all", lenient(memory), errExcess},
		{"one that admits too little", wrap.Fallback(gatetest.Failing(nil), memory, wrap.WithShare(1, 2)), errExcess},
		{"one that is away", gatetest.Failing(nil), slidegate.ErrUnavailable},
	} {
		if err := checkStore(t.Context(), c.store); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if n := memory.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestSelfCheckIsLoud: a store that does not hold is told of in the log, once, in the metrics and by /readyz, and so is that it does.
func TestSelfCheckIsLoud(t *testing.T) {
	s, log := testServer(t, "--limit", "5/1h")
	page := func(path string) string {
		w := httptest.NewRecorder()
		s.openHandler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		text, _ := io.ReadAll(w.Body)
		return "\n" + string(text)
	}
	good := s.backend.store
	for _, step := range []struct {
		store                  slidegate.Store
		passed, failed, logged string
	}{
		{lenient(good), "0", "1", "level=ERROR"},
		{lenient(good), "0", "1", ""},
		{good, "1", "0", "level=INFO"},
		{good, "1", "0", ""},
	} {
		log.Reset()
		s.backend.store = step.store
		again := s.try(t.Context())
		text := page("/metrics")
		if !strings.Contains(text, "\nslidegate_self_check_passed "+step.passed+"\n") || !strings.Contains(text, "\nslidegate_self_check_failed "+step.failed+"\n") {
			t.Errorf("%+v: %s", step, text)
		}
		if got := page("/readyz"); strings.Contains(got, "the self-check failed") != (step.failed == "1") || !strings.HasPrefix(got, "\nready\n") {
			t.Errorf("%+v: /readyz says %q", step, got)
		}
		if got := log.String(); (got == "") != (step.logged == "") || !strings.Contains(got, step.logged) {
			t.Errorf("%+v: the log has %q", step, got)
		}
		if (again > 0) != (step.failed == "1") {
			t.Errorf("%+v: again after %s", step, again)
		}
	}
}

// TestSelfCheckWaitsForTheStore: while it is away nothing is said, also where a share decides in its place, and it is tried again.
func TestSelfCheckWaitsForTheStore(t *testing.T) {
	for _, more := range [][]string{nil, {"--fallback", "1/4"}} {
		s, log := testServer(t, append([]string{"--limit", "5/1h", "--store", "redis://127.0.0.1:1", "--store-timeout", "1ms"}, more...)...)
		if again := s.try(t.Context()); again <= 0 || s.checked.state.Load() != untried {
			t.Errorf("%v: again after %s, state %d", more, again, s.checked.state.Load())
		}
		if err := s.trial(t.Context()); !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("%v: tried all the same: %v", more, err)
		}
		if strings.Contains(log.String(), "self-check") {
			t.Errorf("%v: %s", more, log)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if again := s.try(ended); again != 0 {
			t.Errorf("%v: again after %s when all ends", more, again)
		}
	}
}
