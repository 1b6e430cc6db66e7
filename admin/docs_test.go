//go:build unix

package admin

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestThePagesCommandsWork runs the shell commands of docs/admin.md with the curl of this machine.
func TestThePagesCommandsWork(t *testing.T) {
	sampled.Waits(t)
	for _, name := range []string{"bash", "curl", "sed"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here", name)
		}
	}
	page, err := os.ReadFile("../docs/admin.md")
	must(t, err)
	t.Parallel()
	// A mesh of one process by count is ready at once.
	m, err := lockmesh.Join(t.Context(), lockmesh.Config{Name: "a", Bind: "127.0.0.1:0", Expect: 1, Secret: lockmesh.NewSecret(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer m.Close()
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- Serve(ctx, l, New(m, AllowLocks(lockmesh.DefaultMaxTTL))) }()
	defer func() { cancel(); must(t, <-served) }()
	must(t, m.Ready(t.Context()))

	wants := []string{`"ready":true`, `"left_ms":`, `"event":"held","key":"jobs/2"`, ``}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(wants) {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	for i, b := range blocks {
		script := "curl() { command curl --fail-with-body \"$@\"; }\n" + strings.ReplaceAll(b[1], "/run/app/lockmesh.sock", path)
		out, err := exec.CommandContext(t.Context(), "bash", "-eu", "-c", script).CombinedOutput()
		if err != nil || !strings.Contains(string(out), wants[i]) || strings.Contains(string(out), `"error"`) {
			t.Errorf("%v: %s\nprints %s", err, b[1], out)
		}
	}
	if !m.Draining() {
		t.Error("the node isn't draining")
	}
}
