package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestTheTestsThatTheLocksPageNamesExist also checks that each row names a test.
func TestTheTestsThatTheLocksPageNamesExist(t *testing.T) {
	t.Parallel()
	sampled.Unraced(t)
	page, err := os.ReadFile("docs/locks.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheRepository(t)
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") {
			continue
		}
		rows++
		named := regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("no test is named in %q", line)
		}
		for _, n := range named {
			if !tests[n[1]] {
				t.Errorf("docs/locks.md names %s, which doesn't exist", n[1])
			}
		}
	}
	if rows < 13 {
		t.Errorf("only %d rows", rows)
	}
}

// testsOfTheRepository returns the names of all tests, fuzz tests, benchmarks and examples of the
// repository.
func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				tests[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)

// TestEveryFeatureHasARunnableExample checks that the documentation shows each feature of the
// family, with checked output.
func TestEveryFeatureHasARunnableExample(t *testing.T) {
	var source strings.Builder
	for _, file := range []string{"example_family_test.go", "example_watch_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, name := range []string{
		"Mesh_RLock", "Mesh_Semaphore", "Mesh_LockAll", "Lease_Context", "WithTTL", "WithoutRenewal", "WithMinHold", "WithDelay", "WithWait", "Mesh_Inspect",
		"Mesh_Revoke", "Lease_Upgrade", "Lease_Downgrade", "Mesh_Watch", "Mesh_WatchPrefix", "Election_Campaign", "Election_Observe", "Mesh_Lead",
		"Mesh_CountDownLatch", "Mesh_DoubleBarrier", "Lease_Extend", "Mesh_Evict",
	} {
		_, rest, ok := strings.Cut(source.String(), "func Example"+name+"() {")
		body, _, _ := strings.Cut(rest, "\n}")
		if !ok || !strings.Contains(body, "// Output: ") && !strings.Contains(body, "// Output:\n") {
			t.Errorf("no example of %s runs and is checked", name)
		}
	}
}
