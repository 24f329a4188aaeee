package httpgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A seen request is what RefundIf and whoever is around the gate saw of it.
type seen struct {
	statuses []int
	panicked any
}

// watched serves next behind a gate that gives every charge back, and tells what was seen of each
// request when all of it is done. Whatever next panics with must come out of the gate as it was.
func watched(t *testing.T, l *slidegate.Limiter, next http.HandlerFunc) (*httptest.Server, <-chan seen) {
	t.Helper()
	done := make(chan seen, 1)
	var now seen
	gate := httpgate.MustNew(l, httpgate.RefundIf(func(status int) bool {
		now.statuses = append(now.statuses, status)
		return true
	})).Wrap(next)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now = seen{}
		defer func() {
			v := recover()
			now.panicked = v
			if done <- now; v != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		gate.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, done
}

func hijack(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	conn.Close()
}

// TestStatusThatCounts is the final one, whatever the handler does; the client gets the same, and the
// charge is given back each time.
func TestStatusThatCounts(t *testing.T) {
	failed := errors.New("a failure of the handler's own")
	for _, c := range []struct {
		name   string
		next   http.HandlerFunc
		status int // that is asked about
		client int // what the client gets, 0 for a broken connection
		panics error
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, 200, nil},
		{"a body", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, 200, 200, nil},
		{"bytes", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }, 200, 200, nil},
		{"a header", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 401, 401, nil},
		{"two headers", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }, 401, 401, nil},
		{"a body, then a header", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a"); w.WriteHeader(500) }, 200, 200, nil},
		{"early hints", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(100)
			w.WriteHeader(404)
		}, 404, 404, nil},
		{"early hints alone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) }, 200, 200, nil},
		{"a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200, 200, nil},
		{"a flush by the controller", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(500)
		}, 200, 200, nil},
		{"a copy", func(w http.ResponseWriter, _ *http.Request) {
			if n, err := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 5)); n != 5 || err != nil {
				t.Error(n, err)
			}
			w.WriteHeader(500)
		}, 200, 200, nil},
		{"a copy of nothing", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, io.LimitReader(strings.NewReader(""), 5))
			w.WriteHeader(404)
		}, 404, 404, nil},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusSeeOther) }, 303, 303, nil},
		{"other protocols", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101); w.WriteHeader(500) }, 101, 101, nil},
		{"a hijack", func(w http.ResponseWriter, _ *http.Request) { hijack(t, w) }, 101, 101, nil},
		{"a header after a hijack", func(w http.ResponseWriter, _ *http.Request) { hijack(t, w); w.WriteHeader(500) }, 101, 101, nil},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(failed) }, 500, 0, failed},
		{"an abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500, 0, http.ErrAbortHandler},
		{"early hints, then a panic", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); panic(failed) }, 500, 0, failed},
		{"a header, then a panic", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			http.NewResponseController(w).Flush()
			panic(failed)
		}, 401, 401, failed},
		{"a body, then an abort", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "hello")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 200, 200, http.ErrAbortHandler},
		{"what is no status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }, 500, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := slidegate.MustNew(memstore.New(), slidegate.PerHour(1), slidegate.PerDay(1).Counter())
			srv, done := watched(t, l, c.next)
			client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			defer client.CloseIdleConnections()
			for range 2 { // the second would be refused, were the first not given back
				resp, err := client.Get(srv.URL)
				status := 0
				if err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				if status != c.client {
					t.Errorf("the client got %d, %v, want %d", status, err, c.client)
				}
				got := <-done
				if fmt.Sprint(got.statuses) != fmt.Sprint([]int{c.status}) {
					t.Errorf("asked about %v, want %d once", got.statuses, c.status)
				}
				if c.panics != nil && got.panicked != any(c.panics) || (got.panicked != nil) != (c.panics != nil || c.name == "what is no status") {
					t.Errorf("a panic came out of the gate as %v", got.panicked)
				}
			}
		})
	}
}

// TestClientThatHangsUp gets its charge back all the same, and by a context that is still good.
func TestClientThatHangsUp(t *testing.T) {
	store := &contextual{Store: memstore.New(), refunds: make(chan error, 1)}
	entered := make(chan struct{})
	srv, done := watched(t, slidegate.MustNew(store, slidegate.PerHour(1)), func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		w.WriteHeader(401)
	})
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	go func() {
		<-entered
		cancel()
	}()
	if _, err := srv.Client().Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	if got := <-done; len(got.statuses) != 1 || got.statuses[0] != 401 {
		t.Errorf("asked about %v", got.statuses)
	}
	if err := <-store.refunds; err != nil {
		t.Errorf("given back in a context with %v", err)
	}
}

// A contextual store tells whether the context of a refund was good, and whether it ends.
type contextual struct {
	slidegate.Store
	refunds chan error
}

type contextualPlan struct {
	slidegate.Plan
	s *contextual
}

func (s *contextual) Bind(l []slidegate.Limit) (slidegate.Plan, error) {
	p, err := s.Store.Bind(l)
	return contextualPlan{p, s}, err
}

func (p contextualPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	err := ctx.Err()
	if _, ends := ctx.Deadline(); err == nil && !ends {
		err = errors.New("no deadline")
	}
	p.s.refunds <- err
	return p.Plan.Refund(ctx, key, charged, cost)
}

