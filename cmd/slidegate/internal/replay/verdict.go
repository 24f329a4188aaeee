package replay

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
)

// verdicts prints one JSON object a line for each event.
type verdicts struct {
	player *player
	out    io.Writer
	line   []byte
}

func (v *verdicts) print(e *event) error {
	d, fits, err := v.player.play(e)
	if err != nil {
		return err
	}
	b := appendEvent(v.line[:0], e, v.player.keys.names[e.key])
	switch {
	case !fits:
		b = append(b, `,"error":"cost"}`...)
	case e.op == reset:
		b = append(b, `,"ok":true}`...)
	default:
		b = appendDecision(b, &d)
	}
	v.line = append(b, '\n')
	_, err = v.out.Write(v.line)
	return err
}

func appendEvent(b []byte, e *event, key string) []byte {
	b = appendInt(b, `{"t":`, e.t)
	b = append(b, `,"op":"`...)
	b = append(b, e.op.String()...)
	b = append(b, `","key":`...)
	b = appendText(b, key)
	return appendInt(b, `,"cost":`, e.cost)
}

func appendDecision(b []byte, d *slidegate.Decision) []byte {
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
	return append(b, `]}`...)
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
