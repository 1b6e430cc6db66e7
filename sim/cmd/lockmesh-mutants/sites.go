package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packages are the packages of the core. Each takes part in deciding who holds a lock.
var packages = []string{
	"lease", "quorum", "internal/watchmerge", "internal/electorate", "internal/node", "internal/statedir",
}

// An operator is a way to break a line.
type operator string

const (
	opBoundary operator = "boundary" // < becomes <=, and so on
	opNegate   operator = "negate"   // == becomes !=
	opAlways   operator = "always"   // a condition holds always
	opNever    operator = "never"    // a condition never holds
	opDropped  operator = "dropped"  // one side of && or || is dropped
	opOffByOne operator = "offbyone" // x + 1 becomes x
	opOmitted  operator = "omitted"  // an assignment or a call isn't made
	opAimed    operator = "aimed"    // written by hand; see aimed.txt
)

// A site is a mutant: a place in the source, and its replacement.
type site struct {
	id    string // package/file:function:operator:ordinal; it survives edits elsewhere
	pkg   string
	file  string // relative to the repository's root
	line  int
	op    operator
	start int // byte offsets in the file
	end   int
	old   string // the source to replace
	now   string // the mutant's source, for people
	wrap  func(number int, original, inner string) string
}

// sitesOf finds the mutants of one package's production files, in the order of the source.
func sitesOf(root, pkg string) ([]site, error) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []site
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || otherSystem(base) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := sitesIn(pkg, base, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// otherSystem reports whether a file is built only for systems on which this command doesn't run.
func otherSystem(base string) bool {
	return strings.HasSuffix(base, "_windows.go") || strings.HasSuffix(base, "_other.go")
}

// A finder walks one file.
type finder struct {
	fset  *token.FileSet
	text  []byte
	pkg   string
	file  string
	in    string         // the function
	count map[string]int // by function and operator
	sites []site
}

func sitesIn(pkg, base string, text []byte) ([]site, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, base, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{fset: fset, text: text, pkg: pkg, file: base, count: make(map[string]int)}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Name.Name == "String" {
			continue // the printed form of a value decides nothing
		}
		f.in = fn.Name.Name
		if fn.Recv != nil {
			f.in = strings.TrimPrefix(f.source(fn.Recv.List[0].Type), "*") + "." + f.in
		}
		ast.Inspect(fn.Body, f.visit)
	}
	return f.sites, nil
}

func (f *finder) source(n ast.Node) string {
	return string(f.text[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset])
}

func (f *finder) add(
	n ast.Node, op operator, now string, wrap func(number int, original, inner string) string,
) {
	key := f.in + ":" + string(op)
	f.count[key]++
	start, end := f.fset.Position(n.Pos()), f.fset.Position(n.End())
	f.sites = append(f.sites, site{
		id:  fmt.Sprintf("%s/%s:%s:%d", f.pkg, f.file, key, f.count[key]),
		pkg: f.pkg, file: f.pkg + "/" + f.file, line: start.Line, op: op,
		start: start.Offset, end: end.Offset,
		old: string(f.text[start.Offset:end.Offset]), now: now, wrap: wrap,
	})
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	}
	return true
}

// compared maps a comparison to its mutants. Boundaries come first: they are the mutants that
// matter most.
var compared = map[token.Token]struct {
	op    operator
	other token.Token
}{
	token.LSS: {opBoundary, token.LEQ}, token.LEQ: {opBoundary, token.LSS},
	token.GTR: {opBoundary, token.GEQ}, token.GEQ: {opBoundary, token.GTR},
	token.EQL: {opNegate, token.NEQ}, token.NEQ: {opNegate, token.EQL},
}

func (f *finder) binary(n *ast.BinaryExpr) {
	left, right := f.source(n.X), f.source(n.Y)
	if c, ok := compared[n.Op]; ok {
		f.add(n, c.op, left+" "+c.other.String()+" "+right, choose)
		return
	}
	switch n.Op {
	case token.LAND, token.LOR:
		f.add(n, opDropped, left, choose)
		f.add(n, opDropped, right, choose)
	case token.ADD, token.SUB:
		if right == "1" && !calls(n.X) {
			f.add(n, opOffByOne, left, pick)
		}
	}
}

func (f *finder) condition(cond ast.Expr) {
	f.add(cond, opAlways, "true", choose)
	f.add(cond, opNever, "false", choose)
}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || blank(s.Lhs) {
				continue
			}
		case *ast.IncDecStmt:
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok || f.source(call.Fun) == "panic" {
				continue
			}
		default:
			continue
		}
		f.add(s, opOmitted, "(nothing)", omit)
	}
}

func blank(left []ast.Expr) bool {
	return !slices.ContainsFunc(left, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return !ok || id.Name != "_"
	})
}

// calls reports whether evaluating an expression twice could have a double effect.
func calls(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if _, ok := n.(*ast.CallExpr); ok {
			found = true
		}
		return !found
	})
	return found
}

// crosses reports whether two mutants share a part of the source, and neither lies inside the
// other. Such mutants can't both be written.
func (s site) crosses(o site) bool {
	if s.file != o.file || s.end <= o.start || o.end <= s.start {
		return false
	}
	inside := func(a, b site) bool { return b.start <= a.start && a.end <= b.end }
	return !inside(s, o) && !inside(o, s)
}

// sample keeps about one site in n, chosen by a hash of the site's id, so an edit of one function
// doesn't change the sample in other functions.
func sample(all []site, n uint32) []site {
	return slices.DeleteFunc(slices.Clone(all), func(s site) bool {
		h := fnv.New32a()
		h.Write([]byte(s.id))
		return s.op != opAimed && h.Sum32()%n != 0
	})
}
