package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A place is where something begins in a file.
type place struct{ line, column int }

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// A trial is one test, what it takes without a fault, and what it reaches.
type trial struct {
	dir, name string
	took      time.Duration
	reaches   map[string][][2]place // by file

	found int           // mutants, so far
	spent time.Duration // on mutants
}

// pays tells how much of a time a test is worth: what it takes for each mutant that it finds. One that takes long where nothing
// is wrong may be quick to find what is.
func (t *trial) pays() float64 { return float64(t.took+t.spent) / float64(1+t.found) }

// mayFind tells whether a test gets to a mutant at all. What a script does is not known.
func (t *trial) mayFind(m *mutant) bool {
	return isLua(m.file) || slices.ContainsFunc(t.reaches[m.file], func(block [2]place) bool {
		return !m.at.before(block[0]) && m.at.before(block[1])
	})
}

func (l *lab) binary(dir string) string {
	return filepath.Join(l.dir, strings.ReplaceAll(dir, "/", "-")+".test")
}

// build builds the tests with all mutants in them, sees that they pass while none is active, and what each of them reaches.
func (l *lab) build() error {
	for _, m := range l.mutants {
		for _, dir := range m.killers {
			if _, ok := l.tests[dir]; ok {
				continue
			}
			fmt.Fprintln(os.Stderr, "building and trying the tests of", dir)
			if err := l.buildTests(dir, isLua(m.file)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lab) buildTests(dir string, ofScripts bool) error {
	at, measured := filepath.Join(l.root, filepath.FromSlash(dir)), l.binary(dir)
	build := func(args ...string) error {
		cmd := exec.Command("go", append(append([]string{"test", "-c", "-vet=off"}, args...), ".")...)
		cmd.Dir = at
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	if err := build("-overlay", l.overlay, "-o", l.binary(dir)); err != nil {
		return fmt.Errorf("the tests of %s do not build: %w", dir, err)
	}
	if !ofScripts {
		var paths []string
		for _, p := range l.packages {
			paths = append(paths, path.Join("github.com/slidegate/slidegate", p))
		}
		measured += ".cover"
		if err := build("-cover", "-coverpkg", strings.Join(paths, ","), "-o", measured); err != nil {
			return fmt.Errorf("the tests of %s do not build with -cover: %w", dir, err)
		}
	}
	list := exec.Command(measured, "-test.list", ".")
	list.Dir = at
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("the tests of %s: %w", dir, err)
	}
	l.tests[dir] = nil
	for _, name := range strings.Fields(string(names)) {
		if without.MatchString(name) || l.wanted != nil && !l.wanted.MatchString(name) {
			continue
		}
		t := &trial{dir: dir, name: name, took: time.Minute}
		begin := time.Now()
		if r, out := l.test(variable+"=0", []*trial{t}); r != survived {
			return fmt.Errorf("%s of %s fails without a fault:\n%s", name, dir, out)
		}
		t.took = time.Since(begin)
		if !ofScripts {
			if err := l.reach(t, measured); err != nil {
				return fmt.Errorf("%s of %s: %w", name, dir, err)
			}
		}
		l.tests[dir] = append(l.tests[dir], t)
	}
	slices.SortStableFunc(l.tests[dir], func(a, b *trial) int { return int(a.took - b.took) })
	return nil
}

// reach notes what a test reaches.
func (l *lab) reach(t *trial, binary string) error {
	profile := filepath.Join(l.dir, "profile")
	cmd := exec.Command(binary, "-test.run", "^"+t.name+"$", "-test.coverprofile", profile)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(t.dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	t.reaches = map[string][][2]place{}
	for line := range strings.Lines(string(text)) {
		file, rest, _ := strings.Cut(strings.TrimPrefix(line, "github.com/slidegate/slidegate/"), ":")
		var from, to place
		var statements, count int
		if n, _ := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from.line, &from.column, &to.line, &to.column, &statements, &count); n == 6 && count > 0 {
			t.reaches[file] = append(t.reaches[file], [2]place{from, to})
		}
	}
	return nil
}

// test runs tests of a package. What does not pass has found the fault, and so has what takes four times as long, of the
// processor, or much more memory. What waits for ever is ended too.
func (l *lab) test(env string, tests []*trial) (result, string) {
	var names []string
	usual := time.Duration(0)
	for _, t := range tests {
		names, usual = append(names, t.name), usual+t.took
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second+10*usual)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -v 8000000; ulimit -t %d; exec "$0" "$@"`, 2+int(4*usual.Seconds()))
	args := []string{"-c", limits, l.binary(tests[0].dir), "-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}
	if tests[0].dir == "test" {
		args = append(args, "-rapid.nofailfile") // it would be written into the tree
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(tests[0].dir))
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return survived, string(out)
	case ctx.Err() != nil || bytes.Contains(out, []byte("SIGXCPU")):
		return timedOut, string(out)
	case bytes.Contains(out, []byte("Error compiling script")):
		return unbuilt, string(out)
	}
	return killed, string(out)
}

// enough is what tests may take together that are run at once: most mutants are found by one of the quickest.
const enough = 100 * time.Millisecond

// try tries a mutant: the tests that reach it, quick ones first.
func (l *lab) try(m *mutant) result {
	env := variable + "=" + strconv.Itoa(m.number)
	if isLua(m.file) {
		dir := filepath.Join(l.dir, strconv.Itoa(m.number))
		if os.Mkdir(dir, 0o755) != nil || os.WriteFile(filepath.Join(dir, path.Base(m.file)), []byte(m.script), 0o644) != nil {
			return survived
		}
		defer os.RemoveAll(dir)
		env = scripts + "=" + dir
	}
	for _, dir := range m.killers {
		var some []*trial
		took := time.Duration(0)
		all := l.order(dir)
		for i, t := range all {
			if t.mayFind(m) {
				some, took = append(some, t), took+t.took
			}
			if len(some) > 0 && (took > enough || i == len(all)-1) {
				begin := time.Now()
				r, out := l.test(env, some)
				l.note(some, out, r, time.Since(begin))
				if r != survived {
					return r
				}
				some, took = nil, 0
			}
		}
	}
	return survived
}

// order returns the tests of a directory as they are to be tried.
func (l *lab) order(dir string) []*trial {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.tests[dir], func(a, b *trial) int { return cmp.Compare(a.pays(), b.pays()) })
	return slices.Clone(l.tests[dir])
}

// note keeps what tests that ran at once have found of a mutant, and what they took for it.
func (l *lab) note(tests []*trial, out string, r result, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tests {
		switch {
		case r == survived:
			t.spent += t.took
		case len(tests) == 1 || strings.Contains(out, "--- FAIL: "+t.name+" "):
			t.found++
			t.spent += took
		}
	}
}
