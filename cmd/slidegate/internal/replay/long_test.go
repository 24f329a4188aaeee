//go:build !race

package replay

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/slidegate/slidegate"
)

// A heapGauge looks at the heap while a log is read.
type heapGauge struct {
	io.Reader
	reads int
	most  uint64
}

func (g *heapGauge) Read(b []byte) (int, error) {
	if g.reads++; g.reads%2048 == 0 {
		g.look()
	}
	return g.Reader.Read(b)
}

func (g *heapGauge) look() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	g.most = max(g.most, m.HeapAlloc)
}

// TestLongLogIsNotHeld: of twenty million lines, two servers' one after the other and so in no order, nothing stays
// in memory but a bounded number of events and what is counted, and nothing on the disk. Held whole, the events
// are 640 MB.
func TestLongLogIsNotHeld(t *testing.T) {
	const lines, most, mostInAll = 10_000_000, 96 << 20, 500 << 20
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	source := &generatedLog{lines: lines, servers: 2}
	gauge := &heapGauge{Reader: source}
	gauge.look()
	before := gauge.most
	var out bytes.Buffer
	r := &run{
		source: input(nil, 0), limits: []slidegate.Limit{slidegate.PerSecond(1)}, json: true,
		stdin: gauge, stdout: &out, stderr: io.Discard,
	}
	if err := r.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	gauge.look()
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	// Each client asks both servers in the same second, once in ten seconds.
	if report.Events != 2*lines || report.Admitted != lines || report.Refused != lines || report.Keys != 1000 || report.OutOfOrder != lines-100 || report.Format != "combined" {
		t.Errorf("%+v", report)
	}
	if grown := gauge.most - before; grown > most {
		t.Errorf("%d MB more in memory, want at most %d", grown>>20, most>>20)
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.Sys > mostInAll {
		t.Errorf("%d MB taken from the system, want at most %d", m.Sys>>20, mostInAll>>20)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}
