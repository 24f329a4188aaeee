package redistest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

func dial(t *testing.T, addr string) *redistest.Conn {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAProxyPassesAndCounts(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	for range 2 {
		c := dial(t, p.Addr)
		if got, err := c.Do("ECHO", "a\r\nb"); got != "a\r\nb" || err != nil {
			t.Error(got, err)
		}
	}
	up, down := int64(2*len("*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n")), int64(2*len("$4\r\na\r\nb\r\n"))
	if p.Connections() != 2 || p.Open() != 2 || p.Up() != up || p.Down() != down || p.Commands() != 2 {
		t.Errorf("%d connections, %d open, %d commands, %d bytes up, %d down, want 2, 2, 2, %d, %d",
			p.Connections(), p.Open(), p.Commands(), p.Up(), p.Down(), up, down)
	}
}

// TestAProxyKnowsEveryReply of RESP 3 by its end, since it could not find the next otherwise.
func TestAProxyKnowsEveryReply(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	types := []string{"string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "verbatim", "true", "false", "bignum"}
	send := "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	for _, kind := range types {
		send += "*3\r\n$5\r\nDEBUG\r\n$8\r\nPROTOCOL\r\n$" + string([]byte{'0' + byte(len(kind))}) + "\r\n" + kind + "\r\n"
	}
	p.CutReply("ping", 1)
	direct, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	direct.Write([]byte(send + "*1\r\n$4\r\nQUIT\r\n"))
	want, _ := io.ReadAll(direct)
	c.Write([]byte(send + "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n"))
	got, _ := io.ReadAll(c)
	// The number of the connection in the greeting differs.
	if len(got) < 200 || len(got)-len(want) > 2 || len(want)-len(got) > 2 {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestAReplyIsLostAfterTheCommandRan(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	p.CutReply("INCR", 3)
	c := dial(t, p.Addr)
	for _, command := range []string{"incr", "get", "INCR", "get"} {
		if _, err := c.Do(command, "a"); err != nil {
			t.Fatal(command, err)
		}
	}
	if reply, err := c.Do("incr", "a"); err == nil {
		t.Errorf("it answered %v", reply)
	}
	if got := s.Text("GET", "a"); got != "3" {
		t.Errorf("it ran %s times, want 3", got)
	}
	if got, err := dial(t, p.Addr).Do("INCR", "a"); got != int64(4) || err != nil {
		t.Error("afterwards:", got, err)
	}
}

// TestRepliesBeforeTheLostOneArrive where commands are sent without waiting for one another.
func TestRepliesBeforeTheLostOneArrive(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	p.CutReply("", 3)
	c := dial(t, p.Addr)
	for range 4 {
		if err := c.Send("INCR", "a"); err != nil {
			t.Fatal(err)
		}
	}
	for want := int64(1); want <= 2; want++ {
		if got, err := c.Receive(); got != want || err != nil {
			t.Error(got, err)
		}
	}
	if got, err := c.Receive(); err == nil {
		t.Errorf("it answered %v", got)
	}
}

func TestACommandIsLostBeforeItRuns(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	p.CutCommand("incr", 1)
	if reply, err := dial(t, p.Addr).Do("INCR", "a"); err == nil {
		t.Errorf("it answered %v", reply)
	}
	if n := s.Int("DBSIZE"); n != 0 {
		t.Error("it ran")
	}
}

func TestCutAllClosesWhatIsOpen(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	c := dial(t, p.Addr)
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	p.CutAll()
	if _, err := c.Do("PING"); err == nil {
		t.Error("it is open")
	}
	if _, err := dial(t, p.Addr).Do("PING"); err != nil {
		t.Error("a new one:", err)
	}
}

func TestARefusingProxyIsNotThere(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	c := dial(t, p.Addr)
	for range 3 {
		p.Refuse()
		if _, err := c.Do("PING"); err == nil {
			t.Error("a connection is open")
		}
		if _, err := redistest.Dial(p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new one: %v", err)
		}
		p.Pass()
		c = dial(t, p.Addr)
		if _, err := c.Do("PING"); err != nil {
			t.Error("when it passes again:", err)
		}
	}
}

// TestABlackHoleHoldsBack what is sent, in both directions, until it passes.
func TestABlackHoleHoldsBack(t *testing.T) {
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	old := dial(t, p.Addr)
	if _, err := old.Do("INCR", "a"); err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	answers := make(chan error, 2)
	for _, c := range []*redistest.Conn{old, dial(t, p.Addr)} {
		go func() {
			_, err := c.Do("INCR", "a")
			answers <- err
		}()
	}
	select {
	case err := <-answers:
		t.Errorf("answered out of the black hole: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if got := s.Text("GET", "a"); got != "1" {
		t.Errorf("%s commands came through", got)
	}
	p.Pass()
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// TestADelayIsOfTheWay: commands sent together are answered together, all later.
func TestADelayIsOfTheWay(t *testing.T) {
	const delay = 100 * time.Millisecond
	s := redistest.Standalone(t)
	p := redistest.NewProxy(t, s.Addr)
	c := dial(t, p.Addr)
	p.Delay(delay)
	start := time.Now()
	for range 20 {
		if err := c.Send("PING"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < delay || took > 10*delay {
		t.Errorf("twenty answers after %s", took)
	}
}

func TestAProxyToNobodyCloses(t *testing.T) {
	p := redistest.NewProxy(t, redistest.NewServer(t).Addr)
	if reply, err := dial(t, p.Addr).Do("PING"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(reply, err)
	}
}

func TestAProxyMovesWithThePrimary(t *testing.T) {
	a, b := redistest.Standalone(t), redistest.Standalone(t)
	p := redistest.NewProxy(t, a.Addr)
	old := dial(t, p.Addr)
	old.Do("SET", "a", "1")
	p.Retarget(b.Addr)
	if got, err := old.Do("GET", "a"); got != "1" || err != nil {
		t.Error("an open connection:", got, err)
	}
	if got, err := dial(t, p.Addr).Do("GET", "a"); got != nil || err != nil {
		t.Error("a new one:", got, err)
	}
}
