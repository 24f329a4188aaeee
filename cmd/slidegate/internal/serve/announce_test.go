package serve

import (
	"net"
	"testing"
)

// TestIsLoopback: who can reach an address is whoever can reach the machine, unless it is one of loopback.
func TestIsLoopback(t *testing.T) {
	for _, c := range []struct {
		at   net.Addr
		want bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, true},
		{&net.TCPAddr{IP: net.IPv4(127, 9, 9, 9)}, true},
		{&net.TCPAddr{IP: net.IPv6loopback}, true},
		{&net.TCPAddr{IP: net.IPv4zero}, false},
		{&net.TCPAddr{IP: net.IPv6unspecified}, false},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, false},
	} {
		if got := isLoopback(c.at); got != c.want {
			t.Errorf("%s: %t", c.at, got)
		}
	}
}
