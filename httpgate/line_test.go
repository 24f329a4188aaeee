package httpgate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// TestLinesNeverChange, whatever is written after them and whoever appends to them.
func TestLinesNeverChange(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			var lines [][]string
			var want []string
			for i := range 2000 {
				text := fmt.Sprint(g, " ", i, strings.Repeat("x", random.IntN(100)))
				if i%500 == 0 {
					text += strings.Repeat("y", 2*reamText)
				}
				l := line([]byte(text))
				_ = append(l, "another")
				lines, want = append(lines, l), append(want, text)
			}
			for i, l := range lines {
				if len(l) != 1 || cap(l) != 1 || l[0] != want[i] {
					t.Errorf("line %d of %d is %q, want %q", i, g, l, want[i])
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestWhatIsToldAgainIsRight: a RateLimit is that of its own units and seconds, whatever was told before, and
// by whom.
func TestWhatIsToldAgainIsRight(t *testing.T) {
	p := newPlate(policiesOf(frozen(slidegate.PerHour(1000)).Limits()))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 2))
			for range 20_000 {
				s := []standing{{random.Int64N(4), time.Duration(random.IntN(5)) * time.Second, random.IntN(2) == 0}}
				if random.IntN(4) == 0 {
					s[0].remaining += recent - 2
				}
				got, want := p.rateLimit(s, nil), string(p.appendDraft8(nil, s, nil))
				if len(got) != 1 || cap(got) != 1 || got[0] != want {
					t.Errorf("%v is told as %q, want %q", s, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestUnitsAreWritten as strconv writes them, around every power of ten and of any digits.
func TestUnitsAreWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	check := func(n int64) {
		if got, want := string(appendUnits([]byte("r="), n)), fmt.Sprint("r=", n); got != want {
			t.Fatalf("%d is written as %q, want %q", n, got, want)
		}
	}
	for power := int64(1); power < maxInteger; power *= 10 {
		for n := max(0, power-1000); n < power+1000; n++ {
			check(n)
		}
		for range 10_000 {
			check(random.Int64N(10 * power))
		}
	}
	check(maxInteger)
}

func TestIntegersAreWritten(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 255: "255", 256: "256", -1: "-1", maxInteger: "999999999999999"} {
		if got := integer(n); !reflect.DeepEqual(got, []string{want}) || cap(got) != 1 {
			t.Errorf("%d is written as %q", n, got)
		}
	}
}

// TestPeersAreToldApart, also where they meet in a slot, and what is no address is not remembered as one.
func TestPeersAreToldApart(t *testing.T) {
	gates := []*Gate{MustNew(frozen(slidegate.PerHour(1))), MustNew(frozen(slidegate.PerHour(1)), IPv6Prefix(64))}
	for range 2 {
		for i := range 2 * len(peers) {
			for _, remote := range []string{
				fmt.Sprintf("203.0.%d.%d:%d", i%250, i%7, 1024+i),
				fmt.Sprintf("[2001:db8:0:%x::1]:%d", i, 1024+i),
				fmt.Sprintf("203.0.113.7:%d", 70_000+i),
			} {
				g, r := gates[i%7%2], from(remote, 0)
				want, err := g.addresses.KeyOf(r)
				for range 3 { // new, known to its slot, and remembered
					if got, failed := g.KeyOf(r); got != want || failed != err {
						t.Fatalf("%s counts under %q (%v), want %q (%v)", remote, got, failed, want, err)
					}
				}
			}
		}
	}
}

// TestLongPeersAreNotRemembered: a zone may be as long as a client likes where RemoteAddr comes from a header.
func TestLongPeersAreNotRemembered(t *testing.T) {
	g := MustNew(frozen(slidegate.PerHour(1)))
	for range 3 {
		if key, err := g.KeyOf(from("[fe80::7%"+strings.Repeat("z", 1000)+"]:1", 0)); key != "ip:fe80::/56" || err != nil {
			t.Errorf("it counts under %q (%v)", key, err)
		}
	}
	for i := range peers {
		if p := peers[i].last.Load(); p != nil && len(p.remote) > longestPeer {
			t.Errorf("%d bytes of a RemoteAddr are kept", len(p.remote))
		}
	}
}

// TestACarriedPassageIsOneBlock: up to 512 bytes the runtime keeps its pointers apart from objects, and beyond, each
// is a class larger and costs more to make.
func TestACarriedPassageIsOneBlock(t *testing.T) {
	if size := reflect.TypeFor[carried]().Size(); size > 512 {
		t.Errorf("a request with its passage takes %d bytes, want at most 512", size)
	}
}
