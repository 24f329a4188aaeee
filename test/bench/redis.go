package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

// A Redis is a server of our own on a free port of 127.0.0.1, which keeps nothing on disk.
type Redis struct {
	Addr string

	conn *redistest.Conn // to the database 0, where contenders are
	logs *redistest.Conn // to another, which contenders do not use
	stop func()
}

// NewRedis starts a server that ends with the test.
func NewRedis(t testing.TB) *Redis {
	server := redistest.Standalone(t)
	r := &Redis{Addr: server.Addr, conn: must(server.Dial()), logs: must(server.Dial()), stop: nothing}
	t.Cleanup(func() { _ = errors.Join(r.conn.Close(), r.logs.Close()) })
	must(r.logs.Do("SELECT", "1"))
	return r
}

// StartRedis starts a server where there is no test. An error says what to install.
func StartRedis() (r *Redis, err error) {
	s := &stage{}
	defer func() {
		if f, ok := recover().(failure); ok {
			s.end()
			err = f
		}
	}()
	r = NewRedis(s)
	r.stop = s.end
	return r, nil
}

// Stop ends a server that StartRedis started.
func (r *Redis) Stop() { r.stop() }

// A stage stands for the test that package redistest gives servers to. Of a test's methods it has those
// that are called.
type stage struct {
	testing.TB
	ends []func()
}

type failure string

func (f failure) Error() string { return string(f) }

func (s *stage) Helper()                        {}
func (s *stage) Cleanup(f func())               { s.ends = append(s.ends, f) }
func (s *stage) Fatal(args ...any)              { panic(failure(fmt.Sprint(args...))) }
func (s *stage) Fatalf(form string, arg ...any) { panic(failure(fmt.Sprintf(form, arg...))) }

func (s *stage) end() {
	for _, f := range slices.Backward(s.ends) {
		f()
	}
	s.ends = nil
}

// flush removes what contenders have left.
func (r *Redis) flush() { must(r.conn.Do("FLUSHDB")) }

// info returns the fields of a section of INFO.
func (r *Redis) info(section string) map[string]string {
	text, _ := must(r.conn.Do("INFO", section)).(string)
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// scripts returns how many scripts were run since the start, and the server's time for them.
func (r *Redis) scripts() (calls int64, took time.Duration) {
	stats := r.info("commandstats")
	for _, command := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		for field := range strings.SplitSeq(stats[command], ",") {
			name, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 10, 64) // 0 where the command was never called
			switch name {
			case "calls":
				calls += n
			case "usec":
				took += time.Duration(n) * time.Microsecond
			}
		}
	}
	return calls, took
}

// A bill is what a server and this process have spent until a moment.
type bill struct {
	server, client time.Duration // CPU
	bytes          int64         // that the server has received and sent
	scripts        int64
}

func (r *Redis) bill() bill {
	scripts, _ := r.scripts()
	stats := r.info("stats")
	return bill{
		server:  r.Processor(),
		client:  Processor(),
		bytes:   whole(stats["total_net_input_bytes"]) + whole(stats["total_net_output_bytes"]),
		scripts: scripts,
	}
}

// Processor returns the CPU time that the server has used.
func (r *Redis) Processor() time.Duration {
	cpu := r.info("cpu")
	return seconds(cpu["used_cpu_user"]) + seconds(cpu["used_cpu_sys"])
}

func seconds(text string) time.Duration {
	return time.Duration(must(strconv.ParseFloat(text, 64)) * float64(time.Second))
}

func whole(text string) int64 { return must(strconv.ParseInt(text, 10, 64)) }

// Processor returns the CPU time that this process has used.
func Processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TenThousand returns as many keys, shuffled.
var TenThousand = sync.OnceValue(func() []string {
	const n = 10_000
	order, i := rand.New(rand.NewPCG(seed, 4)).Perm(n), -1
	return draws(n, func() int { i++; return order[i] })
})
