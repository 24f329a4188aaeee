package migrate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var pages = filepath.Join("..", "..", "..", "docs", "migrate")

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declared returns what the files of a directory declare on the top level and for others: functions, methods, types, constants and variables, by name
// as they stand there.
func declared(t *testing.T, files []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files {
		text := readFile(t, name)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[d.Name.Name] = text[set.Position(d.Pos()).Offset:set.Position(d.End()).Offset] + "\n"
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						all[spec.Name.Name] = ""
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							all[n.Name] = ""
						}
					}
				}
			}
		}
	}
	return all
}

var program = regexp.MustCompile("(?s)```go\n(.*?)```\n")

// TestThePagesShowThePrograms: what stands in the pages is a function of this package, word for word, and every program
// before and after is shown.
func TestThePagesShowThePrograms(t *testing.T) {
	ours, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	left := map[string]bool{}
	for name, text := range declared(t, ours) {
		programs = append(programs, text)
		if strings.HasSuffix(name, "Before") || strings.HasSuffix(name, "After") {
			left[text] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, shown := range program.FindAllStringSubmatch(readFile(t, file), -1) {
			delete(left, shown[1])
			if !slices.Contains(programs, shown[1]) {
				t.Errorf("%s shows what is no function here:\n%s", file, shown[1])
			}
		}
	}
	for text := range left {
		t.Errorf("no page shows\n%s", text)
	}
}

// TestEveryNameOfTheirsIsMapped: a page names everything that the packages it is about offer, so that nobody looks for it in vain.
func TestEveryNameOfTheirsIsMapped(t *testing.T) {
	interfaces := []string{"ServeHTTP", "Header"} // of net/http
	for page, packages := range map[string][]string{
		"httprate.md":   {"github.com/go-chi/httprate"},
		"ulule.md":      {"github.com/ulule/limiter/v3", "github.com/ulule/limiter/v3/drivers/middleware/stdlib"},
		"go-limiter.md": {"github.com/sethvargo/go-limiter", "github.com/sethvargo/go-limiter/memorystore", "github.com/sethvargo/go-limiter/httplimit", "github.com/sethvargo/go-limiter/noopstore"},
		"redis_rate.md": {"github.com/go-redis/redis_rate/v10"},
	} {
		words := regexp.MustCompile(`\w+`).FindAllString(readFile(t, filepath.Join(pages, page)), -1)
		var missing []string
		for _, pkg := range packages {
			dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
			if err != nil {
				t.Fatalf("go list %s: %v", pkg, err)
			}
			files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no files, %v", pkg, err)
			}
			files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			for name := range declared(t, files) {
				if ast.IsExported(name) && !slices.Contains(words, name) && !slices.Contains(interfaces, name) {
					missing = append(missing, name)
				}
			}
		}
		slices.Sort(missing)
		if len(missing) > 0 {
			t.Errorf("%s does not speak of %q", page, missing)
		}
	}
}

// required returns the version of a module that is run.
func required(t *testing.T, module string) string {
	t.Helper()
	_, version, ok := strings.Cut(readFile(t, filepath.Join("..", "go.mod")), module+" v")
	if !ok {
		t.Fatalf("go.mod does not require %s", module)
	}
	version, _, _ = strings.Cut(version, "\n")
	return version
}

// TestThePagesAreOfTheVersionsThatAreRun: a page says which version it is about, and that is the one of go.mod.
func TestThePagesAreOfTheVersionsThatAreRun(t *testing.T) {
	front := readFile(t, filepath.Join(pages, "..", "alternatives.md"))
	for page, module := range map[string]string{
		"httprate.md":   "github.com/go-chi/httprate",
		"ulule.md":      "github.com/ulule/limiter/v3",
		"go-limiter.md": "github.com/sethvargo/go-limiter",
		"redis_rate.md": "github.com/go-redis/redis_rate/v10",
		"":              "github.com/throttled/throttled/v2",
	} {
		version := required(t, module)
		if !strings.Contains(front, version) {
			t.Errorf("docs/alternatives.md does not speak of %s %s", module, version)
		}
		if page != "" && !strings.Contains(readFile(t, filepath.Join(pages, page)), version+". [All pages") {
			t.Errorf("%s is not of version %s", page, version)
		}
	}
}

// TestTheTablesSayWhatWasMeasured: the worst windows in docs/alternatives.md and in both front pages are those of the tests, of
// the versions that these run. Of go-limiter both versions are told.
func TestTheTablesSayWhatWasMeasured(t *testing.T) {
	versions := map[string]string{"slidegate": "", "go-limiter": ""}
	for name, module := range map[string]string{
		"httprate": "go-chi/httprate", "ulule/limiter": "ulule/limiter/v3", "throttled": "throttled/throttled/v2", "x/time/rate": "golang.org/x/time",
	} {
		versions[name] = " " + required(t, module) + " "
	}
	root := filepath.Join(pages, "..", "..")
	for _, file := range []string{filepath.Join("docs", "alternatives.md"), "README.md", "README.zh-CN.md"} {
		found := 0
		for line := range strings.Lines(readFile(t, filepath.Join(root, file))) {
			cells := strings.Split(line, "|")
			if len(cells) < 5 {
				continue
			}
			for name, worst := range worstWindows {
				if strings.Contains(strings.ToLower(cells[1]), name) && regexp.MustCompile(`^ \d`).MatchString(cells[3]) {
					if found++; !strings.HasPrefix(cells[3], fmt.Sprintf(" %d ", worst)) {
						t.Errorf("%s: %s, measured are %d", file, strings.TrimSpace(line), worst)
					}
					if !strings.HasSuffix(cells[1], versions[name]) {
						t.Errorf("%s: %s, measured is version%s", file, strings.TrimSpace(line), versions[name])
					}
				}
			}
		}
		if found != len(worstWindows) {
			t.Errorf("%s: %d of %d are told", file, found, len(worstWindows))
		}
	}
}
