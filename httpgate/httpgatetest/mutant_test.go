package httpgatetest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/slidegate/slidegate/httpgate/httpgatetest"
)

// A recorder is a testing.TB that fails for itself alone.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Errorf(string, ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// fails tells whether a law finds fault with the servers of start.
func fails(t *testing.T, law httpgatetest.Law, start httpgatetest.Start) bool {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		law.Check(r, start)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// before is a fault of what the gates are shown.
func before(change func(*http.Request)) func(*httpgatetest.App) http.Handler {
	return func(app *httpgatetest.App) http.Handler {
		h := routed(app)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			change(r)
			h.ServeHTTP(w, r)
		})
	}
}

// behind is a fault of what becomes of the answer.
func behind(change func(*httptest.ResponseRecorder)) func(*httpgatetest.App) http.Handler {
	return func(app *httpgatetest.App) http.Handler {
		h := routed(app)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			change(answer)
			for name, lines := range answer.Header() {
				w.Header()[name] = lines
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	}
}

// inside is a fault of what stands behind the gates.
func inside(change func(http.Handler) http.Handler) func(*httpgatetest.App) http.Handler {
	return func(app *httpgatetest.App) http.Handler { return wrap(app.All, change(app.Handler())) }
}

// TestEveryLawCanFail: each law finds a gate with a fault, and each fault is found.
func TestEveryLawCanFail(t *testing.T) {
	var memory [64]byte
	faults := map[string]func(*httpgatetest.App) http.Handler{
		"there is no gate":          func(app *httpgatetest.App) http.Handler { return app.Handler() },
		"only one gate of several":  func(app *httpgatetest.App) http.Handler { return wrap(app.All[:min(1, len(app.All))], app.Handler()) },
		"gates are inside out":      func(app *httpgatetest.App) http.Handler { slices.Reverse(app.All); return routed(app) },
		"every gate is asked twice": func(app *httpgatetest.App) http.Handler { return wrap(app.All, routed(app)) },
		"refused requests reach the handler": func(app *httpgatetest.App) http.Handler {
			gated, bare := routed(app), app.Handler()
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := &status{ResponseWriter: w}
				if gated.ServeHTTP(answer, r); answer.code >= 400 {
					bare.ServeHTTP(httptest.NewRecorder(), r)
				}
			})
		},
		"everybody has one address":      before(func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }),
		"whoever claims to be is":        before(func(r *http.Request) { r.RemoteAddr = claimed(r) }),
		"only one line of a field shows": before(func(r *http.Request) { single(r.Header) }),
		"what is accepted is lost":       before(func(r *http.Request) { r.Header.Del("Accept") }),
		"cookies are lost":               before(func(r *http.Request) { r.Header.Del("Cookie") }),
		"the length is lost":             before(func(r *http.Request) { r.ContentLength = -1 }),
		"the body is read": before(func(r *http.Request) {
			b, _ := io.ReadAll(io.LimitReader(r.Body, 100))
			r.Body = io.NopCloser(bytes.NewReader(b))
		}),
		"keys are memory that is used again": before(func(r *http.Request) {
			if key := r.Header.Get("K"); key != "" && len(key) <= len(memory) && strings.HasPrefix(key, "Key") {
				r.Header.Set("K", unsafe.String(&memory[0], copy(memory[:], key)))
			}
		}),
		"lines of a field are joined": behind(func(w *httptest.ResponseRecorder) {
			for name, lines := range w.Header() {
				w.Header()[name] = []string{strings.Join(lines, ", ")}
			}
		}),
		"refusals are not to be kept for ever": behind(func(w *httptest.ResponseRecorder) { w.Header().Del("Cache-Control") }),
		"refusals have no type":                behind(func(w *httptest.ResponseRecorder) { w.Header().Del("Content-Type") }),
		"errors are 500": behind(func(w *httptest.ResponseRecorder) {
			if w.Code > 429 {
				w.Code = 500
			}
		}),
		"a word is added to errors": behind(func(w *httptest.ResponseRecorder) {
			if w.Code == 429 {
				w.Body.WriteString("sorry")
				w.Header().Del("Content-Length")
			}
		}),
		"decisions are lost": inside(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own, err := http.NewRequest(r.Method, r.URL.String(), r.Body)
				if err != nil {
					t.Error(err)
				}
				h.ServeHTTP(w, own)
			})
		}),
	}
	found := map[string]bool{}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			anything := false
			for _, law := range httpgatetest.Laws() {
				if law.Name == "StreamsArriveAsTheyAreWritten" {
					continue // one that keeps a stream back makes it wait: see below
				}
				if anything && found[law.Name] {
					continue
				}
				if fails(t, law, func(t testing.TB, app *httpgatetest.App) string { return serve(t, app, fault(app)) }) {
					found[law.Name], anything = true, true
				}
			}
			if !anything {
				t.Error("no law finds it")
			}
		})
	}
	for _, law := range httpgatetest.Laws() {
		if !found[law.Name] && law.Name != "StreamsArriveAsTheyAreWritten" {
			t.Errorf("%s finds no fault", law.Name)
		}
	}
}

// TestStreamsThatAreKeptBackAreFound by the law that is there for them.
func TestStreamsThatAreKeptBackAreFound(t *testing.T) {
	httpgatetest.Hurry(t.Cleanup, 300*time.Millisecond)
	law := httpgatetest.Law{Name: "StreamsArriveAsTheyAreWritten", Check: httpgatetest.StreamsArriveAsTheyAreWritten}
	kept := behind(func(*httptest.ResponseRecorder) {})
	if !fails(t, law, func(t testing.TB, app *httpgatetest.App) string { return serve(t, app, kept(app)) }) {
		t.Error("a stream that is kept back passes")
	}
}

func single(h http.Header) {
	for name, lines := range h {
		h[name] = lines[:1]
	}
}

// claimed is the client's address as careless servers find it.
func claimed(r *http.Request) string {
	if first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-For"), ","); first != "" {
		return first + ":1"
	}
	return r.RemoteAddr
}

// A status is a ResponseWriter that remembers it.
type status struct {
	http.ResponseWriter
	code int
}

func (w *status) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *status) Unwrap() http.ResponseWriter { return w.ResponseWriter }
