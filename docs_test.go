package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
	"github.com/slidegate/slidegate/memstore"
)

// A page is a Markdown file, split into prose and what stands in fences.
type page struct {
	path   string
	whole  string
	prose  string
	fences []fence
}

type fence struct {
	language, text string
	line           int
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := page{path: path, whole: string(text)}
	inside := false
	for i, line := range strings.SplitAfter(string(text), "\n") {
		rest, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			inside = true
			p.fences = append(p.fences, fence{language: rest, line: i + 1})
		case isFence:
			inside = false
		case inside:
			p.fences[len(p.fences)-1].text += line
		default:
			p.prose += line
		}
	}
	if inside {
		t.Errorf("%s: a fence is not closed", path)
	}
	return p
}

// in returns what stands in fences of a language.
func (p page) in(language string) (texts []string) {
	for _, f := range p.fences {
		if f.language == language {
			texts = append(texts, f.text)
		}
	}
	return texts
}

// commands returns the shell commands of a page, without their comments.
func (p page) commands() (all []string) {
	for _, text := range p.in("sh") {
		for line := range strings.Lines(text) {
			command, _, _ := strings.Cut(line, " #")
			if command = strings.TrimSpace(command); command != "" && command[0] != '#' {
				all = append(all, command)
			}
		}
	}
	return all
}

// A link as Markdown has it.
type link struct{ text, target string }

var linkPattern = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)

func (p page) links() (all []link) {
	for _, m := range linkPattern.FindAllStringSubmatch(p.prose, -1) {
		all = append(all, link{m[1], m[2]})
	}
	return all
}

func pages(t *testing.T) (all []page) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			all = append(all, readPage(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the fragments that the headings of a page can be reached by.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(p.prose) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		all[slug] = true
	}
	return all
}

// TestLinksResolve: every relative link leads to a file, a directory or a heading that exists.
func TestLinksResolve(t *testing.T) {
	reached := map[string]bool{"README.md": true}
	all := pages(t)
	for _, p := range all {
		for _, l := range p.links() {
			if strings.Contains(l.target, "://") || strings.HasPrefix(l.target, "mailto:") {
				continue
			}
			file, fragment, _ := strings.Cut(l.target, "#")
			at := p.path
			if file != "" {
				at = filepath.Join(filepath.Dir(p.path), file)
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", p.path, l.target)
				continue
			}
			if at != p.path {
				reached[at] = true
			}
			if fragment != "" && strings.HasSuffix(at, ".md") && !readPage(t, at).anchors()[fragment] {
				t.Errorf("%s: the link to %s: no such heading", p.path, l.target)
			}
		}
	}
	for _, p := range all {
		if !reached[p.path] {
			t.Errorf("%s: no page links to it", p.path)
		}
	}
}

var namePattern = regexp.MustCompile("^`(?:[a-z]+\\.)?(?:[A-Z][A-Za-z]*\\.)?([A-Z][A-Za-z0-9]*)`$")

// TestNamedCodeExists: a link whose text is a Go name, in backquotes, leads to the file that declares
// it. So every test that a promise names exists, and every law among them is run.
func TestNamedCodeExists(t *testing.T) {
	laws := map[string]bool{}
	for _, law := range gatetest.Laws() {
		laws[law.Name] = true
	}
	for _, law := range httpgatetest.Laws() {
		laws[law.Name] = true
	}
	for _, p := range pages(t) {
		for _, l := range p.links() {
			name := namePattern.FindStringSubmatch(l.text)
			if name == nil || !strings.HasSuffix(l.target, ".go") {
				continue
			}
			source, err := os.ReadFile(filepath.Join(filepath.Dir(p.path), l.target))
			if err != nil {
				t.Errorf("%s: %v", p.path, err)
				continue
			}
			declared := regexp.MustCompile(`(?m)^(func|type|var|const|func \([^)]*\)) ` + name[1] + `\b`)
			if !declared.Match(source) {
				t.Errorf("%s: %s does not declare %s", p.path, l.target, name[1])
			}
			isLaw := strings.HasSuffix(l.target, "gatetest/suite.go") || strings.HasSuffix(l.target, "gatetest/scenarios.go")
			if isLaw && name[1] != "TestStore" && name[1] != "Run" && !laws[name[1]] {
				t.Errorf("%s: %s is none of the laws that gatetest and httpgatetest run", p.path, name[1])
			}
		}
	}
}

