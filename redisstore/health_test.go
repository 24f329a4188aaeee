package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// A connecting client knows how the last attempt to connect went.
type connecting struct {
	*fake
	err error
}

func (c connecting) ConnectError() error { return c.err }

// TestLateCallsSayHowConnectingWent, wrapping that, but never the error of a context, which would be the caller's. Other
// failures say what they are themselves.
func TestLateCallsSayHowConnectingWent(t *testing.T) {
	refused, own := errors.New("connection refused"), errors.New("LOADING")
	for _, c := range []struct {
		connect, cause error
		want           string
		wraps          error
	}{
		{nil, context.DeadlineExceeded, "no answer within 50ms: context deadline exceeded", nil},
		{refused, context.DeadlineExceeded, "no answer within 50ms: the last attempt to connect failed: connection refused", refused},
		{refused, own, "LOADING", own},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), context.Canceled, "no answer within 50ms: the last attempt to connect failed: dial: context deadline exceeded", nil},
		{os.ErrDeadlineExceeded, context.DeadlineExceeded, "no answer within 50ms: the last attempt to connect failed: i/o timeout", nil},
	} {
		err := New(connecting{&fake{}, c.connect}).failed(c.cause)
		if !strings.HasSuffix(err.Error(), "redis: "+c.want) || c.wraps != nil && !errors.Is(err, c.wraps) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%v and %v: %v, want %s", c.connect, c.cause, err, c.want)
		}
	}
	s := New(connecting{&fake{}, nil})
	if err := s.failed(s.errTimeout); !strings.HasSuffix(err.Error(), "redis: no answer within 50ms") {
		t.Error(err)
	}
}

// TestErrorsHideTheKey: a server that knows no EVALSHA repeats its arguments, the key among them.
func TestErrorsHideTheKey(t *testing.T) {
	cause := errors.New("ERR unknown command 'EVALSHA', with args beginning with: '6dd9' '1' 'slidegate:{header:X-Api-Key:hunter2}:10/1m:1m' ")
	var log bytes.Buffer
	f := &fake{before: func(context.Context, sent) error { return cause }}
	p := bind(t, New(f, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), named(t, "10/m"))
	err := p.store.failed(cause)
	p.store.report()
	if !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), "ERR unknown command 'EVALSHA'") {
		t.Errorf("%v", err)
	}
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "EVALSHA") {
		t.Errorf("the log is %s", text)
	}
}