// What a ResponseWriter may be beside.
type (
	flushes struct{ n *int }
	hijacks struct{ n *int }
	pushes  struct{ n *int }
	reads   struct{ n *int }
)

func (f flushes) Flush() { *f.n++ }
func (h hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*h.n++
	return nil, nil, errors.New("not today")
}
func (p pushes) Push(string, *http.PushOptions) error { *p.n++; return nil }
func (r reads) ReadFrom(src io.Reader) (int64, error) { *r.n++; return io.Copy(io.Discard, src) }

// A bare writer is no more than a ResponseWriter.
type bare struct{ r *httptest.ResponseRecorder }

func (b bare) Header() http.Header         { return b.r.Header() }
func (b bare) Write(d []byte) (int, error) { return b.r.Write(d) }
func (b bare) WriteHeader(status int)      { b.r.WriteHeader(status) }

// unwraps is how a well-behaved middleware wraps a writer.
type unwraps struct {
	bare
	under http.ResponseWriter
}

func (u unwraps) Unwrap() http.ResponseWriter { return u.under }

// TestWriterIsWhatItWritesTo: a Flusher, a Hijacker and a Pusher exactly where the writer under it is one, or one
// under that, and what is called arrives there.
func TestWriterIsWhatItWritesTo(t *testing.T) {
	for set := range 16 {
		for _, deep := range []bool{false, true} {
			var flushed, hijacked, pushed, read int
			b := bare{httptest.NewRecorder()}
			f, h, p, r := flushes{&flushed}, hijacks{&hijacked}, pushes{&pushed}, reads{&read}
			under := []http.ResponseWriter{
				b, struct {
					bare
					flushes
				}{b, f}, struct {
					bare
					hijacks
				}{b, h}, struct {
					bare
					flushes
					hijacks
				}{b, f, h}, struct {
					bare
					pushes
				}{b, p}, struct {
					bare
					flushes
					pushes
				}{b, f, p}, struct {
					bare
					hijacks
					pushes
				}{b, h, p}, struct {
					bare
					flushes
					hijacks
					pushes
				}{b, f, h, p},
			}[set&7]
			if set&8 != 0 {
				under = struct {
					http.ResponseWriter
					reads
				}{under, r}
				if set&7 != 0 {
					continue // covered by the others
				}
			}
			if deep {
				under = unwraps{b, under}
			}
			handler := httpgate.PerIP(slidegate.PerHour(1), httpgate.RefundIf(func(int) bool { return false }))
			handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if f, ok := w.(http.Flusher); ok != (set&1 != 0) {
					t.Errorf("%b: a Flusher: %v", set, ok)
				} else if ok {
					f.Flush()
				}
				if h, ok := w.(http.Hijacker); ok != (set&2 != 0) {
					t.Errorf("%b: a Hijacker: %v", set, ok)
				} else if ok {
					h.Hijack()
				}
				if p, ok := w.(http.Pusher); ok != (set&4 != 0) {
					t.Errorf("%b: a Pusher: %v", set, ok)
				} else if ok {
					p.Push("/x", nil)
				}
				if n, err := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 5)); n != 5 || err != nil {
					t.Errorf("%b: copied %d, %v", set, n, err)
				}
				if err := http.NewResponseController(w).Flush(); (err == nil) != (set&1 != 0) {
					t.Errorf("%b: the controller flushes: %v", set, err)
				}
			})).ServeHTTP(under, request("GET", "/", ""))
			if want := set & 1 * 2; flushed != want || hijacked != set>>1&1 || pushed != set>>2&1 || read != set>>3&1 && !deep {
				t.Errorf("%b, deep %v: flushed %d, hijacked %d, pushed %d, read %d", set, deep, flushed, hijacked, pushed, read)
			}
		}
	}
}

// responseDependent is STR-03: an option that has to wrap the response takes nothing from it.
func responseDependent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	content := strings.Repeat("all of it ", 10_000)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "first\n")
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		<-release
		io.WriteString(w, "last\n")
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) { hijack(t, w) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("no ReaderFrom")
		}
		http.ServeFile(w, r, file)
	})
	mux.HandleFunc("/twice", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418); w.WriteHeader(200) })
	for _, http2 := range []bool{false, true} {
		var complaints strings.Builder
		srv := httptest.NewUnstartedServer(httpgate.PerIP(slidegate.PerHour(9), httpgate.RefundIf(func(status int) bool { return status < 400 }))(mux))
		srv.Config.ErrorLog = log.New(&complaints, "", 0)
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		get := func(path string) *http.Response {
			resp, err := srv.Client().Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := get("/stream")
		first := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first\n" {
			t.Errorf("%q, %v before the handler has ended", first, err)
		}
		release <- struct{}{}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "last\n" {
			t.Errorf("%q, %v", rest, err)
		}
		resp.Body.Close()
		resp = get("/file")
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != content {
			t.Errorf("a file of %d bytes, %v", len(body), err)
		}
		resp.Body.Close()
		resp = get("/twice")
		resp.Body.Close()
		expect(t, "two headers", fmt.Sprint(resp.StatusCode), "418")
		if !http2 {
			resp = get("/upgrade")
			resp.Body.Close()
			expect(t, "an upgrade", fmt.Sprint(resp.StatusCode), "101")
		}
		srv.Close()
		if complaints.Len() > 0 {
			t.Errorf("the server says %s", complaints.String())
		}
	}
}
