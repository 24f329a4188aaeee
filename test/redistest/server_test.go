package redistest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"go.uber.org/goleak"
)

// TestMain finds goroutines that any server or proxy leaves behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const soon = 10 * time.Second

// mustFail returns the text of an error that has to be a reply.
func mustFail(t *testing.T, reply any, err error) string {
	t.Helper()
	var e redistest.ErrorReply
	if !errors.As(err, &e) {
		t.Fatalf("answered %v, %v, want an error of the server", reply, err)
	}
	return err.Error()
}

func refused(t *testing.T, s *redistest.Server, args ...string) string {
	t.Helper()
	reply, err := s.Try(args...)
	return mustFail(t, reply, err)
}

func TestAServerIsEmptyAndNamesItself(t *testing.T) {
	s := redistest.Standalone(t)
	if n := s.Int("DBSIZE"); n != 0 || len(s.Keys()) != 0 {
		t.Errorf("%d keys", n)
	}
	product, version, _ := strings.Cut(s.Version(), " ")
	if product != "redis" && product != "valkey" || len(strings.Split(version, ".")) != 3 {
		t.Errorf("version %q", s.Version())
	}
	if host, _, err := net.SplitHostPort(s.Addr); err != nil || host != "127.0.0.1" {
		t.Errorf("address %q: %v", s.Addr, err)
	}
	if want := "redis://" + s.Addr + "/0"; s.URL() != want {
		t.Errorf("URL %s, want %s", s.URL(), want)
	}
}

// TestRepliesAreWhatTheServerSaid, of every type and with every byte.
func TestRepliesAreWhatTheServerSaid(t *testing.T) {
	s := redistest.Standalone(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	bytes := string(every)
	s.Do("SET", bytes, bytes+bytes)
	if got := s.Text("GET", bytes); got != bytes+bytes {
		t.Errorf("got %q", got)
	}
	if got := s.Keys(); !slices.Equal(got, []string{bytes}) {
		t.Errorf("keys %q", got)
	}
	if got := s.Text("GET", "nobody"); got != "" {
		t.Errorf("got %q", got)
	}
	reply := s.Do("EVAL", "return {1, 'a', false, {redis.error_reply('ERR x')}}", "0").([]any)
	if reply[0] != int64(1) || reply[1] != "a" || reply[2] != nil || reply[3].([]any)[0] != redistest.ErrorReply("ERR x") {
		t.Errorf("got %#v", reply)
	}
	if e := refused(t, s, "INCR", bytes); !strings.HasPrefix(e, "ERR value is not an integer") {
		t.Error(e)
	}
}

func TestAConnectionKeepsItsState(t *testing.T) {
	s := redistest.Standalone(t)
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Do("SELECT", "3")
	c.Do("SET", "a", "b")
	if got, err := c.Do("GET", "a"); got != "b" || err != nil {
		t.Error(got, err)
	}
	if n := s.Int("DBSIZE"); n != 0 {
		t.Errorf("%d keys in the first database", n)
	}
	if err := c.SendRaw([]byte("PING\r\n")); err != nil {
		t.Error(err)
	}
	if got, err := c.Receive(); got != "PONG" || err != nil {
		t.Error(got, err)
	}
}

func TestDataIsThereAgainIfSaved(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(*redistest.Server)
		want string
	}{
		{"stopped", (*redistest.Server).Stop, ""},
		{"saved", (*redistest.Server).StopAndSave, "b"},
		{"killed", (*redistest.Server).Kill, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Standalone(t)
			pid := s.PID()
			s.Do("SET", "a", "b")
			c.stop(s)
			if s.Running() {
				t.Error("it runs on")
			}
			if _, err := s.Try("PING"); err == nil {
				t.Error("it answers")
			}
			s.Start()
			if got := s.Text("GET", "a"); got != c.want || s.PID() == pid {
				t.Errorf("after the start: %q, want %q; process %d after %d", got, c.want, s.PID(), pid)
			}
		})
	}
}

func TestRestartForgets(t *testing.T) {
	s := redistest.Standalone(t)
	s.Do("SET", "a", "b")
	s.StopAndSave()
	s.Start()
	s.Restart()
	if n := s.Int("DBSIZE"); n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestAServerThatIsNotStartedIsNotThere(t *testing.T) {
	s := redistest.NewServer(t)
	if _, err := s.Try("PING"); err == nil || s.Running() {
		t.Fatal("it is there")
	}
	s.Start()
	s.Do("PING")
}

// TestAPortThatIsTakenForAMomentIsWaitedFor, as when another process is started that has inherited it.
func TestAPortThatIsTakenForAMomentIsWaitedFor(t *testing.T) {
	s := redistest.NewServer(t)
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { l.Close() })
	s.Start()
	s.Do("PING")
}

func TestLaunchReturnsWhileLoading(t *testing.T) {
	s := redistest.Standalone(t)
	// A server that loads looks around once for every 2 MB.
	s.Do("EVAL", "for i = 1, 200 do redis.call('SET', i, string.rep('x', 200000)) end", "0")
	s.Set("rdbcompression", "no")
	s.StopAndSave()
	s.Configure("key-load-delay", "5000") // microseconds
	s.Launch()
	if e := refused(t, s, "DBSIZE"); !strings.HasPrefix(e, "LOADING") {
		t.Error(e)
	}
	s.Start()
	if n := s.Int("DBSIZE"); n != 200 {
		t.Errorf("%d keys, want 200", n)
	}
}