var optionPattern = regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(.*\) \w*Option\b`)

// TestEveryOptionIsOnAPage: whatever can be chosen is told of where somebody looks who does not know its name.
func TestEveryOptionIsOnAPage(t *testing.T) {
	var text strings.Builder
	for _, p := range pages(t) {
		text.WriteString(p.whole)
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(text.String(), -1) {
		words[word] = true
	}
	sources, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, path := range sources {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range optionPattern.FindAllStringSubmatch(string(source), -1) {
			if options++; !words[name[1]] {
				t.Errorf("%s: no page tells of %s", path, name[1])
			}
		}
	}
	if options < 90 {
		t.Errorf("only %d options are read", options)
	}
}

// TestPromisesHaveTests: no promise of a README stands without a test.
func TestPromisesHaveTests(t *testing.T) {
	for path, heading := range map[string]string{"README.md": "## What it promises", "README.zh-CN.md": "## 承诺"} {
		_, section, ok := strings.Cut(readPage(t, path).prose, heading+"\n")
		if !ok {
			t.Errorf("%s: no %q", path, heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		promises := 0
		for line := range strings.Lines(section) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise") || strings.HasPrefix(line, "| 承诺") {
				continue
			}
			promises++
			if !strings.Contains(line, "`](") || !strings.Contains(line, ".go)") {
				t.Errorf("%s: no test is named for the promise %s", path, strings.TrimSpace(line))
			}
		}
		if promises < 10 {
			t.Errorf("%s: only %d promises are read", path, promises)
		}
	}
}

// TestReadmeCommandsRunInCI, every one, word for word.
func TestReadmeCommandsRunInCI(t *testing.T) {
	ci, err := os.ReadFile(filepath.Join(".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for line := range strings.Lines(string(ci)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasPrefix(line, "step ") {
			runs = append(runs, " "+line+" ")
		}
	}
	commands := readPage(t, "README.md").commands()
	if len(commands) < 4 {
		t.Errorf("only %d commands are read: %q", len(commands), commands)
	}
	for _, command := range commands {
		if !slices.ContainsFunc(runs, func(line string) bool { return strings.Contains(line, " "+command+" ") }) {
			t.Errorf("README.md: .ci/run does not run %q", command)
		}
	}
}

// TestReadmesNameTheGoVersion that go.work asks for.
func TestReadmesNameTheGoVersion(t *testing.T) {
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(work)
	for _, path := range []string{"README.md", "README.zh-CN.md"} {
		if p := readPage(t, path); version == nil || !strings.Contains(p.prose, fmt.Sprintf("Go %s ", version[1])) {
			t.Errorf("%s does not say Go %s", path, version)
		}
	}
}

// numeric is a cell of a table that is the same in every language.
var numeric = regexp.MustCompile(`^[-:]+$|^[0-9.,*-]+$`)

