package examples

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

const (
	patience = time.Minute // with a busy machine
	redis    = "127.0.0.1:6379"
)

// bin holds the programs of the examples, which TestMain has built, and tools the commands of this repository that they start.
var bin, tools string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "slidegate-examples-")
	if err == nil {
		bin, tools = filepath.Join(dir, "bin"), filepath.Join(dir, "tools")
		err = build(bin, "./...")
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(into, packages string) error {
	cmd := exec.Command("go", "build", "-o", into+"/", packages)
	cmd.Stderr = os.Stderr
	return errors.Join(os.MkdirAll(into, 0o755), cmd.Run())
}

// builds are those of the tools, when they are needed.
var builds = map[string]func() error{
	"slidegate": sync.OnceValue(func() error { return build(tools, "../cmd/slidegate") }),
	"caddy":     sync.OnceValue(func() error { return build(tools, "../caddygate/cmd/caddy") }),
}

// A readme is what there is to be run in a README.
type readme struct {
	starts []string // of sh blocks, a line each
	shown  []shown  // of console blocks
}

type shown struct{ command, want string }

var block = regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$")

func read(t *testing.T, path string) (r readme) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(m[2]) {
			command, isCommand := strings.CutPrefix(line, "$ ")
			switch {
			case m[1] == "sh":
				r.starts = append(r.starts, strings.TrimSpace(line))
			case isCommand:
				r.shown = append(r.shown, shown{command: strings.TrimSpace(command)})
			case len(r.shown) == 0:
				t.Fatalf("%s: %q is printed by no command", path, line)
			default:
				r.shown[len(r.shown)-1].want += line
			}
		}
	}
	return r
}

// examples returns the directories that have a README.
func examples(t *testing.T) (names []string) {
	t.Helper()
	readmes, err := filepath.Glob("*/README.md")
	if err != nil || len(readmes) < 12 {
		t.Fatalf("%d examples, %v", len(readmes), err)
	}
	for _, readme := range readmes {
		names = append(names, filepath.Dir(readme))
	}
	return names
}

// TestReadmes runs what they say, word for word but for the ports, and gets what they show.
func TestReadmes(t *testing.T) {
	for _, name := range examples(t) {
		r := read(t, filepath.Join(name, "README.md"))
		if len(r.starts) == 1 && r.starts[0] == "go test ./"+name {
			continue // make test runs it
		}
		t.Run(name, func(t *testing.T) { r.run(t, newStage(t, r)) })
	}
}

// TestEveryReadmeShowsBoth an admission and a refusal.
func TestEveryReadmeShowsBoth(t *testing.T) {
	admitted := regexp.MustCompile(`(?m)\b200\b|^"?hello|^OK$|^a report|message 1$`)
	refused := regexp.MustCompile(`\b429\b|ResourceExhausted|resource_exhausted|closed: StatusPolicyViolation|has to wait|not sent`)
	for _, name := range examples(t) {
		r := read(t, filepath.Join(name, "README.md"))
		if len(r.shown) == 0 {
			tests, err := filepath.Glob(name + "/*_test.go")
			if err != nil || len(tests) == 0 || !slices.Equal(r.starts, []string{"go test ./" + name}) {
				t.Errorf("%s: its README shows nothing, and it is no test", name)
			}
			continue
		}
		var all strings.Builder
		for _, s := range r.shown {
			all.WriteString(s.want)
		}
		if !admitted.MatchString(all.String()) || !refused.MatchString(all.String()) {
			t.Errorf("%s: its README does not show that something is admitted, and something refused", name)
		}
	}
}

// TestIndex: the page of all examples has each of them, and every program is one or is used by one.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := examples(t)
	for _, name := range names {
		if !strings.Contains(string(index), "]("+name+"/README.md)") {
			t.Errorf("README.md does not have %s", name)
		}
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if name := filepath.Dir(program); name != "app" && !slices.Contains(names, name) {
			t.Errorf("%s has no README.md", name)
		}
	}
}

