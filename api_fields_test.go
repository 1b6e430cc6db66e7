package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachFieldOfTheAPIHasAComment: an exported field of an exported type says what it is, in a
// comment above or beside it. Fields that are declared in one line after a field with a comment
// above belong to that comment.
func TestEachFieldOfTheAPIHasAComment(t *testing.T) {
	files, _ := filepath.Glob("*.go")
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			explained := false // by the comment above this field, or above one just before
			for i, field := range s.Fields.List {
				line := func(p token.Pos) int { return set.Position(p).Line }
				if i > 0 && line(field.Pos()) > line(s.Fields.List[i-1].End())+1 {
					explained = false
				}
				explained = explained || field.Doc != nil
				for _, name := range field.Names {
					if !name.IsExported() {
						continue
					}
					if seen++; !explained && field.Comment == nil {
						t.Errorf("%v: %s.%s has no comment", set.Position(name.Pos()), spec.Name.Name, name.Name)
					}
				}
				if field.Comment != nil {
					explained = false
				}
			}
			return true
		})
	}
	if seen < 100 {
		t.Errorf("only %d fields were found", seen)
	}
}
