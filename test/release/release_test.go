package release

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root    = "../.."
	version = "v0.0.1-test"
	module  = "github.com/slidegate/slidegate"
)

func run(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SHORT=1", "PLATFORMS=linux/amd64 windows/arm64")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// clone is a clone of the tree as it stands, with what is in no commit yet, and with the changes of a test. What it holds is in a
// commit, and its CHANGELOG has the version.
func clone(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	must(t, root, "git", "clone", "-q", ".", dir)
	for _, name := range strings.Fields(must(t, root, "git", "ls-files", "--modified", "--others", "--exclude-standard")) {
		text, err := os.ReadFile(filepath.Join(root, name))
		at := filepath.Join(dir, name)
		if errors.Is(err, os.ErrNotExist) {
			err = os.Remove(at)
		} else {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(t, filepath.Join(dir, "CHANGELOG.md"), "\n## Unreleased\n", "\n## "+version+"\n")
	change(dir)
	must(t, dir, "git", "config", "user.name", "Somebody")
	must(t, dir, "git", "config", "user.email", "somebody@example.org")
	must(t, dir, "git", "add", "-A")
	must(t, dir, "git", "commit", "-q", "-m", "a release")
	return dir
}

func edit(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), old) != 1 {
		t.Fatalf("%s: %v, %q is there %d times", path, err, old, strings.Count(string(text), old))
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o755); err != nil {
		t.Fatal(err)
	}
}

func unchanged(string) {}

// TestRefusals: nothing is done before all is as it has to be.
func TestRefusals(t *testing.T) {
	dir := clone(t, unchanged)
	must(t, dir, "git", "tag", "v0.0.2")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "usage: "},
		{[]string{"0.1.0"}, "0.1.0 is no version"},
		{[]string{"v0.1"}, "v0.1 is no version"},
		{[]string{"v0.01.0"}, "v0.01.0 is no version"},
		{[]string{"v0.1.0-01"}, "v0.1.0-01 is no version"},
		{[]string{"v0.1.0+build"}, "v0.1.0+build is no version"},
		{[]string{"v2.0.0"}, "have to end with /v2"},
		{[]string{"v0.0.2"}, "v0.0.2 exists already"},
		{[]string{"v0.0.3"}, `CHANGELOG.md has no section "## v0.0.3"`},
		{[]string{"v0.0.1"}, `CHANGELOG.md has no section "## v0.0.1"`},
	} {
		if out, err := run(t, dir, "scripts/release", c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v, %s", c.args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "new.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, dir, "scripts/release", version); err == nil || !strings.Contains(out, "changes that are in no commit: ?? new.txt") {
		t.Errorf("a tree with a new file: %v, %s", err, out)
	}
}

// TestAPatchTakesNothingAway of the API of the release before.
func TestAPatchTakesNothingAway(t *testing.T) {
	dir := clone(t, unchanged)
	must(t, dir, "git", "tag", "-a", "-m", "before", "v0.0.0")
	edit(t, filepath.Join(dir, "docs", "exported", "memstore.txt"), "func New(", "func Make(")
	must(t, dir, "git", "commit", "-qam", "memstore: another name")
	if out, err := run(t, dir, "scripts/release", version); err == nil || !strings.Contains(out, version+" is a patch of v0.0.0") || !strings.Contains(out, "-func New(") {
		t.Errorf("%v, %s", err, out)
	}
}

