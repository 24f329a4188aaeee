package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The ways to read a log that are measured, and what they are held against.
const (
	Awk    = "awk-count" // awk '{ c[$1]++ }': the least that who counts clients does
	Replay = "slidegate-replay"
	Sweep  = "slidegate-sweep"
)

// LogLines is how many lines the log has.
const LogLines = 2_000_000

// Logs measures commands that read one log of [LogLines] in the Combined Log Format, of a hundred thousand clients of whom some come
// far more often than others. It is written when it is first read. The zero value has none.
type Logs struct {
	programs programs
	file     string
}

// Commands returns how each way is called on a file.
func (s *Logs) Commands() []string { return []string{Awk, Replay, Sweep} }

func (s *Logs) command(name string) (*exec.Cmd, error) {
	if name == Awk {
		return exec.Command("awk", "{ c[$1]++ } END { for (k in c) n++; print n }", s.file), nil
	}
	path, err := s.programs.build(slidegateCommand)
	if name == Replay {
		return exec.Command(path, "replay", "--limit", "60/1m", "--json", s.file), err
	}
	return exec.Command(path, "sweep", "--json", s.file), err
}

// Time returns how long a line takes.
func (s *Logs) Time(name string) (ns float64, err error) {
	if s.file == "" {
		if err := s.write(); err != nil {
			return 0, err
		}
	}
	cmd, err := s.command(name)
	if err != nil {
		return 0, err
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		return 0, fmt.Errorf("%s: %w, %q", name, err, errs.String())
	}
	return float64(time.Since(start)) / LogLines, nil
}

// Close removes what was written and built.
func (s *Logs) Close() { s.programs.stop() }

func (s *Logs) write() error {
	if _, err := s.programs.build(slidegateCommand); err != nil { // makes the directory too
		return err
	}
	s.file = filepath.Join(s.programs.dir, "access.log")
	file, err := os.Create(s.file)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	clients := rand.NewZipf(rng, 1.1, 8, 99_999)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range LogLines {
		c := clients.Uint64()
		when := at.Add(time.Duration(i) * 7 * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(out, "198.%d.%d.%d - - [%s] \"GET /articles/%d?page=%d HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n",
			18+c>>16, c>>8&0xff, c&0xff, when, rng.IntN(5000), rng.IntN(9), rng.IntN(60000))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}
