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
	"unicode"
)

// glossaryName matches a name in the code as written in docs/glossary.md: the package's folder, and
// up to two identifiers.
var glossaryName = regexp.MustCompile("`([a-z/]+)((?:\\.[A-Za-z]+){0,2})`")

// folderOf returns the folder of a package named by a page.
func folderOf(name string) string {
	switch name {
	case "lockmesh":
		return "."
	case "vote", "node", "engine", "discovery", "electorate", "statedir":
		return "internal/" + name
	case "fault", "check":
		return "sim/" + name
	}
	return name
}

// identifiers has the identifiers of the Go files of each folder, without tests.
type identifiers map[string]map[string]bool

func (ids identifiers) of(t *testing.T, folder string) map[string]bool {
	t.Helper()
	if known := ids[folder]; known != nil {
		return known
	}
	known := make(map[string]bool)
	ids[folder] = known
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

// TestTheNamesInTheGlossaryExist checks that each name in the column "in the code" is an identifier
// of the named package.
func TestTheNamesInTheGlossaryExist(t *testing.T) {
	page, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	ids, names := make(identifiers), 0
	for line := range strings.Lines(string(page)) {
		columns := strings.Split(line, "|")
		if len(columns) != 7 {
			continue
		}
		for _, m := range glossaryName.FindAllStringSubmatch(columns[4], -1) {
			folder := folderOf(m[1])
			for name := range strings.SplitSeq(strings.TrimPrefix(m[2], "."), ".") {
				if names++; !ids.of(t, folder)[name] {
					t.Errorf("%s: there is no %q in %s", strings.TrimSpace(columns[1]), name, folder)
				}
			}
		}
	}
	if names < 50 {
		t.Errorf("only %d names were looked up", names)
	}
}

// TestTheNamesInPagesExist checks that each identifier named by a page with a package of this
// module exists in the package.
func TestTheNamesInPagesExist(t *testing.T) {
	ids, names := make(identifiers), 0
	for name, page := range pages(t) {
		if strings.HasPrefix(name, "docs/from-") {
			continue // lease is a variable there
		}
		for _, m := range glossaryName.FindAllStringSubmatch(page, -1) {
			folder := folderOf(m[1])
			metric := folder == "." && len(m[2]) > 1 && !unicode.IsUpper(rune(m[2][1]))
			if known := ids.of(t, folder); m[2] == "" || !known[""] || metric {
				continue // no name of a package of this module
			}
			for id := range strings.SplitSeq(strings.TrimPrefix(m[2], "."), ".") {
				if names++; id != "go" && !ids.of(t, folder)[id] {
					t.Errorf("%s: `%s%s`: there is no %q in %s", name, m[1], m[2], id, folder)
				}
			}
		}
	}
	if names < 100 {
		t.Errorf("only %d names were looked up", names)
	}
}

// TestTheGlossaryIsInOrder : a reader looks a term up by the alphabet.
func TestTheGlossaryIsInOrder(t *testing.T) {
	last := ""
	for line := range strings.Lines(page(t, "docs/glossary.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| term ") {
			continue
		}
		term := strings.ToLower(strings.TrimSpace(strings.Split(line, "|")[1]))
		if term < last {
			t.Errorf("%q stands behind %q", term, last)
		}
		last = term
	}
	if last == "" {
		t.Error("the glossary has no terms")
	}
}

// TestTheIndexHasEachDecision : docs/adr/README.md links all records, and in order.
func TestTheIndexHasEachDecision(t *testing.T) {
	records, err := filepath.Glob(filepath.Join("docs", "adr", "[0-9]*.md"))
	if err != nil || len(records) == 0 {
		t.Fatal(err, len(records))
	}
	index := page(t, filepath.Join("docs", "adr", "README.md"))
	for _, record := range records {
		_, rest, found := strings.Cut(index, "]("+filepath.Base(record)+") |")
		if !found {
			t.Errorf("%s isn't in the index, or stands before an earlier decision", record)
			continue
		}
		index = rest
	}
}
