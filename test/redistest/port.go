package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are chosen below those that systems give out by themselves (from 32768 on Linux), since an
// outgoing connection of anybody could take one of those while its server is down. A cluster node
// also talks on its port + busOffset.
const (
	firstPort = 11_000
	lastPort  = 21_999
	busOffset = 10_000
)

// reservePort returns a port on which nobody listens, for the rest of the test. What reserves it is
// its UDP port, which no Redis uses: of all processes only one can hold that, and it is free again
// when the process ends, however it ends.
func reservePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		release, err := reserve(port)
		if err != nil {
			continue
		}
		t.Cleanup(release)
		return port
	}
	t.Fatalf("redistest: no free port from %d to %d on 127.0.0.1", firstPort, lastPort)
	return 0
}

func reserve(port int) (release func(), err error) {
	lock, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback, Port: port})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(listenable(port), listenable(port+busOffset)); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

var loopback = net.IPv4(127, 0, 0, 1)

// listenable returns an error if somebody listens on the port.
func listenable(port int) error {
	l, err := net.Listen("tcp4", addrOf(port))
	if err != nil {
		return err
	}
	return l.Close()
}

func addrOf(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
