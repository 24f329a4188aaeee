package migrate

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// served answers what is admitted.
var served = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })

func memoryStore(t *testing.T) slidegate.Store {
	t.Helper()
	store := memstore.New()
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// redisClient is a client of a server of its own.
func redisClient(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Standalone(t).Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// ask sends a request from an address.
func ask(h http.Handler, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = net.JoinHostPort(address, "1024")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// alike asks both handlers as long as the first admits, and a few times more: the statuses are equal, and so are the fields
// that say how many there are and how many are left.
func alike(t *testing.T, before, after http.Handler) {
	t.Helper()
	var want, got []string
	for range 110 {
		for _, address := range []string{"203.0.113.7", "2001:db8::1"} {
			want = append(want, told(ask(before, address)))
			got = append(got, told(ask(after, address)))
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("before they are told\n%q\nand after\n%q", want, got)
	}
	if !slices.Contains(want, "429 100 0") && !slices.Contains(want, "429 50 0") {
		t.Errorf("nobody is refused: %q", want)
	}
}

// told is what an answer says that both have to say alike.
func told(w *httptest.ResponseRecorder) string {
	return fmt.Sprint(w.Code, " ", w.Header().Get("X-RateLimit-Limit"), " ", w.Header().Get("X-RateLimit-Remaining"))
}
