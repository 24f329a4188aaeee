package grpcgate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A Client holds outgoing calls to a limiter. A call that does not fit waits until it does, in no
// particular order, or is refused at once if that would be after its deadline. Streams count when
// they open, and a call that grpc-go retries by its service config counts once. A Client is safe for
// concurrent use and must not be modified while it is used.
type Client struct {
	// Limiter must not be nil.
	Limiter *slidegate.Limiter

	// Key says what is counted; by default, also where it returns "", it is "target:" and the target
	// of the connection.
	Key func(ctx context.Context, target, method string) string

	// Refuse refuses at once what would have to wait.
	Refuse bool

	// FailClosed refuses calls with UNAVAILABLE when the store cannot be asked; by default they are sent.
	FailClosed bool
}

// A RefusedError is a call that was not sent. Its status is DEADLINE_EXCEEDED where the wait would have been
// longer than the call's deadline, else RESOURCE_EXHAUSTED, with a RetryInfo if waiting would help.
type RefusedError struct {
	Wait time.Duration // after which it would be sent, 0 if never
	Err  error         // why it could not wait; nil if it was not to
}

func (e *RefusedError) Error() string { return "grpcgate: not sent: " + e.GRPCStatus().Message() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// GRPCStatus is what status.Code and status.FromError look for.
func (e *RefusedError) GRPCStatus() *status.Status {
	switch {
	case e.Err == nil:
		return status.Convert(exhausted(e.Wait, &httpgate.Outcome{}))
	case errors.Is(e.Err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, e.Err.Error())
	}
	return status.New(codes.ResourceExhausted, e.Err.Error())
}

// DialOptions puts the client's limit before a connection's unary calls and streams.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := c.admit(ctx, cc.Target(), method); err != nil {
		return err
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := c.admit(ctx, cc.Target(), method); err != nil {
		return nil, err
	}
	return streamer(ctx, desc, cc, method, opts...)
}

// admit returns nil when the call may be sent.
func (c *Client) admit(ctx context.Context, target, method string) error {
	key := ""
	if c.Key != nil {
		key = c.Key(ctx, target, method)
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
		return &RefusedError{Wait: d.RetryAfter()}
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
		return &RefusedError{Wait: late.Need, Err: err}
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, slidegate.ErrBlocked), errors.Is(err, slidegate.ErrTooManyWaiters):
		return &RefusedError{Err: err}
	case c.FailClosed:
		return status.Error(codes.Unavailable, "the rate limiter is unavailable")
	}
	return nil
}

// Patience keeps calls back for as long as a server asked for in the RetryInfo of its last
// RESOURCE_EXHAUSTED or UNAVAILABLE, for each target and method: one refusal is enough. Calls wait, or
// are refused at once if that would be after their deadline. A server's word keeps them back for a day
// at most. The zero Patience is ready for use, by several connections too. It must not be copied, nor
// modified while it is used.
type Patience struct {
	// Refuse refuses at once what would have to wait.
	Refuse bool

	mu    sync.Mutex
	until map[called]time.Time
}

type called struct{ target, method string }

// longestHold is the longest time that a server's word is taken for.
const longestHold = 24 * time.Hour

// DialOptions puts the patience before a connection's unary calls and streams.
func (p *Patience) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.Unary), grpc.WithChainStreamInterceptor(p.Stream)}
}

// Unary is a grpc.UnaryClientInterceptor.
func (p *Patience) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	to := called{cc.Target(), method}
	if err := p.wait(ctx, to); err != nil {
		return err
	}
	err := invoker(ctx, method, req, reply, cc, opts...)
	p.learn(to, err)
	return err
}

// Stream is a grpc.StreamClientInterceptor.
func (p *Patience) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	to := called{cc.Target(), method}
	if err := p.wait(ctx, to); err != nil {
		return nil, err
	}
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		p.learn(to, err)
		return nil, err
	}
	return &patientStream{s, p, to}, nil
}

// A patientStream learns from how it ends.
type patientStream struct {
	grpc.ClientStream
	patience *Patience
	to       called
}

func (s *patientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.patience.learn(s.to, err)
	return err
}

// learn notes what a server asks for.
func (p *Patience) learn(to called, err error) {
	if err == nil {
		return
	}
	answer, _ := status.FromError(err)
	if code := answer.Code(); code != codes.ResourceExhausted && code != codes.Unavailable {
		return
	}
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.until == nil {
				p.until = map[called]time.Time{}
			}
			now := time.Now()
			p.until[to] = now.Add(min(info.GetRetryDelay().AsDuration(), longestHold))
			maps.DeleteFunc(p.until, func(_ called, at time.Time) bool { return !at.After(now) })
			return
		}
	}
}

// wait returns when the server is ready again for a call, or why it is not sent.
func (p *Patience) wait(ctx context.Context, to called) error {
	p.mu.Lock()
	until := p.until[to]
	p.mu.Unlock()
	left := time.Until(until)
	if until.IsZero() || left <= 0 {
		return nil
	}
	if p.Refuse {
		return &RefusedError{Wait: left}
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		return &RefusedError{left, fmt.Errorf("the server asks to wait %s, %w before that", left.Round(time.Millisecond), context.DeadlineExceeded)}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		return nil
	}
}
