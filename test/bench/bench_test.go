package bench_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/bench"
)

func BenchmarkHot1(b *testing.B)    { decide(b, "hot1", bench.Contenders()) }
func BenchmarkHot2(b *testing.B)    { decide(b, "hot2", bench.Contenders()) }
func BenchmarkUniform(b *testing.B) { decide(b, "uniform", bench.Contenders()) }
func BenchmarkZipf100(b *testing.B) { decide(b, "zipf100", bench.Contenders()) }
func BenchmarkZipf1M(b *testing.B)  { decide(b, "zipf1m", bench.Contenders()) }
func BenchmarkDenied1(b *testing.B) { decide(b, "denied1", bench.Contenders()) }
func BenchmarkDenied2(b *testing.B) { decide(b, "denied2", bench.Contenders()) }
func BenchmarkThree(b *testing.B)   { decide(b, "hot1", bench.OursOfThree()) }

func BenchmarkRedis1(b *testing.B)   { decideOnRedis(b, 1) }
func BenchmarkRedis16(b *testing.B)  { decideOnRedis(b, 16) }
func BenchmarkRedis256(b *testing.B) { decideOnRedis(b, 256) }

func decideOnRedis(b *testing.B, callers int) {
	_, contenders := onRedis(b)
	measure(b, bench.Workload{Name: "redis", Quota: 1_000_000, Window: time.Minute, Keys: bench.TenThousand, Callers: callers, Verdict: bench.Allowed}, contenders)
}

func decide(b *testing.B, workload string, contenders []bench.Contender) {
	measure(b, bench.FindWorkload(workload), contenders)
}

func measure(b *testing.B, w bench.Workload, contenders []bench.Contender) {
	for _, c := range contenders {
		b.Run(c.Name, func(b *testing.B) {
			l := w.Prepare(&c)
			defer l.Close()
			b.ReportAllocs()
			b.ResetTimer()
			t := w.Run(l, b.N)
			b.StopTimer()
			if err := w.Check(&t); err != nil {
				b.Error(err)
			}
			b.ReportMetric(100*float64(t.Count[bench.Failed])/float64(b.N), "%errors")
		})
	}
}

func BenchmarkQuota(b *testing.B) {
	for _, c := range []struct {
		name      string
		algorithm slidegate.Algorithm
		quota     int64
	}{
		{"slidegate-log-Take-10", slidegate.SlidingLog, 10},
		{"slidegate-log-Take-1000000", slidegate.SlidingLog, 1_000_000},
		{"slidegate-counter-Take-10", slidegate.SlidingCounter, 10},
		{"slidegate-counter-Take-1000000", slidegate.SlidingCounter, 1_000_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			key := bench.Key(1)
			l := bench.Steady(c.algorithm, c.quota, time.Minute, key)
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				l.Take(key)
			}
		})
	}
}

func BenchmarkHTTPAllowed(b *testing.B) { serve(b, "http-allowed") }
func BenchmarkHTTPDenied(b *testing.B)  { serve(b, "http-denied") }

func serve(b *testing.B, name string) {
	c := bench.FindCrowd(name)
	b.Run("bare", func(b *testing.B) { ask(b, bench.NewServer(bench.Bare, c.Clients)) })
	for _, m := range bench.Middlewares() {
		b.Run(m.Name, func(b *testing.B) {
			s := c.Serve(&m)
			defer s.Stop()
			ask(b, s)
		})
	}
}

func ask(b *testing.B, s *bench.Server) {
	b.ReportAllocs()
	for b.Loop() {
		s.Ask(1)
	}
	b.ReportMetric(float64(s.Fields()), "fields")
}