// A stage is a copy of the examples in which every address is one that is free.
type stage struct {
	t       *testing.T
	dir     string
	moved   map[string]string // addresses, by those that the pages have
	exports []string
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+|\blisten 8080\b`)

func newStage(t *testing.T, r readme) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), moved: map[string]string{}}
	for _, line := range r.starts {
		s.plan(line)
	}
	for _, shown := range r.shown {
		s.plan(shown.command)
	}
	for from, to := range map[string]string{".": "examples", "../deploy/nginx": "deploy/nginx"} {
		s.copy(from, filepath.Join(s.dir, to))
	}
	return s
}

// plan finds a free address for each that a text has.
func (s *stage) plan(text string) {
	s.t.Helper()
	for _, from := range address.FindAllString(text, -1) {
		switch {
		case s.moved[from] != "":
		case from == redis:
			s.moved[from] = redistest.Standalone(s.t).Addr
		default:
			s.moved[from] = freeAddress(s.t)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// here returns a text with the addresses of this stage.
func (s *stage) here(text string) string {
	return address.ReplaceAllStringFunc(text, func(from string) string {
		if from == "listen 8080" {
			return "listen " + s.moved["127.0.0.1:8080"]
		}
		if to := s.moved[from]; to != "" {
			return to
		}
		return from
	})
}

// copy copies configurations: what is no Go.
func (s *stage) copy(from, to string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		at := filepath.Join(to, filepath.Base(file))
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			s.copy(file, at)
			continue
		}
		text, err := os.ReadFile(file)
		if err = errors.Join(err, os.WriteFile(at, []byte(s.here(string(text))), 0o644)); err != nil {
			s.t.Fatal(err)
		}
	}
}

var goRun = regexp.MustCompile(`\bgo run \./(\w+)`)

// command is a line of a page, with what has been built in the place of what go run would build.
func (s *stage) command(line string) *exec.Cmd {
	line = goRun.ReplaceAllString(s.here(line), filepath.Join(bin, "$1"))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = filepath.Join(s.dir, "examples")
	path := tools + ":" + os.Getenv("PATH") + ":/usr/sbin:/usr/local/sbin"
	cmd.Env = append(os.Environ(), append([]string{"PATH=" + path}, s.exports...)...)
	return cmd
}

// start starts a server, and stops it when the test ends.
func (s *stage) start(line string) {
	s.t.Helper()
	var out bytes.Buffer
	cmd := s.command("exec " + line)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		end := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer end.Stop()
		if cmd.Wait(); s.t.Failed() {
			s.t.Logf("%s:\n%s", line, out.String())
		}
	})
}

// answering waits until somebody listens at every address.
func (s *stage) answering() {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for _, at := range slices.Sorted(maps.Values(s.moved)) {
		for {
			conn, err := net.Dial("tcp", at)
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(deadline) {
				s.t.Fatal(err)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

func (r readme) run(t *testing.T, s *stage) {
	for _, line := range r.starts {
		tool, _, _ := strings.Cut(line, " ")
		if build := builds[tool]; build != nil {
			if err := build(); err != nil {
				t.Fatal(err)
			}
		}
		export, isExport := strings.CutPrefix(line, "export ")
		server, isServer := strings.CutSuffix(line, " &")
		switch {
		case isExport:
			s.exports = append(s.exports, s.here(export))
		case isServer:
			s.start(server)
		default:
			if out, err := s.command(line).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		}
	}
	s.answering()
	for _, shown := range r.shown {
		out, err := s.command(shown.command).Output()
		got := strings.TrimSpace(strings.ReplaceAll(string(out), "\r\n", "\n")) // as a page shows it
		if err != nil || got != strings.TrimSpace(shown.want) {
			t.Errorf("%s: %v, it prints\n%s\nwant\n%s", shown.command, err, got, shown.want)
		}
	}
}
