package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A schema is Go source with every mutant in it: each is chosen by its number in a variable of the package. So one build serves
// all of them. It is the text of the source, with expressions and statements put into closures and conditions.
type schema struct {
	path    string // from the root
	src     []byte
	file    *token.File
	info    *types.Info
	pkg     *types.Package
	imports map[string]bool // names of packages that the file knows
	next    func(name string, at place) int

	where   string                  // the function
	results *types.Tuple            // of the innermost function
	asks    map[ast.Expr]bool       // conditions
	returns map[ast.Expr]types.Type // results of functions, and their types
	drops   map[ast.Stmt]bool       // statements in a list: a function can do without them
	cases   map[ast.Expr]token.Pos  // what a case asks, and where its switch is: that is what is counted as reached
	inCase  token.Pos
}

// active is the variable that holds the number of the mutant.
const active = "activeMutant"

// switchFile declares it in a package.
func switchFile(pkg string) string {
	return fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, active, variable)
}

// A goPackage is one that is mutated.
type goPackage struct {
	ImportPath, Dir, Name, Export string
	GoFiles                       []string
}

// load returns packages of the repository by directory, and what their imports export.
func load(root string, dirs []string) (byDir map[string]goPackage, exports map[string]string, err error) {
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Name,Export,GoFiles"}, dirs...)...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	byDir, exports = map[string]goPackage{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return byDir, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if rel, err := filepath.Rel(root, p.Dir); err == nil {
			byDir[filepath.ToSlash(rel)] = p
		}
	}
}

// instrument returns the schemata of some files of a package, and calls next for the number of each mutant.
func instrument(root string, p goPackage, exports map[string]string, files []string, next func(file, name string, at place) int) (map[string]string, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	pkg, err := config.Check(p.ImportPath, fset, parsed, info)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for i, f := range parsed {
		rel, _ := filepath.Rel(root, filepath.Join(p.Dir, p.GoFiles[i]))
		path := filepath.ToSlash(rel)
		if !slices.Contains(files, path) {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		s := &schema{path: path, src: src, file: fset.File(f.Pos()), info: info, pkg: pkg, imports: map[string]bool{},
			next: func(name string, at place) int { return next(path, name, at) },
			asks: map[ast.Expr]bool{}, returns: map[ast.Expr]types.Type{}, drops: map[ast.Stmt]bool{}, cases: map[ast.Expr]token.Pos{}}
		for _, imported := range f.Imports {
			name, _ := strconv.Unquote(imported.Path.Value)
			s.imports[name[strings.LastIndex(name, "/")+1:]] = true
		}
		all[path] = string(src[:s.offset(f.Pos())]) + s.text(f) + string(src[s.offset(f.End()):])
	}
	return all, nil
}

func (s *schema) offset(p token.Pos) int { return s.file.Offset(p) }

func (s *schema) source(n ast.Node) string {
	return string(s.src[s.offset(n.Pos()):s.offset(n.End())])
}

// text returns the source of a node with the mutants of it and of what is in it.
func (s *schema) text(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok != token.VAR {
			return s.source(n) // constants and types are for the compiler
		}
	case *ast.ArrayType:
		return s.source(n)
	case *ast.KeyValueExpr:
		return s.source(n.Key) + ": " + s.text(n.Value)
	case *ast.FuncDecl:
		s.where = n.Name.Name
		s.results = s.info.Defs[n.Name].Type().(*types.Signature).Results()
	case *ast.FuncLit:
		outer := s.results
		defer func() { s.results = outer }()
		s.results = s.info.TypeOf(n).(*types.Signature).Results()
	case ast.Stmt:
		s.mark(n)
		return s.statement(n)
	case ast.Expr:
		if at, ok := s.cases[n]; ok {
			s.inCase = at
			defer func() { s.inCase = token.NoPos }()
		}
		return s.expression(n)
	}
	return s.inner(n)
}

// inner returns the source of a node with the mutants of what is in it.
func (s *schema) inner(n ast.Node) string {
	var b strings.Builder
	at := n.Pos()
	ast.Inspect(n, func(child ast.Node) bool {
		if child == n {
			return true
		}
		if child != nil && child.Pos() >= at { // documentation comes twice
			b.Write(s.src[s.offset(at):s.offset(child.Pos())])
			b.WriteString(s.text(child))
			at = child.End()
		}
		return false
	})
	b.Write(s.src[s.offset(at):s.offset(n.End())])
	return b.String()
}

