package slidegate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/slidegate/slidegate"

// mayImport is the import law: which packages of the repository a package may import, by path from
// the root. A package that is not listed breaks the law until somebody decides what it may import.
var mayImport = map[string][]string{
	"internal/window": {},
	".":               {"internal/window"},
	"memstore":        {".", "internal/window"},
	"gatetest":        {"."}, // its oracle shares no arithmetic with what it judges
	"httpgate":        {".", "memstore"},
	"redisstore":      {"."},
	"wrap":            {".", "internal/window"},

	"httpgate/httpgatetest": {".", "gatetest", "httpgate"},

	"echogate":   {".", "httpgate"},
	"echov4gate": {".", "httpgate"},
	"fibergate":  {".", "httpgate"},
	"gingate":    {".", "httpgate"},

	"redisstore/goredis": {".", "redisstore"},
	"redisstore/rueidis": {".", "redisstore"},

	"connectgate": {".", "httpgate", "memstore"},
	"grpcgate":    {".", "httpgate", "memstore"},

	"otelgate": {".", "wrap"},

	"caddygate":           {".", "httpgate", "memstore", "redisstore", "redisstore/rueidis", "wrap"},
	"caddygate/cmd/caddy": {"caddygate"},
}

// free are the modules that may import anything, and that nobody else may import.
var free = []string{"cmd/slidegate", "examples", "test", "test/bench", "test/caddy", "test/deploy"}

// A listed package, as go list has it.
type listed struct {
	ImportPath                         string
	Dir, Name                          string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	Module                             *struct{ Path string }
}

// goRun runs the go command in a directory of the repository and returns what it prints.
func goRun(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return out
}

// goList returns the packages that go list -json prints, without the variants that tests make.
func goList(t *testing.T, dir string, args ...string) []listed {
	t.Helper()
	out := goRun(t, dir, append([]string{"list", "-json=ImportPath,Dir,Name,Standard,Imports,TestImports,XTestImports,Module"}, args...)...)
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if !strings.ContainsAny(p.ImportPath, " ") && !strings.HasSuffix(p.ImportPath, ".test") {
			all = append(all, p)
		}
	}
}

// modules returns the directories that go.work names, by path from the root.
func modules(t *testing.T) []string {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(goRun(t, ".", "work", "edit", "-json"), &work); err != nil {
		t.Fatalf("go work edit -json: %v", err)
	}
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, path.Clean(filepath.ToSlash(use.DiskPath)))
	}
	return dirs
}

// ours returns the path from the root of a package of this repository.
func ours(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// isFree tells whether a package belongs to a free module.
func isFree(pkg string) bool {
	return slices.ContainsFunc(free, func(m string) bool { return pkg == m || strings.HasPrefix(pkg, m+"/") })
}

// TestImportLaw: who may import whom, in every module.
func TestImportLaw(t *testing.T) {
	seen := map[string]bool{}
	for _, module := range modules(t) {
		for _, p := range goList(t, module, "-deps", "./...") {
			pkg, ok := ours(p.ImportPath)
			if !ok || isFree(pkg) || seen[pkg] {
				continue
			}
			seen[pkg] = true
			allowed, ok := mayImport[pkg]
			if !ok {
				t.Errorf("%s: the import law does not know it: say in mayImport what it may import", pkg)
			}
			for _, imported := range p.Imports {
				if dep, ok := ours(imported); ok && !slices.Contains(allowed, dep) {
					t.Errorf("%s imports %s: allowed is %q", pkg, dep, allowed)
				}
			}
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("the import law speaks of %s, which is in no module", pkg)
		}
	}
}

// TestRootModuleIsStandardLibraryOnly, its tests included: who imports slidegate inherits nothing.
func TestRootModuleIsStandardLibraryOnly(t *testing.T) {
	for _, p := range goList(t, ".", "-deps", "-test", "./...") {
		if _, ok := ours(p.ImportPath); !ok && !p.Standard {
			t.Errorf("the root module depends on %s", p.ImportPath)
		}
		if pkg, ok := ours(p.ImportPath); ok && isFree(pkg) {
			t.Errorf("the root module depends on %s", pkg)
		}
	}
	var mod struct{ Require, Replace, Tool []any }
	if err := json.Unmarshal(goRun(t, ".", "mod", "edit", "-json"), &mod); err != nil {
		t.Fatalf("go mod edit -json: %v", err)
	}
	if len(mod.Require)+len(mod.Replace)+len(mod.Tool) > 0 {
		t.Errorf("go.mod of the root module requires or replaces something: %+v", mod)
	}
}

// servers starts real servers, for the tests and benchmarks of every free module.
const servers = "test/redistest"

// TestFreeModulesAreImportedByNobody else, but for the servers among themselves.
func TestFreeModulesAreImportedByNobody(t *testing.T) {
	for _, module := range modules(t) {
		for _, p := range goList(t, module, "-test", "./...") {
			pkg, _ := ours(p.ImportPath)
			for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				dep, ok := ours(imported)
				if dep == servers && isFree(pkg) {
					continue
				}
				if ok && isFree(dep) && moduleOf(dep) != moduleOf(pkg) {
					t.Errorf("%s imports %s", pkg, dep)
				}
			}
		}
	}
}

// moduleOf returns the free module that a package is in, the longest that fits.
func moduleOf(pkg string) string {
	module := ""
	for _, m := range free {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(module) {
			module = m
		}
	}
	return module
}

// TestEveryModuleIsInTheWorkspace, and stands alone: its own replace lines find the others.
func TestEveryModuleIsInTheWorkspace(t *testing.T) {
	var found []string
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			found = append(found, filepath.ToSlash(filepath.Dir(file)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	work := modules(t)
	slices.Sort(found)
	slices.Sort(work)
	if !slices.Equal(found, work) {
		t.Errorf("go.work names %q, the modules are %q", work, found)
	}
	for _, module := range work {
		if module == "." {
			continue
		}
		var mod struct {
			Module  struct{ Path string }
			Replace []struct{ Old, New struct{ Path string } }
		}
		if err := json.Unmarshal(goRun(t, module, "mod", "edit", "-json"), &mod); err != nil {
			t.Fatalf("go mod edit -json in %s: %v", module, err)
		}
		if want := modulePath + "/" + module; mod.Module.Path != want {
			t.Errorf("the module in %s is called %s, want %s", module, mod.Module.Path, want)
		}
		for _, r := range mod.Replace {
			name, isOurs := ours(r.Old.Path)
			if at := path.Join(module, r.New.Path); !isOurs || at != name {
				t.Errorf("%s replaces %s by %s: only the repository's own modules are replaced, by their directories", module, r.Old.Path, at)
			}
		}
	}
}

func TestLicence(t *testing.T) {
	text, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MIT License", "Copyright (c) 2026 The Slidegate authors", "WITHOUT WARRANTY OF ANY KIND"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("LICENSE does not say %q", want)
		}
	}
}
