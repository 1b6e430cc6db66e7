package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// glossaryName is a name in the code as docs/glossary.md writes it: the package's folder, and one or
// two identifiers.
var glossaryName = regexp.MustCompile("`([a-z/]+)((?:\\.[A-Za-z]+){0,2})`")

// TestTheNamesInTheGlossaryExist : each name in the column "in the code" is an identifier of the
// package that the glossary names.
func TestTheNamesInTheGlossaryExist(t *testing.T) {
	page, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	identifiers := make(map[string]map[string]bool) // by folder
	of := func(folder string) map[string]bool {
		if known := identifiers[folder]; known != nil {
			return known
		}
		known := make(map[string]bool)
		identifiers[folder] = known
		files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			known[""] = true
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					known[id.Name] = true
				}
				return true
			})
		}
		return known
	}
	names := 0
	for line := range strings.Lines(string(page)) {
		columns := strings.Split(line, "|")
		if len(columns) != 7 {
			continue
		}
		for _, m := range glossaryName.FindAllStringSubmatch(columns[4], -1) {
			folder := m[1]
			switch folder {
			case "lockmesh":
				folder = "."
			case "vote":
				folder = "internal/vote"
			}
			for name := range strings.SplitSeq(strings.TrimPrefix(m[2], "."), ".") {
				if names++; !of(folder)[name] {
					t.Errorf("%s: there is no %q in %s", strings.TrimSpace(columns[1]), name, folder)
				}
			}
		}
	}
	if names < 50 {
		t.Errorf("only %d names were looked up", names)
	}
}
