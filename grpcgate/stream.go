package grpcgate

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate/httpgate"
)

// Stream is a grpc.StreamServerInterceptor. The handler never runs for a stream that is refused when it
// opens.
func (g *Gate) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if g.isExempt(info.FullMethod) {
		return handler(srv, ss)
	}
	s := &stream{ServerStream: ss, gate: g, method: info.FullMethod, ctx: ss.Context()}
	var o httpgate.Outcome
	if !g.perMessage {
		o = g.decide(s.ctx, &Call{Method: s.method})
		if !o.Admitted {
			trailer, err := g.refusal(s.ctx, &o)
			ss.SetTrailer(trailer)
			return err
		}
		s.ctx = o.Context
		s.keep(&o)
	}
	ended := codes.Internal // unless the handler returns
	defer func() { o.Done(int(ended)) }()
	err := handler(srv, s)
	ended = codeOf(err)
	s.finish(err)
	return err
}

// A stream keeps the fields back until the handler sends something, and then they go into the header.
// Set any earlier, they would take the retries away from a client whose call fails.
type stream struct {
	grpc.ServerStream
	gate    *Gate
	method  string
	ctx     context.Context
	refused error // the rest of the stream; RecvMsg's alone

	mu     sync.Mutex // a handler may send and receive at the same time
	fields metadata.MD
}

func (s *stream) Context() context.Context { return s.ctx }

// keep remembers fields that have not been sent.
func (s *stream) keep(o *httpgate.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = metadataOf(o.Header)
}

// take returns the fields to send, once.
func (s *stream) take() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields := s.fields
	s.fields = nil
	return fields
}

// speak puts the fields into the header, or keeps them for the trailer if that has been sent.
func (s *stream) speak() {
	if fields := s.take(); fields != nil && s.ServerStream.SetHeader(fields) != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fields == nil {
			s.fields = fields
		}
	}
}

func (s *stream) SendHeader(md metadata.MD) error {
	s.speak()
	return s.ServerStream.SendHeader(md)
}

func (s *stream) SendMsg(m any) error {
	s.speak()
	return s.ServerStream.SendMsg(m)
}

// RecvMsg asks about a message when it has come, so that it can cost what is in it.
func (s *stream) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.gate.perMessage {
		return err
	}
	o := s.gate.decide(s.ctx, &Call{Method: s.method, Message: m})
	if o.Admitted {
		s.keep(&o)
		return nil
	}
	trailer, err := s.gate.refusal(s.ctx, &o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields, s.refused = trailer, err
	return err
}

// finish puts what has not been sent into the trailer, or into the header of a stream that succeeds
// without having sent anything.
func (s *stream) finish(err error) {
	if err == nil {
		s.speak()
	}
	s.ServerStream.SetTrailer(s.take())
}
