package httpgate

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzParseRateLimit: whatever a server sends, what is read is in range, and a list that is written
// again as it was read is read as the same.
func FuzzParseRateLimit(f *testing.F) {
	f.Add(`"burst";r=7;t=1, day;r=64;pk=:aGk=:`, `"burst";q=10;w=1, "day";q=9;qu="requests"`, "", "", "")
	f.Add("limit=10, remaining=9, reset=1", "10;w=1, 100;w=60", "", "", "")
	f.Add("", "", `10, 10;w=1;name="x", 1000;w=3600`, "9.5", "1796040030")
	f.Fuzz(func(t *testing.T, list, policies, limit, remaining, reset string) {
		h := http.Header{}
		for name, value := range map[string]string{
			"Ratelimit": list, "Ratelimit-Policy": policies,
			"X-Ratelimit-Limit": limit, "X-Ratelimit-Remaining": remaining, "X-Ratelimit-Reset": reset,
		} {
			if value != "" {
				h[name] = strings.Split(value, "\n")
			}
		}
		read, ok := ParseRateLimit(h, time.Unix(1_796_040_000, 0))
		if ok != (len(read) > 0) {
			t.Fatalf("%v with %d policies", ok, len(read))
		}
		var again []byte
		for i, p := range read {
			if p.Remaining < 0 || p.Remaining > maxInteger || p.Quota < 0 || p.Quota > maxInteger ||
				p.Reset < -1 || p.Reset > maxTold || p.Window < 0 || p.Window > maxTold {
				t.Fatalf("out of range: %+v", p)
			}
			again = separate(again, i)
			var err error
			if again, err = appendString(again, p.Name); err != nil {
				t.Fatal(err)
			}
			again = strconv.AppendInt(append(again, ";r="...), p.Remaining, 10)
			if p.Reset >= 0 {
				again = strconv.AppendInt(append(again, ";t="...), int64(p.Reset/time.Second), 10)
			}
			if p.Partition != "" {
				again = appendBytes(append(again, ";pk="...), []byte(p.Partition))
			}
		}
		back, _ := ParseRateLimit(http.Header{"Ratelimit": {string(again)}}, time.Time{})
		if len(again) < maxFieldLength && len(back) != len(read) {
			t.Fatalf("%q is read as %d policies, not %d", again, len(back), len(read))
		}
		for i, b := range back {
			p := read[i]
			if p.Reset >= 0 {
				p.Reset = p.Reset.Truncate(time.Second)
			}
			if b.Name != p.Name || b.Partition != p.Partition || b.Remaining != p.Remaining || b.Reset != p.Reset {
				t.Fatalf("%+v came back as %+v", p, b)
			}
		}
	})
}

// FuzzTransport: whatever a server answers, the next request is sent, or fails with the time to wait, a day
// at most, after which it is sent.
func FuzzTransport(f *testing.F) {
	f.Add(200, `"a";r=0;t=7`, `"a";q=10;w=1`, "", "", "", "")
	f.Add(429, "", "", "", "", "Mon, 30 Nov 2026 12:00:07 GMT", "")
	f.Add(403, "", "", "0", "1796040030", "0", "")
	f.Add(200, "limit=1, remaining=0, reset=99999999999999", "", "", "", "", "0")
	f.Fuzz(func(t *testing.T, status int, list, policies, remaining, reset, retry, age string) {
		h := http.Header{}
		for name, value := range map[string]string{
			"Ratelimit": list, "Ratelimit-Policy": policies, "Retry-After": retry, "Age": age,
			"X-Ratelimit-Remaining": remaining, "X-Ratelimit-Reset": reset,
		} {
			if value != "" {
				h[name] = strings.Split(value, "\n")
			}
		}
		now := time.Unix(1_796_040_000, 0)
		rt := MustNewTransport(fuzzed(func() *http.Response {
			return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
		}), MaxWait(0), RetryUnavailable(), TransportClock(func() time.Time { return now }))
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://a.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			var early *TooSoonError
			_, err := rt.RoundTrip(r)
			if errors.As(err, &early) {
				if early.Wait <= 0 || early.Wait > longestHold {
					t.Fatalf("waits %s", early.Wait)
				}
				now = now.Add(early.Wait)
				_, err = rt.RoundTrip(r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

type fuzzed func() *http.Response

func (f fuzzed) RoundTrip(*http.Request) (*http.Response, error) { return f(), nil }