// TestRelease: the files are what their sums say, of the version, and made of what is written beside them; the tags are there
// with --commit, and main is as it was.
func TestRelease(t *testing.T) {
	dir := clone(t, unchanged)
	head := must(t, dir, "git", "rev-parse", "HEAD")
	out := must(t, dir, "scripts/release", "--commit", version)
	if !strings.Contains(out, "no older release") || !strings.Contains(out, "git push origin "+version+" ") {
		t.Errorf("it says\n%s", out)
	}
	files := filepath.Join(dir, "bin", "release", version)
	sums := must(t, files, "sh", "-c", page(t, "sha256sum"))
	for _, name := range []string{"slidegate_" + version + "_linux_amd64", "slidegate_" + version + "_windows_arm64.exe"} {
		describes(t, filepath.Join(files, name))
		if !strings.Contains(sums, name+": OK\n") || !strings.Contains(sums, name+".cdx.json: OK\n") {
			t.Errorf("the sums are\n%s", sums)
		}
	}
	tags := strings.Fields(must(t, dir, "git", "tag"))
	for _, tag := range []string{version, "gingate/" + version, "redisstore/rueidis/" + version, "cmd/slidegate/" + version} {
		if !slices.Contains(tags, tag) {
			t.Errorf("the tags are %q", tags)
		}
	}
	if slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "test") || strings.HasPrefix(tag, "examples") }) {
		t.Errorf("the tags are %q", tags)
	}
	pinned := must(t, dir, "git", "show", "cmd/slidegate/"+version+":cmd/slidegate/go.mod")
	if strings.Contains(pinned, "replace") || strings.Count(pinned, module) != 4 || strings.Count(pinned, " "+version+"\n") != 3 {
		t.Errorf("go.mod of cmd/slidegate is\n%s", pinned)
	}
	if now := must(t, dir, "git", "rev-parse", "HEAD"); now != head || must(t, dir, "git", "status", "--porcelain") != "" {
		t.Error("the tree is not as it was")
	}
	if script, err := os.ReadFile(filepath.Join(root, "scripts", "release")); err != nil || !strings.Contains(string(script), "go install -trimpath -ldflags=-s ") ||
		!strings.Contains(page(t, "CGO_ENABLED=0"), "go install -trimpath -ldflags=-s "+module+"/cmd/slidegate@") {
		t.Errorf("docs/releasing.md makes the command in another way than the script: %v", err)
	}
}

// page returns the line of docs/releasing.md that begins so.
func page(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "releasing.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(begin) + `.*$`).FindString(string(text))
	if line == "" {
		t.Fatalf("docs/releasing.md has no line that begins with %s", begin)
	}
	return line
}

// describes: the bill of materials of a file has the modules that the file has, no more and no others.
func describes(t *testing.T, file string) {
	t.Helper()
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)\t`).FindAllStringSubmatch(must(t, root, "go", "version", "-m", file), -1) {
		want = append(want, m[1]+" "+m[2])
	}
	text, err := os.ReadFile(file + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range bom.Components {
		if c.Name != "std" {
			got = append(got, c.Name+" "+c.Version)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 20 || !slices.Contains(want, module+" "+version) || !slices.Equal(got, want) {
		t.Errorf("%s: the list has %q, the file %q", filepath.Base(file), got, want)
	}
	if c := bom.Metadata.Component; c.Name != module+"/cmd/slidegate" || c.Version != version {
		t.Errorf("%s: the list is of %s %s", filepath.Base(file), c.Name, c.Version)
	}
}

// TestABrokenPinIsFound: with a step left out of the script, or done wrongly, it fails, and says who cannot use the release.
func TestABrokenPinIsFound(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"nobody is pinned", `edits+=(-require "$(path "$name")@$version")`, `:`, "v0.0.0"},
		{"the sums of another", `grep -F "$(path "$name") " "$work/sums" >>"$1/go.sum"`, `grep -F "$(path "$name") " "$work/sums" | sed 's/h1:./h1:A/' >>"$1/go.sum"`, "checksum mismatch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOPROXY", "off") // nobody else is asked for versions that we do not have
			dir := clone(t, func(dir string) { edit(t, filepath.Join(dir, "scripts", "release"), c.old, c.new) })
			if out, err := run(t, dir, "scripts/release", version); err == nil || !strings.Contains(out, "somebody outside") || !strings.Contains(out, c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
