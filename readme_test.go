package lockmesh

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page returns the text of one page of the documentation, with Unix line ends.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func TestTheReadmesExampleIsTheOneThatCompiles(t *testing.T) {
	_, rest, ok := strings.Cut(page(t, "README.md"), "```go\n")
	shown, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("README.md has no block of Go")
	}
	if !strings.Contains(page(t, "example_test.go"), "\n"+shown) {
		t.Errorf("README.md shows an example that isn't in example_test.go to the letter:\n%s", shown)
	}
}

// TestTheReadmeIsShort keeps README.md short enough to be read at once: details belong in docs.
func TestTheReadmeIsShort(t *testing.T) {
	const most = 1000
	if n := len(strings.Fields(page(t, "README.md"))); n > most {
		t.Errorf("README.md has %d words, at most %d are wanted; move details to docs", n, most)
	}
}

func TestTheReadmeNamesTheGoVersion(t *testing.T) {
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(page(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod names no Go version")
	}
	if !strings.Contains(page(t, "README.md"), "Go "+m[1]) {
		t.Errorf("README.md doesn't name Go %s, which go.mod asks for", m[1])
	}
}

// figures returns the cells of the first table after a heading of a page, by the names of a row and
// a column. Spaces around the cells are cut off.
func figures(t *testing.T, name, heading string) map[[2]string]string {
	t.Helper()
	_, rest, ok := strings.Cut(page(t, name), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", name, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, rest, ok = strings.Cut(rest, "\n\n| |")
	if !ok {
		t.Fatalf("%s has no table under %q", name, heading)
	}
	table, _, _ := strings.Cut("| |"+rest, "\n\n")
	var columns []string
	cells := make(map[[2]string]string)
	for i, line := range strings.Split(table, "\n") {
		row := strings.Split(strings.Trim(line, "|"), "|")
		for j := range row {
			row[j] = strings.TrimSpace(row[j])
		}
		switch {
		case i == 0:
			columns = row
		case len(row) != len(columns):
			t.Fatalf("%s: the row %q has %d cells, and the head of its table has %d", name, line, len(row), len(columns))
		case i > 1: // the second line has the alignment of the columns
			for j := 1; j < len(row); j++ {
				cells[[2]string{row[0], columns[j]}] = row[j]
			}
		}
	}
	return cells
}

// TestTheReadmesFiguresAreThoseOfThePerformancePage compares each cell of the README's table of
// figures with the cell of docs/performance.md for the same measure and service, and the README's
// range for an undisturbed Redis with the page's range. A new measurement changes both pages.
func TestTheReadmesFiguresAreThoseOfThePerformancePage(t *testing.T) {
	rows := map[string]string{ // from the name in the README to the name on the page
		"acquire":             "to acquire, median",
		"locks/s, 64 callers": "locks a second, 64 callers",
		"hand-overs/s":        "handed over between nodes a second, 16 waiters",
	}
	columns := map[string]string{
		"lockmesh voter":       "lockmesh, on a node that votes",
		"lockmesh non-voter":   "on a node that doesn't vote",
		"redsync, three Redis": "redsync over three Redis",
		"one Redis":            "one Redis",
		"etcd":                 "etcd, three members",
	}
	short, long := figures(t, "README.md", "Performance"), figures(t, "docs/performance.md", "At a glance")
	if len(short) != len(rows)*len(columns) {
		t.Errorf("README.md has %d figures, and this test knows of %d", len(short), len(rows)*len(columns))
	}
	for row, measure := range rows {
		for column, service := range columns {
			got, want := short[[2]string{row, column}], long[[2]string{measure, service}]
			if got == "" || got != want {
				t.Errorf("%s, %s: README.md says %q, docs/performance.md says %q", row, column, got, want)
			}
		}
	}
	quick := regexp.MustCompile(`Redis\s+was\s+(\S+)\s+to\s+(\S+)\s+times\s+as\s+fast`).FindStringSubmatch(page(t, "README.md"))
	slow := regexp.MustCompile(`own\s+run,\s+and\s+(\S+)\s+to\s+(\S+)\s+times\s+as\s+long`).FindStringSubmatch(page(t, "docs/performance.md"))
	if quick == nil || slow == nil || !slices.Equal(quick[1:], slow[1:]) {
		t.Errorf("an undisturbed Redis: README.md says %q, docs/performance.md says %q", quick, slow)
	}
}

// TestTheReadmeSaysOfEveryPackageWhetherItIsPublic demands that the table of packages in README.md
// has every top-level directory with Go code, either as public API or as implementation.
func TestTheReadmeSaysOfEveryPackageWhetherItIsPublic(t *testing.T) {
	dirs := make(map[string]bool)
	for name := range repository(t, ".go") {
		if dir, _, nested := strings.Cut(name, "/"); nested {
			dirs[dir] = true
		}
	}
	if len(dirs) < 8 {
		t.Fatalf("found only %d directories with Go code", len(dirs))
	}
	text := page(t, "README.md")
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(dir) + "(/\\.\\.\\.|/\\*)?`").MatchString(text) {
			t.Errorf("README.md doesn't say whether %s is public API or implementation", dir)
		}
	}
}

func TestTheConfigurationPageHasEveryField(t *testing.T) {
	text := page(t, "docs/configuration.md")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !strings.Contains(text, "\n| `"+f.Name+"` |") {
			t.Errorf("docs/configuration.md has no row for Config.%s", f.Name)
		}
	}
}

func TestTheErrorsPageHasEveryError(t *testing.T) {
	names := regexp.MustCompile(`(?m)^\t(Err[A-Z]\w*) error = `).FindAllStringSubmatch(page(t, "errors.go"), -1)
	if len(names) < 8 {
		t.Fatalf("found only %d errors in errors.go", len(names))
	}
	text := page(t, "docs/errors.md")
	for _, name := range names {
		if !strings.Contains(text, "\n| `"+name[1]+"` |") {
			t.Errorf("docs/errors.md doesn't say what to do about %s", name[1])
		}
	}
}

// Each package called implementation by the README says so in its first sentence, since lists of
// packages show this sentence.
func TestImplementationPackagesSaySo(t *testing.T) {
	for _, pkg := range []string{"quorum", "lease", "member", "transport", "sim"} {
		said := false
		for name, text := range repository(t, ".go") {
			said = said || strings.HasPrefix(name, pkg+"/") &&
				strings.Contains(text, "// Package "+pkg+" is an implementation package of lockmesh, without a compatibility promise")
		}
		if !said {
			t.Errorf("package %s doesn't say that it is implementation, without a compatibility promise", pkg)
		}
	}
}