// skeleton returns what a page consists of, in its order: headings by level, paragraphs, items and rows, with where they link to; what
// stands in fences; and of rows how many cells they have and what numbers. It is the same for a page and its translation.
func (p page) skeleton() (parts []string) {
	links := func(text string) string {
		var targets []string
		for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
			targets = append(targets, strings.Replace(m[2], "README.zh-CN.md", "README.md", 1))
		}
		return strings.Join(targets, " ")
	}
	fences, inside, paragraph := 0, false, ""
	flush := func() {
		if paragraph != "" {
			parts = append(parts, "paragraph "+links(paragraph))
		}
		paragraph = ""
	}
	for line := range strings.Lines(p.whole) {
		line = strings.TrimSuffix(line, "\n")
		level := len(line) - len(strings.TrimLeft(line, "#"))
		switch {
		case strings.HasPrefix(line, "```"):
			if flush(); !inside {
				f := p.fences[fences]
				parts = append(parts, "fence "+f.language+" "+strings.Join(page{fences: []fence{f}}.commands(), "; "))
				fences++
			}
			inside = !inside
		case inside:
		case strings.TrimSpace(line) == "":
			flush()
		case level > 0:
			flush()
			parts = append(parts, line[:level])
		case strings.HasPrefix(line, "|"):
			flush()
			row := "row"
			for _, cell := range strings.Split(line, "|") {
				if cell = strings.TrimSpace(cell); !numeric.MatchString(cell) {
					cell = "…"
				}
				row += " " + cell
			}
			parts = append(parts, row+" "+links(line))
		case strings.HasPrefix(line, "- "):
			flush()
			paragraph = line
			parts = append(parts, "item")
		default:
			paragraph += line
		}
	}
	flush()
	return parts
}

// TestReadmesAreEqual: the Chinese one has the sections, paragraphs, tables, commands, programs, outputs and links of the
// English one, in the same order.
func TestReadmesAreEqual(t *testing.T) {
	english, chinese := readPage(t, "README.md"), readPage(t, "README.zh-CN.md")
	for _, language := range []string{"go", "text"} {
		if a, b := english.in(language), chinese.in(language); !slices.Equal(a, b) {
			t.Errorf("what is in %s fences differs: %q, %q", language, a, b)
		}
	}
	a, b := english.skeleton(), chinese.skeleton()
	if len(a) < 100 {
		t.Errorf("only %d parts are read", len(a))
	}
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("they differ from part %d on:\n%s\n%s", i+1, strings.Join(a[min(i, len(a)):min(i+3, len(a))], "\n"), strings.Join(b[min(i, len(b)):min(i+3, len(b))], "\n"))
		}
	}
}

// TestATranslationThatDiffersIsFound, whatever the difference.
func TestATranslationThatDiffersIsFound(t *testing.T) {
	const text = "# A\n\nOne [b](b.md).\n\n```sh\nmake run # build\n```\n\n| a | b |\n|---|--:|\n| [x](x.go) | 1.5 |\n\n- an item [c](c.md)\n"
	of := func(text string) []string {
		path := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return readPage(t, path).skeleton()
	}
	want := of(text)
	if got := of(strings.NewReplacer("One", "一", "# build", "# 构建", "an item", "一项").Replace(text)); !slices.Equal(got, want) {
		t.Errorf("a translation is told to differ: %q, %q", got, want)
	}
	for old, changed := range map[string]string{
		"# A\n": "## A\n", "b.md": "d.md", "make run": "make test", "```sh": "```text", "1.5": "1.6", "| a | b |": "| a |",
		"[x](x.go)": "x", "c.md": "d.md", "- an": "an", "One ": "One.\n\nTwo ",
	} {
		if got := of(strings.Replace(text, old, changed, 1)); slices.Equal(got, want) {
			t.Errorf("nobody sees that %q has become %q", old, changed)
		}
	}
}

