package replay

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A meter shows progress on a terminal, and does nothing where there is none.
type meter struct {
	bar     *progressbar.ProgressBar
	pending int // not yet shown
}

// meterStep is how much goes by between two looks at the bar, which reads the clock each time.
const meterStep = 1 << 14

func newMeter(w io.Writer, what string, total int64, bytes bool) *meter {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return &meter{}
	}
	return &meter{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)}
}

func (m *meter) add(n int) {
	if m.pending += n; m.pending >= meterStep {
		m.show()
	}
}

func (m *meter) show() {
	if m.bar != nil {
		_ = m.bar.Add(m.pending) // a bar that cannot be drawn stops nothing
	}
	m.pending = 0
}

// done takes the bar from the screen.
func (m *meter) done() {
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}
