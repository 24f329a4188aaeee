package slidegate_test

import (
	"encoding/json"
	"go/format"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checked says of what stands in fences who runs or checks it: "PAGE LANGUAGE" by "FILE TEST", or "not run: " and why. What stands
// in fences of every page and is checked for all of them alike is in everywhere.
var checked = map[string]string{
	"README.md sh":       "docs_test.go TestReadmeCommandsRunInCI",
	"README.md go":       "docs_test.go TestReadmeProgramsBuild",
	"README.zh-CN.md sh": "docs_test.go TestReadmesAreEqual",
	"README.zh-CN.md go": "docs_test.go TestReadmesAreEqual",

	"docs/admin.md sh":                      "cmd/slidegate/fences_test.go TestCommandsOfTheAdminPage",
	"docs/algorithms.md sh":                 "not run: make test runs the package, with fewer seeds",
	"docs/api.md sh":                        "cmd/slidegate/api_test.go TestAPIPageIsTrue",
	"docs/api.md http":                      "cmd/slidegate/api_test.go TestAPIPageIsTrue",
	"docs/caddy.md sh":                      "test/caddy/command_test.go TestDocumentedCommandsRun",
	"docs/caddy.md caddyfile":               "test/caddy/command_test.go TestDocumentedConfigurationsAreValid",
	"docs/chaos.md sh":                      "not run: make test runs the whole package",
	"docs/envoy.md sh":                      "cmd/slidegate/rls_test.go TestEnvoyPageCommandsRun",
	"docs/envoy.md yaml":                    "cmd/slidegate/internal/rls/docs_test.go TestThePage",
	"docs/forward-auth.md caddyfile":        "cmd/slidegate/deploy_test.go TestForwardAuthOfCaddy",
	"docs/forward-auth.md yaml":             "not run: neither Traefik nor Envoy is at hand, as the page says; that it is YAML is checked everywhere",
	"docs/frameworks.md sh":                 "test/readme/own_test.go TestGatesInAModuleOfYourOwn",
	"docs/headers.md http":                  "docs_test.go TestHeaderExamples",
	"docs/operations.md conf":               "test/deploy/redis_test.go TestRedisSettingsServe",
	"docs/laws.md sh":                       "not run: make test runs the package",
	"docs/mutants.md sh":                    "not run: hours; make test tries some, by TestFaultsAreFound",
	"docs/migrate/express-rate-limit.md js": "not run: what it is held against needs Node, which the tests do not",
	"docs/model.md sh":                      "not run: make test runs the package",
	"docs/redis.md sh":                      "test/rediscases/page_test.go TestCommandsOfThePage",
	"docs/redis.md go":                      "test/rediscases/page_test.go TestProgramsOfThePage",
	"docs/redis.md redis":                   "test/rediscases/page_test.go TestRedisCommandsOfThePage",
	"docs/releasing.md sh":                  "test/release/release_test.go TestRelease",
	"docs/rules.md yaml":                    "cmd/slidegate/rules_test.go TestSchemaIsCommitted",
	"docs/soak.md sh":                       "not run: make test runs the package, for less than a minute",
	"docs/tutorial.md sh":                   "cmd/slidegate/tutorial_test.go TestTutorialServes",
}

// everywhere are the tests of what is checked alike on every page.
var everywhere = map[string]string{
	"sh":      "cmd/slidegate/fences_test.go TestCommandsAreTaken", // if they are all of slidegate
	"console": "cmd/slidegate/pages_test.go TestPagesShowWhatCommandsPrint",
	"go":      "docs_fences_test.go TestGoOnPagesCompiles",
	"json":    "docs_fences_test.go TestJSONOnPagesParses",
	"yaml":    "cmd/slidegate/fences_test.go TestYAMLOnPagesParses",
	"text":    "", // what is printed, drawn or said
}

// TestEveryFenceIsChecked: nothing stands in a fence that nobody runs or checks, unless a reason is given.
func TestEveryFenceIsChecked(t *testing.T) {
	used := map[string]bool{}
	for _, p := range pages(t) {
		at := filepath.ToSlash(p.path)
		for _, f := range p.fences {
			key := at + " " + f.language
			by, special := checked[key]
			used[key] = special
			general, known := everywhere[f.language]
			switch {
			case special && strings.HasPrefix(by, "not run: "):
			case special:
				testNames(t, by, filepath.Base(at))
			case strings.HasPrefix(at, "examples/") && (f.language == "sh" || f.language == "console"):
				testNames(t, "examples/examples_test.go TestReadmes", "README.md")
			case !known:
				t.Errorf("%s:%d: nobody checks what stands in ```%s", at, f.line, f.language)
			case f.language == "sh" && !onlySlidegate(f.text):
				t.Errorf("%s:%d: nobody runs these commands:\n%s", at, f.line, f.text)
			case f.language == "console":
				testNames(t, general, filepath.Base(at))
			case general != "":
				testNames(t, general, "")
			}
		}
	}
	for key := range checked {
		if !used[key] {
			t.Errorf("%s: no page has such a fence", key)
		}
	}
}

// testNames: the file has the test, and names the page.
func testNames(t *testing.T, by, page string) {
	t.Helper()
	file, name, _ := strings.Cut(by, " ")
	source, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(source), "\nfunc "+name+"(") {
		t.Errorf("%s has no %s: %v", file, name, err)
	}
	if !strings.Contains(string(source), page) {
		t.Errorf("%s does not name %s", file, page)
	}
}

