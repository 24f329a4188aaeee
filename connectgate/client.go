package connectgate

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A Client holds outgoing calls to a limiter: a connect.Interceptor of clients, which does nothing in
// a handler. A call that does not fit waits until it does, in no particular order, or is refused at
// once if that would be after its deadline. Streams count when they open. A Client is safe for
// concurrent use and must not be modified while it is used.
type Client struct {
	// Limiter must not be nil.
	Limiter *slidegate.Limiter

	// Key says what is counted; by default, also where it returns "", it is "target:" and the host of
	// the server's URL.
	Key func(ctx context.Context, target, procedure string) string

	// Refuse refuses at once what would have to wait.
	Refuse bool

	// FailClosed refuses calls with unavailable when the store cannot be asked; by default they are sent.
	FailClosed bool
}

var _ connect.Interceptor = (*Client)(nil)

// A RefusedError is a call that was not sent. It is in a connect.Error whose code is deadline_exceeded
// where the wait would have been longer than the call's deadline, else resource_exhausted, with a
// RetryInfo if waiting would help.
type RefusedError struct {
	Wait time.Duration // after which it would be sent, 0 if never
	Err  error         // why it could not wait; nil if it was not to
}

func (e *RefusedError) Error() string {
	if e.Err != nil {
		return "connectgate: not sent: " + e.Err.Error()
	}
	return "connectgate: not sent: quota exceeded"
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// coded puts a refusal into the error that Connect's callers expect.
func (e *RefusedError) coded() error {
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, e)
	}
	return exhausted(e.Wait, &httpgate.Outcome{}, e)
}

// WrapUnary implements connect.Interceptor.
func (c *Client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			if err := c.admit(ctx, req.Peer().Addr, req.Spec().Procedure); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor. The call that opens a stream waits.
func (c *Client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec) // sends nothing yet
		if err := c.admit(ctx, conn.Peer().Addr, spec.Procedure); err != nil {
			return &unsent{conn, err}
		}
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor. It does nothing.
func (c *Client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// An unsent stream was refused. What it wraps must not be closed: to close a stream is to send it.
type unsent struct {
	connect.StreamingClientConn
	err error
}

func (u *unsent) Send(any) error       { return u.err }
func (u *unsent) Receive(any) error    { return u.err }
func (u *unsent) CloseRequest() error  { return nil }
func (u *unsent) CloseResponse() error { return nil }

// admit returns nil when the call may be sent.
func (c *Client) admit(ctx context.Context, target, procedure string) error {
	key := ""
	if c.Key != nil {
		key = c.Key(ctx, target, procedure)
	}
	if key == "" {
		key = "target:" + target
	}
	if !c.Refuse {
		_, err := c.Limiter.Wait(ctx, key)
		return c.unsent(ctx, err)
	}
	d, err := c.Limiter.Take(ctx, key)
	if err == nil && !d.Allowed {
		return (&RefusedError{Wait: d.RetryAfter()}).coded()
	}
	return c.unsent(ctx, err)
}

// unsent returns the error of a call that could not be decided or could not wait.
func (c *Client) unsent(ctx context.Context, err error) error {
	var late *slidegate.WaitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &late):
		return (&RefusedError{Wait: late.Need, Err: err}).coded()
	case ctx.Err() != nil:
		return gone(ctx)
	case errors.Is(err, slidegate.ErrBlocked), errors.Is(err, slidegate.ErrTooManyWaiters):
		return (&RefusedError{Err: err}).coded()
	case c.FailClosed:
		return connect.NewError(connect.CodeUnavailable, errUndecided)
	}
	return nil
}
