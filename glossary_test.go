package lockmesh

import (
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

// packages has the declarations of each folder that a page has named so far.
type packages map[string]map[string]bool

// has reports whether go doc finds a name, Type or Type.Member, in a folder. A member may be that
// of an embedded type.
func (ps packages) has(t *testing.T, folder, name string) bool {
	t.Helper()
	names := ps.of(t, folder)
	typ, member, isMember := strings.Cut(name, ".")
	if names[name] || !isMember || !names[typ+".*"] {
		return names[name]
	}
	for other := range names {
		if strings.HasSuffix(other, "."+member) {
			return true
		}
	}
	return false
}

func (ps packages) of(t *testing.T, folder string) map[string]bool {
	t.Helper()
	if ps[folder] == nil {
		ps[folder] = declarations(t, folder)
	}
	return ps[folder]
}

// TestTheNamesInTheGlossaryExist checks that go doc finds each name in the column "in the code".
func TestTheNamesInTheGlossaryExist(t *testing.T) {
	page, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	ps, names := make(packages), 0
	for line := range strings.Lines(string(page)) {
		columns := strings.Split(line, "|")
		if len(columns) != 7 {
			continue
		}
		for _, m := range glossaryName.FindAllStringSubmatch(columns[4], -1) {
			folder := folderOf(m[1])
			name := strings.TrimPrefix(m[2], ".")
			if names++; name == "" && len(ps.of(t, folder)) > 0 {
				continue // the package itself
			}
			if !ps.has(t, folder, name) {
				t.Errorf("%s: there is no %q in %s", strings.TrimSpace(columns[1]), name, folder)
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
	ps, names := make(packages), 0
	for name, page := range pages(t) {
		if strings.HasPrefix(name, "docs/from-") {
			continue // lease is a variable there
		}
		for _, m := range glossaryName.FindAllStringSubmatch(page, -1) {
			folder := folderOf(m[1])
			metric := folder == "." && len(m[2]) > 1 && !unicode.IsUpper(rune(m[2][1]))
			id := strings.TrimPrefix(m[2], ".")
			if m[2] == "" || len(ps.of(t, folder)) == 0 || metric || strings.HasSuffix(id, "go") {
				continue // no name of a package of this module, or that of a file
			}
			if names++; !ps.has(t, folder, id) {
				t.Errorf("%s: `%s%s`: there is no %q in %s", name, m[1], m[2], id, folder)
			}
		}
	}
	if names < 100 {
		t.Errorf("only %d names were looked up", names)
	}
}

// TestTheGlossaryIsInOrder: a reader looks a term up by the alphabet.
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

// TestTheIndexHasEachDecision: docs/adr/README.md links all records, and in order.
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
