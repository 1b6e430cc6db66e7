package lockmesh

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func TestTheReadmesExampleIsTheOneThatCompiles(t *testing.T) {
	_, rest, ok := strings.Cut(readme(t), "```go\n")
	shown, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("README.md has no block of Go")
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(string(source), "\r\n", "\n"), "\n"+shown) {
		t.Errorf("README.md shows an example that isn't in example_test.go to the letter:\n%s", shown)
	}
}

func TestTheReadmeHasEveryFieldOfTheConfiguration(t *testing.T) {
	text := readme(t)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !strings.Contains(text, "\n| `"+f.Name+"` |") {
			t.Errorf("README.md has no row for Config.%s", f.Name)
		}
	}
}

func TestTheReadmesLinksLeadSomewhere(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme(t), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("README.md links to %s: %v", m[1], err)
		}
	}
}

func TestTheReadmeHasEveryError(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t(Err[A-Z]\w*) error = `).FindAllStringSubmatch(string(source), -1)
	if len(names) < 8 {
		t.Fatalf("found only %d errors in errors.go", len(names))
	}
	text := readme(t)
	for _, name := range names {
		if !strings.Contains(text, "\n| `"+name[1]+"` |") {
			t.Errorf("README.md doesn't say what to do about %s", name[1])
		}
	}
}