// TestReadmeProgramsBuild, and the one whose output is shown prints it. They build in a module of
// their own, as a reader's would. The one that needs a Redis client is that of module test, which builds it.
func TestReadmeProgramsBuild(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	write("go.mod", fmt.Sprintf("module reader\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", modulePath, strconv.Quote(root)))
	readme := readPage(t, "README.md")
	foreign, err := os.ReadFile(filepath.Join("test", "readme", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, redis, _ := strings.Cut(string(foreign), "\n")
	programs := slices.DeleteFunc(readme.in("go"), func(program string) bool { return program == redis })
	if len(programs) != 2 {
		t.Fatalf("%d programs, want 2", len(programs))
	}
	for i, program := range programs {
		if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
			t.Errorf("program %d is not what gofmt makes of it: %v", i+1, err)
		}
		write(fmt.Sprintf("p%d/main.go", i), program)
	}
	run("vet", "./...")
	if got, want := run("run", "./p1"), readme.in("text"); !slices.Contains(want, got) {
		t.Errorf("the program prints\n%s\nwhich no text fence of the README has: %q", got, want)
	}
}

// TestWorkedExamples: the tables of docs/algorithms.md are what the memory store answers. A table
// belongs to the last paragraph before it that begins with "Limit `".
func TestWorkedExamples(t *testing.T) {
	var limiter *slidegate.Limiter
	var now time.Time
	start := time.UnixMilli(1_757_750_400_000)
	rows, examples := 0, 0
	for line := range strings.Lines(readPage(t, filepath.Join("docs", "algorithms.md")).prose) {
		if text, ok := strings.CutPrefix(line, "Limit `"); ok {
			text, _, _ = strings.Cut(text, "`")
			limit, err := slidegate.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			store := memstore.New(memstore.WithClock(func() time.Time { return now }))
			limiter = slidegate.MustNew(store, limit)
			examples++
		}
		cells := strings.Split(line, "|")
		if len(cells) < 8 || limiter == nil {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		at, err := time.ParseDuration(cells[1])
		if err != nil {
			continue // the head of the table
		}
		now = start.Add(at)
		cost, err := strconv.ParseInt(cells[2], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		d, err := limiter.TakeN(context.Background(), "a", cost)
		if err != nil {
			t.Fatal(err)
		}
		verdict := map[bool]string{true: "admitted", false: "refused"}[d.Allowed]
		got := []string{verdict, strconv.FormatInt(d.Remaining(), 10), d.RetryAfter().String(), d.ResetAfter().String()}
		if want := cells[3:7]; !slices.Equal(got, want) {
			t.Errorf("at %s a cost of %d gets %q, the page says %q", at, cost, got, want)
		}
		rows++
	}
	if examples < 3 || rows < 12 {
		t.Errorf("only %d examples with %d rows are read", examples, rows)
	}
}

// TestHeaderExamples: docs/headers.md shows, for every format, the very fields of an admitted and of
// a refused request.
func TestHeaderExamples(t *testing.T) {
	p := readPage(t, filepath.Join("docs", "headers.md"))
	_, formats, _ := strings.Cut(p.whole, "\n## Formats\n")
	for f := httpgate.Draft8; f <= httpgate.LegacyDelta; f++ {
		_, section, _ := strings.Cut(formats, "\n### "+f.String()+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, requests := range []int{4, 11} {
			fields, body := answerTo(requests, f)
			if !strings.Contains(section, "```http\n"+fields+"```\n") {
				t.Errorf("docs/headers.md does not show what %s sends with request %d:\n%s", f, requests, fields)
			}
			if body != "" && !slices.Contains(p.in("json"), body+"\n") {
				t.Errorf("docs/headers.md does not show the body of a refusal:\n%s", body)
			}
		}
	}
}

// answerTo returns the fields and the body of the last of several requests at one instant, 1 s and
// 200 ms after another.
func answerTo(requests int, f httpgate.Format) (fields, body string) {
	now := time.UnixMilli(1_796_032_800_000) // 2026-11-30T10:00:00Z
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limiter := slidegate.MustNew(store, slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(100).Named("sustained"))
	gate := httpgate.MustNew(limiter, httpgate.Headers(f)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var w *httptest.ResponseRecorder
	ask := func() {
		w = httptest.NewRecorder()
		gate.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	ask()
	now = now.Add(1200 * time.Millisecond)
	for range requests {
		ask()
	}
	var b strings.Builder
	for _, name := range []string{
		"RateLimit", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After",
	} {
		for _, value := range w.Header().Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String(), w.Body.String()
}

// TestKeysAreThoseOfThePage: docs/operations.md shows under which key each option counts.
func TestKeysAreThoseOfThePage(t *testing.T) {
	rows := map[string]string{}
	for line := range strings.Lines(readPage(t, filepath.Join("docs", "operations.md")).prose) {
		if cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|"); len(cells) == 6 {
			rows[strings.TrimSpace(cells[1])] = strings.ReplaceAll(cells[3], "\x00", "|")
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})
	user := func(r *http.Request) (string, bool) { return "alice", true }
	account := func(r *http.Request) string { return "ann" }
	secret := httpgate.Secret(make([]byte, 32))
	for _, c := range []struct {
		row     string
		request string
		options []httpgate.Option
		want    string // what the row has, in backquotes
	}{
		{"none, `ByAddress()`", "GET / 203.0.113.7:1", nil, "ip:203.0.113.7"},
		{"none, `ByAddress()`", "GET / [2001:db8:0:1ff::1]:1", nil, "ip:2001:db8:0:100::/56"},
		{"`ByNetwork(24, 48)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByNetwork(24, 48)}, "net:203.0.113.0/24"},
		{"`ByNetwork(24, 48)`", "GET / [2001:db8:0:1ff::1]:1", []httpgate.Option{httpgate.ByNetwork(24, 48)}, "net:2001:db8::/48"},
		{"`ByHeader(name)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByHeader("X-API-Key")}, "header:X-Api-Key:k1"},
		{"`ByCookie(name)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByCookie("session")}, "cookie:session:s1"},
		{"`ByClaim(name, f)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByClaim("sub", user)}, "claim:sub:alice"},
		{"`ByValue(kind, f)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByValue("account", account)}, "account:ann"},
		{"`ByRoute(mux)`", "GET /users/7 203.0.113.7:1", []httpgate.Option{httpgate.ByRoute(mux)}, "route:GET /users/{id}"},
		{"`ByRoute(mux)`", "GET /else 203.0.113.7:1", []httpgate.Option{httpgate.ByRoute(mux)}, "route:"},
		{"`ByMethod()`", "HEAD / 203.0.113.7:1", []httpgate.Option{httpgate.ByMethod()}, "method:GET"},
		{"`ByMethod()`", "PROPFIND / 203.0.113.7:1", []httpgate.Option{httpgate.ByMethod()}, "method:other"},
		{"`ByEverybody()`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByEverybody()}, "everybody"},
		{"`ByAll(options...)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAddress())}, "10:method:GET|14:ip:203.0.113.7"},
		{"`Secret(secret)`", "GET / 203.0.113.7:1", []httpgate.Option{httpgate.ByValue("account", account), secret}, "hmac:"},
	} {
		words := strings.Fields(c.request)
		r := httptest.NewRequest(words[0], words[1], nil)
		r.RemoteAddr = words[2]
		r.Header.Set("X-API-Key", "k1")
		r.Header.Set("Cookie", "session=s1")
		gate := httpgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.PerMinute(1)), c.options...)
		key, err := gate.KeyOf(r)
		if digits, ok := strings.CutPrefix(key, "hmac:"); ok && len(digits) == 64 {
			key = "hmac:"
		}
		if err != nil || key != c.want {
			t.Errorf("%s: the key is %q, %v, want %q", c.row, key, err, c.want)
		}
		if !strings.Contains(rows[c.row], "`"+c.want+"`") {
			t.Errorf("docs/operations.md does not show %s for %s", c.want, c.row)
		}
	}
}

// TestMetricsAreDocumented: docs/operations.md names the metrics that there are, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	names := regexp.MustCompile(`\bslidegate_[a-z_]+`)
	var source []byte
	for _, pkg := range []string{"serve", "rls"} {
		text, err := os.ReadFile(filepath.Join("cmd", "slidegate", "internal", pkg, "metrics.go"))
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	set := func(text string) []string {
		all := names.FindAllString(text, -1)
		slices.Sort(all)
		return slices.Compact(all)
	}
	operations := readPage(t, filepath.Join("docs", "operations.md"))
	if there, told := set(string(source)), set(operations.prose); len(there) == 0 || !slices.Equal(there, told) {
		t.Errorf("the metrics are %q, docs/operations.md has %q", there, told)
	}
}