// mark notes what a statement has that is a condition, a result, or a statement that may be left out.
func (s *schema) mark(n ast.Stmt) {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.BlockStmt:
		list = n.List
	case *ast.CaseClause:
		list = n.Body
	case *ast.IfStmt:
		s.asks[n.Cond] = true
	case *ast.ForStmt:
		s.asks[n.Cond] = n.Cond != nil
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, e := range c.(*ast.CaseClause).List {
				s.asks[e] = n.Tag == nil
				s.cases[e] = n.Pos()
			}
		}
	case *ast.ReturnStmt:
		for i, e := range n.Results {
			if s.results.Len() == len(n.Results) {
				s.returns[e] = s.results.At(i).Type()
			}
		}
	}
	for _, stmt := range list {
		s.drops[stmt] = true
	}
}

// statement returns a statement with the mutants that leave it out or do the opposite.
func (s *schema) statement(n ast.Stmt) string {
	text := s.inner(n)
	if !s.drops[n] {
		return text
	}
	opposite := ""
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return text
		}
		if op, ok := opposites[n.Tok]; ok && s.isNumber(n.Lhs[0]) {
			opposite = fmt.Sprintf("%s %s %s", s.source(n.Lhs[0]), op, s.source(n.Rhs[0]))
		}
	case *ast.IncDecStmt:
		opposite = s.source(n.X) + strings.NewReplacer("++", "--", "--", "++").Replace(n.Tok.String())
	case *ast.ExprStmt:
		if strings.HasPrefix(text, "panic(") {
			return text
		}
	case *ast.BranchStmt, *ast.DeferStmt, *ast.GoStmt:
	default:
		return text
	}
	text = fmt.Sprintf("if %s != %d { %s }", active, s.mutant(n, ""), text)
	if opposite != "" {
		return fmt.Sprintf("if %s == %d { %s } else { %s }", active, s.mutant(n, opposite), opposite, text)
	}
	return text
}

// opposites are operators that are easily mistaken for one another.
var opposites = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND, token.AND_NOT: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
	token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN, token.AND_ASSIGN: token.OR_ASSIGN,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

// boundaries are what a comparison becomes: the boundary moves, or it is the opposite.
var boundaries = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
}

// expression returns an expression with its mutants.
func (s *schema) expression(n ast.Expr) string {
	if s.info.Types[n].IsType() {
		return s.source(n)
	}
	text := s.unreturned(n)
	want, ok := s.returns[n]
	if !ok || s.info.Types[n].Value != nil && !isBool(want) {
		return text
	}
	zero, isZero := zeroOf(want), s.source(n) == "nil"
	if isBool(want) {
		zero, isZero = "!x", s.opposed(n)
	}
	t, known := s.typeOf(want)
	if zero == "" || isZero || !known {
		return text
	}
	if zero == "!x" && s.info.Types[n].Value != nil {
		zero = strconv.FormatBool(s.source(n) == "false") // the name of a result would be longer than the result
	}
	return fmt.Sprintf("func() %s { var x %s = %s; if %s == %d { return %s }; return x }()", t, t, text, active, s.mutant(n, strings.Replace(zero, "!x", "!"+s.source(n), 1)), zero)
}

// opposed tells whether a condition has operators of its own, which are turned into their opposites.
func (s *schema) opposed(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.ParenExpr:
		return s.opposed(n.X)
	case *ast.BinaryExpr:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.NOT
	}
	return false
}

// unreturned is expression without what makes a mutant of a result.
func (s *schema) unreturned(n ast.Expr) string {
	if value := s.info.Types[n].Value; value != nil {
		return s.constant(n)
	}
	if _, isResult := s.returns[n]; s.asks[n] && !isResult && !s.opposed(n) {
		return fmt.Sprintf("((%s == %d) != %s)", active, s.mutant(n, "!"+s.source(n)), s.inner(n))
	}
	switch n := n.(type) {
	case *ast.ParenExpr:
		s.asks[n.X] = s.asks[n]
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			return fmt.Sprintf("((%s != %d) != %s)", active, s.mutant(n, s.source(n.X)), s.text(n.X))
		}
	case *ast.BinaryExpr:
		return s.binary(n)
	}
	return s.inner(n)
}

