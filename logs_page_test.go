package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTheLogsPageHasEachWarning demands that docs/logs.md quotes each line of a node at WARN or
// ERROR, up to the first colon, semicolon or comma.
func TestTheLogsPageHasEachWarning(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	lines := warnings(t)
	if len(lines) < 40 {
		t.Fatalf("only %d lines were found in the source; do they have another form now?", len(lines))
	}
	for line, where := range lines {
		if !strings.Contains(text, "`"+line) {
			t.Errorf("docs/logs.md doesn't quote %q (%s)", line, where)
		}
	}
}

// warnings returns the beginnings of all texts logged at WARN or ERROR by the packages of a node,
// each with its position.
func warnings(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if dir := filepath.ToSlash(path); slices.Contains([]string{
				".git", ".ci", "bench", "cmd", "contrib", "deploy", "docs", "examples", "sim", "locktest", "meshtest",
			}, dir) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if line := loggedBy(n); line != "" {
				lines[line] = files.Position(n.Pos()).String()
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// loggedBy returns the beginning of the text of a call that logs at WARN or ERROR, or of a notice
// with such a level; else "".
func loggedBy(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || !slices.Contains([]string{"Warn", "Error", "warn", "warnOf"}, f.Sel.Name) {
			return ""
		}
		if x, ok := f.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "errors") && f.Sel.Name == "Error" {
			return "" // of a test of registers
		}
		for _, arg := range n.Args {
			if text := beginning(arg); strings.Contains(text, " ") || strings.HasSuffix(text, ":") {
				return text
			}
		}
	case *ast.CompositeLit:
		if len(n.Elts) < 2 {
			return ""
		}
		if level, ok := n.Elts[0].(*ast.SelectorExpr); ok && (level.Sel.Name == "LevelWarn" || level.Sel.Name == "LevelError") {
			return beginning(n.Elts[1])
		}
	}
	return ""
}

// beginning returns a string constant up to the first colon, semicolon or comma; of a sum, the
// beginning of the first part.
func beginning(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		if i := strings.IndexAny(text, ":;,"); i > 0 {
			text = text[:i]
		}
		return strings.TrimSpace(text)
	case *ast.BinaryExpr:
		return beginning(e.X)
	}
	return ""
}