// onlySlidegate tells whether all commands of a fence are those of slidegate: their flags are checked.
func onlySlidegate(text string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "slidegate ") && !strings.HasPrefix(line, "SLIDEGATE_") {
			return false
		}
	}
	return true
}

// TestJSONOnPagesParses, every line or the whole of it.
func TestJSONOnPagesParses(t *testing.T) {
	for _, p := range pages(t) {
		for _, text := range p.in("json") {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s: this is no JSON:\n%s", p.path, text)
			}
		}
	}
}

// TestGoOnPagesCompiles: what gofmt would leave alone, and that stands, word for word, in a file that is compiled. Whole programs
// have tests of their own.
func TestGoOnPagesCompiles(t *testing.T) {
	sources := goSources(t)
	for _, p := range pages(t) {
		for _, text := range p.in("go") {
			if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
				t.Errorf("%s: this is not what gofmt makes of it: %v\n%s", p.path, err, text)
			}
			if strings.HasPrefix(text, "package ") {
				continue
			}
			text = unindented(text)
			if !slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, "\n"+text) }) {
				t.Errorf("%s: no file that is compiled has this, such as test/readme/fragments_test.go:\n%s", p.path, text)
			}
		}
	}
}

// goSources returns the Go files of the repository, without indentation.
func goSources(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			text, err := os.ReadFile(path)
			all = append(all, unindented(string(text)))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

// hosts are those that pages link to. CI asks none of them: whoever adds one has looked at it.
var hosts = []string{
	"caddyserver.com", "cyclonedx.org", "doc.traefik.io", "docs.aws.amazon.com", "echarts.apache.org", "github.com", "go.dev", "httpd.apache.org",
	"iana.org", "istio.io", "json-schema.org", "nginx.org", "pkg.go.dev", "semver.org", "www.rfc-editor.org",
}

// TestExternalLinksAreSound: https, and to a host that is known. Whether the page is there, nobody is asked.
func TestExternalLinksAreSound(t *testing.T) {
	links := 0
	for _, p := range pages(t) {
		for _, l := range p.links() {
			if !strings.Contains(l.target, "://") {
				continue
			}
			links++
			u, err := url.Parse(l.target)
			if err != nil || u.Scheme != "https" || u.User != nil || !slices.Contains(hosts, u.Host) {
				t.Errorf("%s: the link to %s is not https, or to a host that is not among those of this test: %v", p.path, l.target, err)
			}
		}
	}
	if links < 5 {
		t.Errorf("only %d links are read", links)
	}
}
