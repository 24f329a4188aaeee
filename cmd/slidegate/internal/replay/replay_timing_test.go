package replay

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
)

// combinedLog returns lines of the Combined Log Format, in order and about as long as those of a
// site: ten thousand clients, a few of which send half of all requests.
func combinedLog(lines int) string {
	rnd := rand.New(rand.NewPCG(7, 7))
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	var b strings.Builder
	for i := range lines {
		client := rnd.IntN(10_000)
		if i%2 == 0 {
			client = rnd.IntN(20)
		}
		fmt.Fprintf(&b, "198.18.%d.%d - - [%s] \"GET /api/v1/items/%d HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\"\n",
			client/250, client%250, at.Add(time.Duration(i/10)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), rnd.IntN(10_000), rnd.IntN(100_000))
	}
	return b.String()
}

// BenchmarkReplay is the whole command on a file, in lines a second.
func BenchmarkReplay(b *testing.B) {
	const lines = 1_000_000
	file := filepath.Join(b.TempDir(), "combined.log")
	text := combinedLog(lines)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		verdicts bool
		limits   []slidegate.Limit
	}{
		{"report", false, []slidegate.Limit{slidegate.PerMinute(60)}},
		{"report/three", false, []slidegate.Limit{slidegate.PerSecond(5), slidegate.PerMinute(60), slidegate.PerHour(600).Counter()}},
		{"verdicts", true, []slidegate.Limit{slidegate.PerMinute(60)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			log := &source.Source{Log: accesslog.Options{Files: []string{file}}, Subjects: func() accesslog.Subject { return accesslog.ByAddress }}
			r := &run{source: log, limits: c.limits, verdicts: c.verdicts, stdout: io.Discard, stderr: io.Discard}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := r.do(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for name, line := range map[string]string{
		"combined": strings.TrimSpace(combinedLog(1)),
		"jsonl":    `{"t":1757750400000,"op":"take","key":"198.18.0.1","cost":1}`,
	} {
		b.Run(name, func(b *testing.B) {
			p := format(b, "combined").NewParser()
			if line[0] == '{' {
				p = accesslog.Events.NewParser()
			}
			text := []byte(line)
			var r accesslog.Record
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Parse(text, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
