package replay

import (
	"io"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/verdict"
)

// verdicts prints one JSON object a line for each event.
type verdicts struct {
	keys *keys
	out  io.Writer
	line []byte
}

// print implements [outcome].
func (v *verdicts) print(e *event, d *slidegate.Decision, fits bool) error {
	r := verdict.Request{Time: e.t, Op: e.op.String(), Key: v.keys.names[e.key], Cost: e.cost}
	switch {
	case !fits:
		v.line = verdict.AppendCostError(v.line[:0], &r)
	case e.op == reset:
		v.line = verdict.AppendReset(v.line[:0], &r)
	default:
		v.line = verdict.Append(v.line[:0], &r, d)
	}
	_, err := v.out.Write(v.line)
	return err
}
