package recipes_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
)

var passwords = map[string]string{"ann": "sesame", "bob": "mustard"}

var checkPassword = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if right, ok := passwords[strings.ToLower(r.PostFormValue("user"))]; !ok || r.PostFormValue("password") != right {
		w.WriteHeader(http.StatusUnauthorized)
	}
})

// device is the cookie that a device gets with its first login to an account: a number of its own, which nobody can
// guess, and a signature over that and the account.
func device(number, account string) string {
	mac := hmac.New(sha256.New, []byte("at least 32 bytes, from the deployment"))
	mac.Write([]byte(httpgate.Join(number, account)))
	return number + "." + hex.EncodeToString(mac.Sum(nil))
}

// knownDevice is the device that a request comes from, if that has been in this very account before.
func knownDevice(r *http.Request, account string) string {
	cookie, err := r.Cookie("device")
	if err != nil {
		return ""
	}
	number, _, _ := strings.Cut(cookie.Value, ".")
	if !hmac.Equal([]byte(cookie.Value), []byte(device(number, account))) {
		return ""
	}
	return number
}

// A siege is a day of guessing at ann's password from so many addresses, each as often as it is let, once a minute until
// it is refused. Ann has the right one, and tries it every hour: on a new device, and on one that she has used before.
func siege(clock *gatetest.Clock, login http.Handler, addresses int) {
	guesses, fresh, known := 0, 0, 0
	post := func(from, password, cookie string) int {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("user=ann&password="+password))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", "device="+cookie)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		login.ServeHTTP(w, r)
		return w.Code
	}
	for minute := range 24 * 60 {
		for i := range addresses {
			for post(fmt.Sprintf("198.51.100.%d:4711", i), "guess", "") == http.StatusUnauthorized {
				guesses++
			}
		}
		if minute%60 == 59 {
			if post("192.0.2.1:4711", "sesame", "") == http.StatusOK {
				fresh++
			}
			if post("192.0.2.2:4711", "sesame", device("7f3a09", "ann")) == http.StatusOK {
				known++
			}
		}
		clock.Advance(time.Minute)
	}
	fmt.Printf("from %d: %d guesses, ann in %d of 24 times, from a known device %d\n", addresses, guesses, fresh, known)
}

func Example_login() {
	clock, store := standing()
	name := func(r *http.Request) string { return strings.ToLower(r.PostFormValue("user")) } // as checkPassword reads it
	whom := func(r *http.Request) string { return cmp.Or(knownDevice(r, name(r)), name(r)) }
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerHour(60).Named("address")), httpgate.FailClosed(),
		httpgate.And(slidegate.MustNew(store, slidegate.PerDay(10).Named("pair")),
			httpgate.ByAll(httpgate.ByValue("account", name), httpgate.ByAddress())),
		httpgate.And(slidegate.MustNew(store, slidegate.PerDay(100).Named("account")), httpgate.ByValue("account", whom)),
		httpgate.And(slidegate.MustNew(store, slidegate.PerMinute(500).Named("everybody")), httpgate.ByEverybody()),
		httpgate.RefundIf(func(status int) bool { return status != http.StatusUnauthorized })) // only failures count
	login := http.MaxBytesHandler(gate.Wrap(checkPassword), 4096) // the gate reads the form
	ask(12, login, "203.0.113.7", "POST /login user=bob&password=guess-#")
	siege(clock, login, 1)  // of ann's account, for a day, from one address
	siege(clock, login, 20) // and from twenty
	// Output:
	// 10 × 401; 2 × 429 pair, again in 86400 s
	// from 1: 10 guesses, ann in 24 of 24 times, from a known device 24
	// from 20: 100 guesses, ann in 0 of 24 times, from a known device 24
}
