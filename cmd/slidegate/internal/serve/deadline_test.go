package serve

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// atDoor returns a connection as a door has it.
func atDoor(conn net.Conn, patience time.Duration) *clientConn {
	s := &server{metrics: newMetrics(""), log: newLogger(io.Discard, "text")}
	s.clientTimeout = patience
	return newClientConn(conn, &bounded{server: s}, netip.Prefix{})
}

// TestAWaitEndsAtItsDeadline: however often the deadline is set to whatever, before a wait and in it, the wait ends when that of
// the connection itself does, and with the same error.
func TestAWaitEndsAtItsDeadline(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			plain, _ := net.Pipe()
			same, _ := net.Pipe()
			door := atDoor(same, time.Hour)
			for range 5 {
				waitBoth(t, random, door, plain)
			}
		})
	}
}

// waitBoth waits on two connections, on which nobody sends or takes anything, and sets their deadlines meanwhile.
func waitBoth(t *testing.T, random *rand.Rand, door, plain net.Conn) {
	set, wait := net.Conn.SetReadDeadline, net.Conn.Read
	if random.IntN(2) == 0 {
		set, wait = net.Conn.SetWriteDeadline, net.Conn.Write
	}
	setBoth := func(at time.Time) {
		if err := errors.Join(set(plain, at), set(door, at)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a past one ends a wait before it is replaced
	}
	for range random.IntN(3) {
		setBoth(someDeadline(random))
	}
	type end struct {
		at  time.Time
		err error
	}
	ended := [2]chan end{make(chan end, 1), make(chan end, 1)}
	for i, c := range []net.Conn{door, plain} {
		go func() {
			_, err := wait(c, make([]byte, 1))
			ended[i] <- end{time.Now(), err}
		}()
	}
	synctest.Wait() // both wait
	for range random.IntN(5) {
		<-time.After(time.Duration(random.IntN(4)) * time.Second)
		setBoth(someDeadline(random))
	}
	setBoth(time.Now().Add(time.Second / 2))
	got, want := <-ended[0], <-ended[1]
	if !got.at.Equal(want.at) || !errors.Is(got.err, os.ErrDeadlineExceeded) || !errors.Is(want.err, os.ErrDeadlineExceeded) {
		t.Errorf("a wait ended at %v with %v, want at %v with %v", got.at, got.err, want.at, want.err)
	}
}

// someDeadline is never, past, or some seconds and a half from now or before: none is set at the moment at which one passes.
func someDeadline(random *rand.Rand) time.Time {
	switch n := random.IntN(8); n {
	case 0:
		return never
	case 1:
		return longAgo
	default:
		return time.Now().Add(time.Duration(n-3)*time.Second - time.Second/2)
	}
}

// TestAClientHasItsTimeForEachPiece: whoever takes nothing for three seconds is cut off and counted, whatever deadline the answer
// before had. Whoever is late for one of the server is cut off.
func TestAClientHasItsTimeForEachPiece(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, until time.Duration   // the deadlines of the answer before and of this one; 0 for none
		takes         []time.Duration // when a byte of four is taken
		ends          time.Duration
		err           error
		isShed        bool
	}{
		{name: "takes all", takes: []time.Duration{2, 4, 6, 8}, ends: 8},
		{name: "takes nothing", ends: 3, err: os.ErrDeadlineExceeded, isShed: true},
		{name: "takes nothing after an answer with a deadline", before: 1, ends: 3, err: os.ErrDeadlineExceeded, isShed: true},
		{name: "takes all after an answer with a deadline", before: 1, takes: []time.Duration{2, 4, 5, 7}, ends: 7},
		{name: "stops", takes: []time.Duration{2, 4}, ends: 9, err: os.ErrDeadlineExceeded, isShed: true},
		{name: "takes nothing before a deadline", until: 2, ends: 2, err: os.ErrDeadlineExceeded},
		{name: "takes too long", until: 7, takes: []time.Duration{2, 4, 6, 8}, ends: 7, err: os.ErrDeadlineExceeded},
		{name: "is late already", until: -1, err: os.ErrDeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				door := atDoor(ours, 3*time.Second)
				send := func(bytes int, until time.Duration) error {
					if err := door.SetDeadline(never); err != nil {
						return err
					}
					if until != 0 {
						_ = door.SetWriteDeadline(time.Now().Add(until * time.Second))
					}
					_, err := door.Write(make([]byte, bytes))
					return err
				}
				go func() { _, _ = theirs.Read(make([]byte, 1)) }()
				if err := send(1, c.before); err != nil {
					t.Fatal(err)
				}
				for _, at := range c.takes {
					time.AfterFunc(at*time.Second, func() { _, _ = theirs.Read(make([]byte, 1)) })
				}
				began := time.Now()
				err := send(4, c.until)
				if took := time.Since(began); took != c.ends*time.Second || !errors.Is(err, c.err) {
					t.Errorf("after %v: %v, want %v after %v", took, err, c.err, c.ends*time.Second)
				}
				if isShed := door.listener.server.metrics.shedding.last[shedSlow].Load() != 0; isShed != c.isShed {
					t.Errorf("cut off as slow: %v, want %v", isShed, c.isShed)
				}
				_ = ours.Close() // for whoever still takes
			})
		})
	}
}
