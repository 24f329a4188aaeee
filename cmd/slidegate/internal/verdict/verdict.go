// Package verdict writes what came of a request as a JSON object on one line: the same for every
// command that prints one.
package verdict

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
)

// A Request is what was asked. The time is in milliseconds since the Unix epoch.
type Request struct {
	Time int64
	Op   string // take, peek or reset
	Key  string
	Cost int64
}

// Append appends the line of a request that was decided.
func Append(b []byte, r *Request, d *slidegate.Decision) []byte {
	b = appendRequest(b, r)
	binding := d.Binding()
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = appendState(b, binding.Remaining, binding.ResetIn, d.RetryAfter())
	b = append(b, `,"binding":`...)
	b = appendText(b, binding.Limit.Name)
	b = append(b, `,"limits":[`...)
	for i := range d.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		s := d.State(i)
		b = append(b, `{"name":`...)
		b = appendText(b, s.Limit.Name)
		b = appendInt(b, `,"quota":`, s.Limit.Quota)
		b = appendState(b, s.Remaining, s.ResetIn, s.RetryIn)
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// AppendReset appends the line of a reset that was done.
func AppendReset(b []byte, r *Request) []byte {
	return append(appendRequest(b, r), ",\"ok\":true}\n"...)
}

// AppendCostError appends the line of a request whose cost can never fit.
func AppendCostError(b []byte, r *Request) []byte {
	return append(appendRequest(b, r), ",\"error\":\"cost\"}\n"...)
}

func appendRequest(b []byte, r *Request) []byte {
	b = appendInt(b, `{"t":`, r.Time)
	b = append(b, `,"op":"`...)
	b = append(b, r.Op...)
	b = append(b, `","key":`...)
	b = appendText(b, r.Key)
	return appendInt(b, `,"cost":`, r.Cost)
}

func appendState(b []byte, remaining int64, reset, retry time.Duration) []byte {
	b = appendInt(b, `,"remaining":`, remaining)
	b = appendInt(b, `,"reset_ms":`, reset.Milliseconds())
	return appendInt(b, `,"retry_ms":`, retry.Milliseconds())
}

func appendInt(b []byte, member string, n int64) []byte {
	return strconv.AppendInt(append(b, member...), n, 10)
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return appendEscaped(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendEscaped(b []byte, s string) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be written
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte{'\n'})...)
}
