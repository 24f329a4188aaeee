package caddy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

// limited is a site with one handler of a zone.
func limited(zone, limit, more string) string {
	return fmt.Sprintf("\tslidegate {\n\t\tzone %s\n\t\tlimit %s\n%s\n\t}\n\trespond \"ok\"", zone, limit, more)
}

// TestReloadKeepsCounts and applies what has changed.
func TestReloadKeepsCounts(t *testing.T) {
	s := start(t, limited("a", "n=3/1h", ""))
	s.want(200, `"n";r=2;t=3600`, "/")
	s.want(200, `"n";r=1;t=3600`, "/")

	s.mustReload(limited("a", "n=5/1h", "")) // raised: what was used stays used
	s.want(200, `"n";r=2;t=3600`, "/")
	s.mustReload(limited("a", "n=2/1h", "")) // lowered
	s.want(429, `"n";r=0;t=3600`, "/")
	s.mustReload(limited("a", "other=2/1h", "")) // other limits are others
	s.want(200, `"other";r=1;t=3600`, "/")
	s.mustReload(limited("a", "n=4/1h", "\t\tdeny 503")) // and their counts were kept
	s.want(200, `"n";r=0;t=3600`, "/")
	s.want(503, `"n";r=0;t=3600`, "/")

	if err := s.reload(limited("a", "n=many/1h", "")); err == nil || !strings.Contains(err.Error(), "n=many/1h") {
		t.Errorf("a reload with a mistake: %v", err)
	}
	s.want(503, `"n";r=0;t=3600`, "/") // it changed nothing

	s.mustReload(limited("b", "n=4/1h", "")) // nobody uses a any more
	s.want(200, `"n";r=3;t=3600`, "/")
	s.mustReload(limited("a", "n=4/1h", ""))
	s.want(200, `"n";r=3;t=3600`, "/")
}

// TestAFullMemoryIsTold to the log of the configuration that is in force, whichever one made the memory.
func TestAFullMemoryIsTold(t *testing.T) {
	dir := t.TempDir()
	site := func(name string) string {
		return "\tlog {\n\t\toutput file " + filepath.Join(dir, name) + "\n\t}\n---\n" +
			limited("a", "n=1/1h", "\t\tkey {header.K}\n\t\tstore memory {\n\t\t\tmax_keys 1\n\t\t}")
	}
	s := start(t, site("first"))
	s.want(200, `"n";r=0;t=3600`, "/", "K: one")
	s.mustReload(site("second"))
	s.want(429, `"n";r=0;t=3600`, "/", "K: one")
	s.want(200, `"n";r=0;t=3600`, "/", "K: two")
	for name, want := range map[string]int{"first": 0, "second": 1} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), `"logger":"slidegate"`); n != want {
			t.Errorf("the %s log tells of the memory %d times, want %d:\n%s", name, n, want, text)
		}
	}
}

// TestNothingIsLeft of a configuration that is gone: no store, no connection, no goroutine.
func TestNothingIsLeft(t *testing.T) {
	const stacks, client = "/debug/pprof/goroutine?debug=2", "redis/rueidis"
	redis := redistest.Standalone(t)
	clients := func() int { return strings.Count(redis.Text("CLIENT", "LIST", "TYPE", "normal"), "id=") }
	before := clients()
	store := "\t\tstore " + redis.URL() + " {\n\t\t\ttimeout 10s\n\t\t}"
	s := start(t, limited("a", "n=1000000/1h", store))
	redistest.Await(t, patience, "many requests at once make connections of the client", func() bool {
		many(s, 20)
		return clients() > before+1
	})
	for i := range 8 {
		s.mustReload(limited(fmt.Sprint("zone", i), "n=100/1h", store))
		s.want(200, `"n";r=99;t=3600`, "/")
		if clients() == before {
			t.Error("while Redis is used there is no connection to it")
		}
		s.mustReload(limited("memory", "n=100/1h", ""))
		s.want(200, `"n";r=99;t=3600`, "/")
	}
	s.mustReload("\trespond ok")
	redistest.Await(t, patience, "goroutines of slidegate end", func() bool {
		text := s.ask(stacks)
		return !strings.Contains(text, "slidegate/slidegate/") && !strings.Contains(text, client)
	})
	redistest.Await(t, patience, "connections to Redis end", func() bool { return clients() == before })
}

// many sends requests at once.
func many(s *server, n int) {
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if _, err := s.try("/"); err != nil {
				s.t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestStopIsGraceful: a request under way is answered to its end, and Caddy ends without an error.
func TestStopIsGraceful(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		io.WriteString(w, "done")
	}))
	defer upstream.Close()
	s := start(t, "\tslidegate {\n\t\tlimit n=1/1h\n\t}\n\treverse_proxy "+strings.TrimPrefix(upstream.URL, "http://"))
	answer := make(chan *response, 1)
	go func() {
		r, err := s.try("/")
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	<-begun
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, patience, "Caddy stops listening", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(finish)
	if r := <-answer; r == nil || r.status != 200 || r.body != "done" || r.header.Get("RateLimit") != `"n";r=0;t=3600` {
		t.Errorf("the answer is %+v", r)
	}
}

// TestProxiedStreamsAndUpgrades pass as if no gate stood there.
func TestProxiedStreamsAndUpgrades(t *testing.T) {
	resume := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-resume
		io.WriteString(w, "data: two\n\n")
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		for rw.Flush() == nil {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			rw.WriteString("echo " + line)
		}
	})
	upstream := httptest.NewServer(mux)
	defer upstream.Close()
	for _, handleErrors := range []string{"", "\t\thandle_errors\n"} {
		s := start(t, "\tslidegate {\n\t\tlimit n=2/1h\n"+handleErrors+"\t}\n\treverse_proxy "+strings.TrimPrefix(upstream.URL, "http://"))
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		lines := bufio.NewReader(conn)
		expect := func(want string) {
			t.Helper()
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatalf("before %q: %v", want, err)
				}
				if strings.TrimSpace(line) == want {
					return
				}
			}
		}
		fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: example.com\r\n\r\n")
		expect("HTTP/1.1 200 OK")
		expect("data: one")
		resume <- struct{}{}
		expect("data: two")
		expect("0") // the last chunk
		expect("")
		fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		expect("HTTP/1.1 101 Switching Protocols")
		fmt.Fprint(conn, "hello\nagain\n")
		expect("echo hello")
		expect("echo again")
		s.want(429, `"n";r=0;t=3600`, "/socket", "Connection: Upgrade", "Upgrade: websocket")
		conn.Close()
		s.stop()
	}
}
