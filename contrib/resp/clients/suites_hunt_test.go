//go:build hunt

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/contrib/resp"
)

// copyOf returns a copy of a module's source, to be changed.
func copyOf(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// suite runs the tests of a module, and logs their number.
func suite(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-v", "-timeout", "10m"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOFLAGS=-mod=mod"), env...)
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	passed := strings.Count(text, "--- PASS: ")
	if passed == 0 {
		t.Fatalf("no test has run:\n%s", text)
	}
	t.Logf("%d tests and parts of tests have passed, %d were skipped", passed, strings.Count(text, "--- SKIP: "))
}

// TestTheSuiteOfRedislock leaves out a single test: a blind overwrite of a holder's key.
// The suite holds keys for an hour, so the server allows long times.
func TestTheSuiteOfRedislock(t *testing.T) {
	addr := served(t, newMesh(t), "a", resp.AllowLongTTL())
	dir := copyOf(t, "github.com/bsm/redislock")
	replace(t, filepath.Join(dir, "redislock_test.go"), `"127.0.0.1:6379"`, `"`+addr+`"`, "DB:      9,", "")
	suite(t, dir, nil, "-run", "^Test", "-skip", "^TestLock_Release_not_own$", ".") // examples name their server themselves
}

// TestTheSuiteOfRedsync has the suite start this module's redisserver in place of a redis-server.
// The driver rueidis needs an option, as with each server without caching in the client.
func TestTheSuiteOfRedsync(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "redis-server"), "./redisserver").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := copyOf(t, "github.com/go-redsync/redsync/v4")
	if out, err := exec.Command("go", "mod", "edit", "-dropreplace", "github.com/stvp/tempredis", filepath.Join(dir, "go.mod")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	replace(t, filepath.Join(dir, "redsync_test.go"), "rueidislib.ClientOption{", "rueidislib.ClientOption{DisableCache: true,",
		"51200", "14200") // below the ports of outgoing connections, of which another process may have one
	suite(t, dir, []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, ".")
}

// replace replaces each old text of a file by the new text behind. A missing text fails the test:
// the suite has changed.
func replace(t *testing.T, file string, texts ...string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(text, texts[i]) {
			t.Fatalf("%s has no %q", filepath.Base(file), texts[i])
		}
		text = strings.ReplaceAll(text, texts[i], texts[i+1])
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
