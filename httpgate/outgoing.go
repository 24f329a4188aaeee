package httpgate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
)

// Outgoing is an http.RoundTripper that holds the requests it sends to a limiter of one's own, such as
// one over Redis that several processes share. By default each host (scheme, name and port) has a
// budget of its own and a request waits until it is admitted. What it sends and returns is otherwise
// untouched, and the caller's request is not modified.
//
// It counts by its own clock, at the moment of sending. A server that counts the same limit counts at the
// moment of arrival, and may refuse a request whose predecessor was longer on its way: leave some
// room, or put it into a [Transport], which learns from the answers:
//
//	client := &http.Client{Transport: httpgate.MustNewTransport(httpgate.MustNewOutgoing(limiter, nil))}
//
// In this order what the Transport holds back is not charged, and what it sends again is charged again. The
// other way round neither is so.
//
// An Outgoing is safe for concurrent use and needs no closing.
type Outgoing struct {
	limiter *slidegate.Limiter
	next    http.RoundTripper
	key     func(*http.Request) string
	cost    func(*http.Request) int64
	maxWait time.Duration // negative for as long as the context lasts
	closed  bool
	refund  bool
	onError func(error)
}

// An OutgoingOption changes how [NewOutgoing] builds an Outgoing. What it reports wraps
// [slidegate.ErrInvalidLimit].
type OutgoingOption func(*Outgoing) error

// NewOutgoing returns an Outgoing that asks limiter and sends through next, or http.DefaultTransport if
// that is nil. Every error wraps [slidegate.ErrInvalidLimit].
func NewOutgoing(limiter *slidegate.Limiter, next http.RoundTripper, options ...OutgoingOption) (*Outgoing, error) {
	if limiter == nil {
		return nil, invalidf("the limiter is nil: make one with slidegate.New")
	}
	if next == nil {
		next = http.DefaultTransport
	}
	o := &Outgoing{limiter: limiter, next: next, maxWait: -1}
	for _, option := range options {
		if option == nil {
			return nil, invalidf("an OutgoingOption is nil")
		}
		if err := option(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// MustNewOutgoing is NewOutgoing for options that are known to be right. It panics on an error.
func MustNewOutgoing(limiter *slidegate.Limiter, next http.RoundTripper, options ...OutgoingOption) *Outgoing {
	o, err := NewOutgoing(limiter, next, options...)
	if err != nil {
		panic(err)
	}
	return o
}

// OutgoingBy counts requests by the key that f returns; by default, and where f returns the empty
// string, it is the host, as in "host:https://api.example.com".
func OutgoingBy(f func(*http.Request) string) OutgoingOption {
	return func(o *Outgoing) error {
		if f == nil {
			return invalidf("OutgoingBy: the function is nil")
		}
		o.key = f
		return nil
	}
}

// OutgoingCost makes f say how many units a request spends; the default is 1. 0 is free, and a request
// whose cost can never fit fails with a [*slidegate.CostError].
func OutgoingCost(f func(*http.Request) int64) OutgoingOption {
	return func(o *Outgoing) error {
		if f == nil {
			return invalidf("OutgoingCost: the function is nil")
		}
		o.cost = f
		return nil
	}
}

// OutgoingMaxWait is how long a request may wait until it is admitted; the default is as long as its
// context lasts. 0 holds none back: what is not admitted fails at once with a [*TooSoonError].
func OutgoingMaxWait(d time.Duration) OutgoingOption {
	return func(o *Outgoing) error {
		if d < 0 {
			return invalidf("OutgoingMaxWait %s: allowed is 0 and more", d)
		}
		o.maxWait = min(d, maxTold)
		return nil
	}
}

// OutgoingFailClosed fails requests that could not be decided, with the error of the store, which wraps
// [slidegate.ErrUnavailable]; the default is to send them.
func OutgoingFailClosed() OutgoingOption {
	return func(o *Outgoing) error {
		o.closed = true
		return nil
	}
}

// OutgoingRefundUnsent gives back what a request was charged that reached no server, since there was no
// connection to it, or another Outgoing or a [Transport] further in held it back; the default is not to. A
// server that is down is then tried as often as callers like.
func OutgoingRefundUnsent() OutgoingOption {
	return func(o *Outgoing) error {
		o.refund = true
		return nil
	}
}

// OutgoingOnStoreError calls f with every error of the store, whatever becomes of the request; by default
// nobody is told. f runs on the request's goroutine.
func OutgoingOnStoreError(f func(error)) OutgoingOption {
	return func(o *Outgoing) error {
		if f == nil {
			return invalidf("OutgoingOnStoreError: the function is nil")
		}
		o.onError = f
		return nil
	}
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (o *Outgoing) CloseIdleConnections() { closeIdle(o.next) }

// RoundTrip sends the request when the limiter admits it. Otherwise nothing was sent, and the error is a
// [*TooSoonError], a [*slidegate.CostError], [slidegate.ErrBlocked], [slidegate.ErrTooManyWaiters], or the
// context's own.
func (o *Outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	d, err := o.admit(r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	resp, err := o.next.RoundTrip(r)
	if err != nil && o.refund && neverSent(err) && d.Charged() {
		// Who has given up meanwhile still gets it back.
		o.report(o.limiter.Refund(context.WithoutCancel(r.Context()), &d))
	}
	return resp, err
}

func (o *Outgoing) report(err error) {
	if err != nil && o.onError != nil {
		o.onError(err)
	}
}

// admit waits for the limiter's word. A store that could not be asked is an error only if it fails closed.
func (o *Outgoing) admit(r *http.Request) (slidegate.Decision, error) {
	ctx, key, cost := r.Context(), o.keyOf(r), int64(1)
	if o.cost != nil {
		cost = o.cost(r)
	}
	d, err := o.take(ctx, key, cost)
	if errors.Is(err, slidegate.ErrUnavailable) {
		o.report(err)
		if !o.closed && ctx.Err() == nil {
			return slidegate.Decision{}, nil
		}
	}
	return d, err
}

func (o *Outgoing) take(ctx context.Context, key string, cost int64) (slidegate.Decision, error) {
	if o.maxWait < 0 {
		d, err := o.limiter.WaitN(ctx, key, cost)
		return d, tooLate(ctx, &d, err)
	}
	d, err := o.limiter.TakeN(ctx, key, cost)
	switch {
	case err != nil || d.Allowed:
		return d, err
	case d.Len() == 0:
		return d, slidegate.ErrBlocked
	case d.RetryAfter() > o.maxWait:
		return d, tooSoon(ctx, d.RetryAfter(), d.Binding().Limit.Name)
	}
	bound, cancel := context.WithTimeout(ctx, o.maxWait+time.Millisecond)
	defer cancel()
	d, err = o.limiter.WaitN(bound, key, cost)
	return d, tooLate(ctx, &d, err)
}

// tooLate makes a TooSoonError of an error that came of a bound on the wait, not of the end of ctx itself.
func tooLate(ctx context.Context, d *slidegate.Decision, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, slidegate.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	return tooSoon(ctx, d.RetryAfter(), d.Binding().Limit.Name)
}

func (o *Outgoing) keyOf(r *http.Request) string {
	if o.key != nil {
		if key := o.key(r); key != "" {
			return bounded(key)
		}
	}
	scheme, name := origin(r)
	return bounded("host:" + scheme + "://" + name)
}