// constant is one more, or one less.
func (s *schema) constant(n ast.Expr) string {
	_, isLiteral := n.(*ast.BasicLit)
	_, isUnary := n.(*ast.UnaryExpr)
	_, isBinary := n.(*ast.BinaryExpr)
	t, known := s.typeOf(types.Default(s.info.TypeOf(n)))
	if !isLiteral && !isUnary && !isBinary || !s.isNumber(n) || !known {
		return s.source(n)
	}
	more, less := s.mutant(n, s.source(n)+"+1"), s.mutant(n, s.source(n)+"-1")
	return fmt.Sprintf("func() %s { var x %s = %s; if %s == %d { x++ } else if %s == %d { x-- }; return x }()", t, t, s.source(n), active, more, active, less)
}

// binary is an operation, or another one of the same operands.
func (s *schema) binary(n *ast.BinaryExpr) string {
	others := boundaries[n.Op]
	if op, ok := opposites[n.Op]; ok {
		others = []token.Token{op}
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		s.asks[n.X], s.asks[n.Y] = true, true
		return fmt.Sprintf("func() bool { x, y := func() bool { return %s }, func() bool { return %s }; if %s == %d { return x() %s y() }; return x() %s y() }()",
			s.text(n.X), s.text(n.Y), active, s.mutantOf(n, others[0]), others[0], n.Op)
	}
	t, known := s.typeOf(types.Default(s.info.TypeOf(n)))
	if len(others) == 0 || !known || !s.isOperand(n.X) || !s.isOperand(n.Y) || !isBool(s.info.TypeOf(n)) && !s.isNumber(n) {
		return s.inner(n)
	}
	before, x := s.operand("x", n.X)
	also, y := s.operand("y", n.Y)
	var b strings.Builder
	fmt.Fprintf(&b, "func() %s { %s%s", t, before, also)
	for _, op := range others {
		fmt.Fprintf(&b, "if %s == %d { return %s %s %s }; ", active, s.mutantOf(n, op), x, op, y)
	}
	fmt.Fprintf(&b, "return %s %s %s }()", x, n.Op, y)
	return b.String()
}

// isOperand tells whether an operand can be declared, or needs not be: constants and nil have no type of their own.
func (s *schema) isOperand(n ast.Expr) bool {
	v := s.info.Types[n]
	if v.Value != nil || v.IsNil() {
		return true
	}
	_, known := s.typeOf(types.Default(v.Type))
	return known
}

// operand returns what declares an operand, and how it is called then.
func (s *schema) operand(name string, n ast.Expr) (declaration, operand string) {
	v := s.info.Types[n]
	if v.Value != nil || v.IsNil() {
		return "", s.text(n)
	}
	t, _ := s.typeOf(types.Default(v.Type))
	return fmt.Sprintf("var %s %s = %s; ", name, t, s.text(n)), name
}

// typeOf returns a type as the file may write it, if it can.
func (s *schema) typeOf(t types.Type) (text string, known bool) {
	known = true
	return types.TypeString(t, func(p *types.Package) string {
		if p == s.pkg {
			return ""
		}
		known = known && s.imports[p.Name()]
		return p.Name()
	}), known
}

func (s *schema) isNumber(n ast.Expr) bool {
	basic, ok := s.info.TypeOf(n).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

func isBool(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsBoolean != 0
}

// zeroOf returns what a function might return instead; "" where nothing simple will do.
func zeroOf(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if u.Info()&types.IsNumeric != 0 {
			return "0"
		}
	case *types.Interface, *types.Pointer, *types.Slice, *types.Map:
		if _, isParam := t.(*types.TypeParam); !isParam {
			return "nil"
		}
	}
	return ""
}

// mutantOf returns the number of the mutant that has another operator.
func (s *schema) mutantOf(n *ast.BinaryExpr, op token.Token) int {
	return s.mutant(n, s.source(n.X)+" "+op.String()+" "+s.source(n.Y))
}

// mutant returns the number of the mutant that has other in the place of n.
func (s *schema) mutant(n ast.Node, other string) int {
	at := s.file.Position(n.Pos())
	if s.inCase.IsValid() {
		at = s.file.Position(s.inCase)
	}
	return s.next(nameOf(s.where, string(s.src), s.offset(n.Pos()), s.offset(n.End()), other), place{at.Line, at.Column})
}

// nameOf names a mutant by its function and its line, with what is changed in it. So it has the same name when others change.
func nameOf(where, src string, from, to int, other string) string {
	begin := strings.LastIndexByte(src[:from], '\n') + 1
	end := len(src)
	if i := strings.IndexByte(src[to:], '\n'); i >= 0 {
		end = to + i
	}
	line := src[begin:from] + "⟦" + src[from:to] + " → " + other + "⟧" + src[to:end]
	return where + ": " + strings.Join(strings.Fields(line), " ")
}
