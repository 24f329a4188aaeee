package source

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A Meter shows progress on a terminal, with the rate and the time that is left, and does nothing where there
// is none. It is safe for concurrent use once it was started, and counts what comes before.
type Meter struct {
	bar     atomic.Pointer[progressbar.ProgressBar]
	pending atomic.Int64 // not yet shown
}

// meterStep is how much goes by between two looks at the bar, which reads the clock each time.
const meterStep = 1 << 14

// Start shows the bar of so much, in bytes or in requests; -1 where nobody knows how much it is.
func (m *Meter) Start(w io.Writer, what string, total int64, bytes bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	m.bar.Store(newBar(w, what, total, bytes))
}

func newBar(w io.Writer, what string, total int64, bytes bool) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true),
	}
	if bytes {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("requests"))
	}
	return progressbar.NewOptions64(total, options...)
}

// Add counts so much as done.
func (m *Meter) Add(n int) {
	if m.pending.Add(int64(n)) < meterStep {
		return
	}
	n64 := m.pending.Swap(0)
	if bar := m.bar.Load(); bar != nil {
		_ = bar.Add64(n64) // a bar that cannot be drawn stops nothing
	}
}

// Done takes the bar from the screen.
func (m *Meter) Done() {
	if bar := m.bar.Swap(nil); bar != nil {
		_ = bar.Clear()
	}
}