// TestAFrozenServerAnswersWhenItThaws and not before.
func TestAFrozenServerAnswersWhenItThaws(t *testing.T) {
	s := redistest.Standalone(t)
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Freeze()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Do("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("frozen, and it answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.Thaw()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.Freeze()
	s.Restart() // also from the ice
	s.Freeze()
	s.Kill()
}

func TestAPausedServerAnswersLater(t *testing.T) {
	s := redistest.Standalone(t)
	start := time.Now()
	s.Pause(150 * time.Millisecond)
	s.Do("SET", "a", "b")
	if took := time.Since(start); took < 140*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}

func TestFlushRemovesEveryKey(t *testing.T) {
	s := redistest.Standalone(t)
	s.Do("MSET", "a", "1", "b", "2")
	s.Flush()
	if n := s.Int("DBSIZE"); n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestConfigurationIsOfTheTest(t *testing.T) {
	s := redistest.Standalone(t, redistest.With("maxmemory-policy", "noeviction"), redistest.With("maxclients", "77"))
	if got := s.Do("CONFIG", "GET", "maxclients").([]any)[1]; got != "77" {
		t.Errorf("maxclients %v", got)
	}
	s.Set("maxmemory", "1")
	if e := refused(t, s, "SET", "a", "b"); !strings.HasPrefix(e, "OOM") {
		t.Error(e)
	}
	s.Set("maxmemory", "0")
	s.Do("SET", "a", "b")
}

func TestCommandsAreCounted(t *testing.T) {
	s := redistest.Standalone(t)
	s.ResetCalls()
	s.Do("EVAL", "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[1])", "1", "a")
	s.Do("INCR", "a")
	calls := s.Calls()
	if calls["eval"] != 1 || calls["incr"] != 3 || calls["set"] != 0 {
		t.Errorf("calls: %v", calls)
	}
	s.ResetCalls()
	if n := s.Calls()["incr"]; n != 0 {
		t.Errorf("%d after the reset", n)
	}
}

func TestNobodyEntersWithoutThePassword(t *testing.T) {
	const password = "a\xff\"\\ b@/:"
	s := redistest.Standalone(t, redistest.WithPassword(password))
	s.Do("SET", "a", "b")
	c, err := redistest.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do("GET", "a")
	if e := mustFail(t, reply, err); !strings.HasPrefix(e, "NOAUTH") {
		t.Error(e)
	}
	if !strings.HasPrefix(s.URL(), "redis://:a%FF%22%5C%20b%40%2F%3A@127.0.0.1:") {
		t.Errorf("URL %s", s.URL())
	}
}

func TestAUserMayDoWhatTheRulesSay(t *testing.T) {
	s := redistest.Standalone(t)
	s.User("narrow", "secret", "~a:*", "+get")
	c, err := redistest.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do("AUTH", "narrow", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("GET", "a:1"); err != nil {
		t.Error(err)
	}
	for _, command := range [][]string{{"GET", "b:1"}, {"SET", "a:1", "x"}} {
		reply, err := c.Do(command...)
		if e := mustFail(t, reply, err); !strings.HasPrefix(e, "NOPERM") {
			t.Errorf("%s: %s", command, e)
		}
	}
}

func TestTLSIsTrustedByWhoKnowsTheCertificate(t *testing.T) {
	s := redistest.Standalone(t, redistest.WithTLS(), redistest.WithPassword("p"))
	s.Do("SET", "a", "b")
	if !strings.HasPrefix(s.URL(), "rediss://:p@") {
		t.Errorf("URL %s", s.URL())
	}
	if _, err := (&tls.Dialer{Config: &tls.Config{}}).DialContext(context.Background(), "tcp", s.Addr); err == nil {
		t.Error("a stranger trusts it")
	}
	if _, err := os.Stat(s.CertFile()); err != nil {
		t.Error(err)
	}
	p := redistest.NewProxy(t, s.Addr)
	c, err := (&tls.Dialer{Config: s.TLSConfig()}).DialContext(context.Background(), "tcp", p.Addr)
	if err != nil {
		t.Fatal("through a proxy:", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("AUTH p\r\n")); err != nil {
		t.Error(err)
	}
	b := make([]byte, 5)
	if _, err := c.Read(b); err != nil || string(b) != "+OK\r\n" || p.Commands() != 0 || p.Down() == 0 {
		t.Errorf("%q, %v, %d commands in sight, %d bytes", b, err, p.Commands(), p.Down())
	}
}

func TestAUnixSocketIsThere(t *testing.T) {
	s := redistest.Standalone(t)
	c, err := net.Dial("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestUnreachableIsHeardOfByNobody(t *testing.T) {
	addr := redistest.Unreachable(t)
	start := time.Now()
	_, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) < 190*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

// TestNothingStaysBehind of a test: no process, no directory, and the port is free.
func TestNothingStaysBehind(t *testing.T) {
	var s *redistest.Server
	t.Run("test", func(t *testing.T) {
		s = redistest.Standalone(t)
		s.Do("SAVE")
		s.Freeze()
	})
	if s.Running() {
		t.Error("the process")
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
