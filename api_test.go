package slidegate_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write docs/exported anew from what the packages export")

// TestAPIIsWrittenDown: a change of what a package exports is seen in docs/exported, and nobody makes one by mistake.
func TestAPIIsWrittenDown(t *testing.T) {
	const dir = "docs/exported"
	written := map[string]bool{}
	for pkg := range mayImport {
		if strings.HasPrefix(pkg, "internal/") || strings.Contains(pkg, "/cmd/") {
			continue
		}
		name := filepath.Join(dir, strings.ReplaceAll(strings.Replace(pkg, ".", "slidegate", 1), "/", "-")+".txt")
		written[name] = true
		api := exported(t, pkg)
		if *updateAPI {
			if err := os.WriteFile(name, []byte(api), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil || api != string(want) {
			t.Errorf("package %s does not export what %s says (%v): if that is meant, run go test -run TestAPIIsWrittenDown . -update-api, and tell of it in the CHANGELOG", pkg, name, err)
		}
	}
	files, err := filepath.Glob(dir + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !written[name] {
			t.Errorf("%s is of no package", name)
		}
	}
}

// exported returns what a package exports, a declaration a line or several, in order.
func exported(t *testing.T, dir string) string {
	t.Helper()
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, d := range file.Decls {
			all = append(all, declarations(t, fset, d)...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n") + "\n"
}

// declarations prints what stands in one declaration, without bodies, values and comments.
func declarations(t *testing.T, fset *token.FileSet, d ast.Decl) (all []string) {
	t.Helper()
	show := func(node any) {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, node); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.String())
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !isOnExported(d) {
			return nil
		}
		d.Body, d.Doc = nil, nil
		show(d)
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				spec.Doc, spec.Comment = nil, nil
				ast.Inspect(spec, dropComments)
			case *ast.ValueSpec:
				spec.Doc, spec.Comment = nil, nil
				if d.Tok == token.VAR {
					spec.Values = nil
				}
			}
			show(&ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{spec}})
		}
	}
	return all
}

// isOnExported tells whether d is a function, or a method of an exported type.
func isOnExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	on := d.Recv.List[0].Type
	if pointer, ok := on.(*ast.StarExpr); ok {
		on = pointer.X
	}
	name, ok := on.(*ast.Ident)
	return !ok || name.IsExported()
}

func dropComments(n ast.Node) bool {
	if f, ok := n.(*ast.Field); ok {
		f.Doc, f.Comment = nil, nil
	}
	return true
}
