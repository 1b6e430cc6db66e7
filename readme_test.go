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

// TestTheReadmeSaysOfEveryPackageWhetherItIsPublic demands that the table of packages in README.md has every top-level directory
// with Go code, either as public API or as implementation.
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

// The packages that the README calls implementation say so in their first sentence, which is what a page of packages shows.
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
