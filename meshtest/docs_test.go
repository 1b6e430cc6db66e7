package meshtest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/meshtest"
)

// The package's documentation shows this function; a test compares the two.

func TestTakeover(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		lease, err := m.Node("a").Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		m.Crash("a")
		next, err := m.Node("b").Lock(t.Context(), "job") // ten seconds later
		if err != nil {
			t.Fatal(err)
		}
		if next.Token() <= lease.Token() {
			t.Error("the tokens don't rise")
		}
	})
}

// So does docs/testing.md with the package's example.
func TestTheExampleHolds(t *testing.T) { testAStoppedNodeIsReplaced(t) }

func TestWhatTheDocumentationShowsIsWhatRuns(t *testing.T) {
	_, shown, _ := strings.Cut(read(t, "doc.go"), "milliseconds:\n//\n")
	shown, _, _ = strings.Cut(shown, "//\n")
	shown = strings.ReplaceAll(strings.ReplaceAll(shown, "//\t", ""), "//\n", "\n")
	if len(shown) < 100 || !strings.Contains(read(t, "docs_test.go"), "\n"+shown) {
		t.Errorf("doc.go shows what isn't in docs_test.go to the letter:\n%s", shown)
	}
	_, shown, _ = strings.Cut(read(t, "../docs/testing.md"), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	if len(shown) < 100 || !strings.Contains(read(t, "example_test.go"), "\n"+shown) {
		t.Errorf("docs/testing.md shows what isn't in example_test.go to the letter:\n%s", shown)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
