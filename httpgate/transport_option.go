package httpgate

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
)

// A TransportOption changes how [NewTransport] builds a Transport. What it reports wraps
// [slidegate.ErrInvalidLimit].
type TransportOption func(*Transport) error

// MaxWait is how long a request may be held back for its host to have room, over all times it is sent;
// the default is one minute, and 0 holds none back: what has no room fails at once, and what is refused
// is not sent again. The request's deadline holds in any case. Waiting for an answer that is on its
// way, a second at most, does not count.
func MaxWait(d time.Duration) TransportOption {
	return func(t *Transport) error {
		if d < 0 {
			return invalidf("MaxWait %s: allowed is 0 and more", d)
		}
		t.maxWait = min(d, maxTold)
		return nil
	}
}

// Retries is how many times a request that was refused is sent again, 0 to 100; the default is 3. It
// is sent again only if the answer, a 429, says when, that is within [MaxWait], and the request has no
// body or a GetBody. Any other answer is returned, a 403 with Retry-After included, save as
// [RetryUnavailable] says.
func Retries(n int) TransportOption {
	return func(t *Transport) error {
		if n < 0 || n > 100 {
			return invalidf("Retries %d: allowed is 0 to 100", n)
		}
		t.retries = n
		return nil
	}
}

// RetryUnavailable takes a 503 with Retry-After for a refusal, as a 429 is: its host is left alone
// until then, and the request is sent again. By default such an answer is passed on. Servers may have
// begun to act on a request before they answer with 503.
func RetryUnavailable() TransportOption {
	return func(t *Transport) error {
		t.unavailable = true
		return nil
	}
}

// BudgetBy makes f name the budget that a request spends, such as an account and a group of routes; by
// default, and where f returns the empty string, it is the scheme, name and port in the URL.
func BudgetBy(f func(*http.Request) string) TransportOption {
	return func(t *Transport) error {
		if f == nil {
			return invalidf("BudgetBy: the function is nil")
		}
		t.key = f
		return nil
	}
}

// MaxHosts bounds of how many hosts, or names of [BudgetBy], something is remembered, 1 to 1,000,000; the
// default is 1,024. One that has not been used for long is forgotten for a new one.
func MaxHosts(n int) TransportOption {
	return func(t *Transport) error {
		if n < 1 || n > 1_000_000 {
			return invalidf("MaxHosts %d: allowed is 1 to 1000000", n)
		}
		t.maxHosts = n
		return nil
	}
}

// Presume tells limits that every host is known to have, by the names under which it announces them;
// by default nothing is known of a host before its first answer. The first requests then need not wait for
// that, and none is refused if nobody has spent the budget before. A presumed limit holds also for
// hosts that announce nothing.
func Presume(limits ...slidegate.Limit) TransportOption {
	return func(t *Transport) error {
		if len(limits) < 1 || len(limits) > slidegate.MaxLimits {
			return invalidf("Presume: %d limits: allowed is 1 to %d", len(limits), slidegate.MaxLimits)
		}
		t.presumed = nil
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				return err
			}
			l.Resolution = 0
			if l.Name == "" {
				l.Name = l.String()
			}
			t.presumed = append(t.presumed, l)
		}
		return nil
	}
}

// TransportClock makes the Transport tell time by now; the default is time.Now. It sleeps on the runtime's
// timers all the same.
func TransportClock(now func() time.Time) TransportOption {
	return func(t *Transport) error {
		if now == nil {
			return invalidf("TransportClock: the function is nil")
		}
		t.now = now
		return nil
	}
}
