package replay

import (
	"io"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/verdict"
)

// verdicts prints one JSON object a line for each event.
type verdicts struct {
	keys *timeline.Subjects
	out  io.Writer
	line []byte
}

// print implements [outcome].
func (v *verdicts) print(e *timeline.Event, d *slidegate.Decision, fits bool) error {
	r := verdict.Request{Time: e.Time, Op: e.Op.String(), Key: v.keys.Name(e.Subject), Cost: e.Cost}
	switch {
	case !fits:
		v.line = verdict.AppendCostError(v.line[:0], &r)
	case e.Op == accesslog.Reset:
		v.line = verdict.AppendReset(v.line[:0], &r)
	default:
		v.line = verdict.Append(v.line[:0], &r, d)
	}
	_, err := v.out.Write(v.line)
	return err
}
