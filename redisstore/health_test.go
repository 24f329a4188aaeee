package redisstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

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
