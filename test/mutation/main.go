package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What tells a test binary which mutant it is: a number for Go, a directory of scripts for Lua.
const (
	variable = "ACTIVE_MUTANT"
	scripts  = "MUTATED_SCRIPTS"
)

// A mutant is the code with one fault.
type mutant struct {
	number  int
	file    string // from the root
	at      place
	name    string // in its file; it does not change while its line does not
	script  string // the whole text, if it is Lua
	killers []string
}

func (m *mutant) String() string { return m.file + ": " + m.name }

// A result is what became of a mutant.
type result int

const (
	survived result = iota
	killed
	timedOut // which a test would have noticed
	unbuilt  // Redis does not take the script
)

// A lab has everything that is needed to try a mutant.
type lab struct {
	root, dir string
	mutants   []*mutant
	packages  []string // that are mutated
	overlay   string
	mu        sync.Mutex          // guards the order of tests, and what they found
	tests     map[string][]*trial // by directory
	wanted    *regexp.Regexp      // tests that may be tried, nil for all
}

func main() {
	only := flag.String("only", "", "try mutants whose name, as it is listed, this `expression` matches")
	every := flag.Int("every", 1, "try every `n`th mutant")
	page := flag.Bool("page", false, "write the scores into docs/mutants.md")
	list := flag.Bool("list", false, "list the mutants, and try none")
	workers := flag.Int("parallel", 2, "mutants that are tried at a time")
	flag.Parse()
	if err := run(*only, *every, *workers, *page, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(only string, every, workers int, page, list bool) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := newLab(root, dir)
	if err != nil {
		return err
	}
	all := map[string]int{}
	for _, m := range l.mutants {
		all[m.file]++
	}
	if err := l.choose(only, every); err != nil {
		return err
	}
	if list {
		for _, m := range l.mutants {
			fmt.Println(m)
		}
		return nil
	}
	known, err := readEquivalents(root)
	if err != nil {
		return err
	}
	if err := l.build(); err != nil {
		return err
	}
	results := l.tryAll(workers)
	r := report{l.mutants, results, known, all}
	r.print(os.Stdout)
	if page {
		if err := r.write(root); err != nil {
			return err
		}
	}
	if n := len(r.news()); n > 0 {
		return fmt.Errorf("%d mutants survive that test/mutation/equivalent.txt does not list", n)
	}
	return nil
}

func repositoryRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/slidegate/slidegate").Output()
	return strings.TrimSpace(string(out)), err
}

// newLab makes every mutant, and an overlay for the builds.
func newLab(root, dir string) (*lab, error) {
	l := &lab{root: root, dir: dir, overlay: filepath.Join(dir, "overlay.json"), tests: map[string][]*trial{}}
	replace := map[string]string{}
	put := func(path, text string) error {
		at := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		replace[filepath.Join(root, filepath.FromSlash(path))] = at
		return os.WriteFile(at, []byte(text), 0o644)
	}
	for _, t := range targets {
		if !isLua(t.files[0]) {
			l.packages = append(l.packages, "./"+path.Dir(t.files[0]))
		}
	}
	byDir, exports, err := load(root, l.packages)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if isLua(t.files[0]) {
			err = l.mutateScripts(t)
		} else {
			err = l.mutateGo(t, byDir[path.Dir(t.files[0])], exports, put)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.readScriptsFromDirectory(put); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return l, os.WriteFile(l.overlay, text, 0o644)
}

// add adds a mutant, and returns its number. The second of a name is told from the first.
func (l *lab) add(seen map[string]int, t target, file, name, script string, at place) int {
	seen[file+name]++
	if n := seen[file+name]; n > 1 {
		name += " #" + strconv.Itoa(n)
	}
	m := &mutant{number: len(l.mutants) + 1, file: file, at: at, name: name, script: script, killers: t.killers}
	l.mutants = append(l.mutants, m)
	return m.number
}

func (l *lab) mutateGo(t target, p goPackage, exports map[string]string, put func(path, text string) error) error {
	seen := map[string]int{}
	texts, err := instrument(l.root, p, exports, t.files, func(file, name string, at place) int { return l.add(seen, t, file, name, "", at) })
	if err != nil {
		return err
	}
	for file, text := range texts {
		if err := put(file, text); err != nil {
			return err
		}
	}
	return put(path.Join(path.Dir(t.files[0]), "active_mutant.go"), switchFile(p.Name))
}

func (l *lab) mutateScripts(t target) error {
	seen := map[string]int{}
	for _, file := range t.files {
		src, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		luaMutants(string(src), func(name, text string) { l.add(seen, t, file, name, text, place{}) })
	}
	return nil
}

// readScriptsFromDirectory makes the store read its scripts where the environment says.
func (l *lab) readScriptsFromDirectory(put func(path, text string) error) error {
	const file = "redisstore/script.go"
	src, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(file)))
	if err != nil {
		return err
	}
	const read = "lua.ReadFile("
	if strings.Count(string(src), read) != 1 {
		return fmt.Errorf("%s does not read its scripts by %q", file, read)
	}
	text := strings.Replace(string(src), read, "readScript(", 1)
	text += fmt.Sprintf("\nfunc readScript(name string) ([]byte, error) {\n\tif text, err := os.ReadFile(os.Getenv(%q) + \"/\" + name); err == nil {\n\t\treturn text, nil\n\t}\n\treturn lua.ReadFile(name)\n}\n", scripts)
	return put(file, strings.Replace(text, "import (", "import (\n\t\"os\"", 1))
}

// choose keeps some of the mutants: all, or one in so many, of those whose name an expression matches.
func (l *lab) choose(only string, every int) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if every < 1 {
		return fmt.Errorf("-every %d: allowed is 1 or more", every)
	}
	var some []*mutant
	n := 0
	for _, m := range l.mutants {
		if pattern.MatchString(m.String()) {
			if n%every == 0 {
				some = append(some, m)
			}
			n++
		}
	}
	l.mutants = some
	return nil
}

// tryAll tries all mutants, a few at a time, and tells on a terminal how far it is.
func (l *lab) tryAll(workers int) []result {
	results := make([]result, len(l.mutants))
	next := make(chan int)
	var all sync.WaitGroup
	var mu sync.Mutex
	done, begin := 0, time.Now()
	for range workers {
		all.Go(func() {
			for i := range next {
				results[i] = l.try(l.mutants[i])
				mu.Lock()
				done++
				l.tell(done, begin, l.mutants[i], results[i])
				mu.Unlock()
			}
		})
	}
	for i := range l.mutants {
		next <- i
	}
	close(next)
	all.Wait()
	return results
}

func (l *lab) tell(done int, begin time.Time, m *mutant, r result) {
	info, err := os.Stderr.Stat()
	isTerminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	switch {
	case r == survived && isTerminal:
		fmt.Fprintf(os.Stderr, "\r\033[Ksurvived: %s\n", m)
	case r == survived:
		fmt.Fprintf(os.Stderr, "survived: %s\n", m)
	}
	if isTerminal {
		fmt.Fprintf(os.Stderr, "\r\033[K%d of %d, %s: %s", done, len(l.mutants), time.Since(begin).Round(time.Second), m.file)
	} else if done%100 == 0 {
		fmt.Fprintf(os.Stderr, "%d of %d, %s\n", done, len(l.mutants), time.Since(begin).Round(time.Second))
	}
}
