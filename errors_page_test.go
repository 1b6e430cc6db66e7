package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// docs/errors.md shows this function.

func once(ctx context.Context, mesh *lockmesh.Mesh) error {
	lease, err := mesh.TryLock(ctx, "billing/nightly")
	switch {
	case err == nil:
		defer lease.Unlock(context.Background())
		return write(lease.Context(), lease.Token()) // the work
	case errors.Is(err, lockmesh.ErrHeld):
		return nil // another node does the work
	case errors.Is(err, lockmesh.ErrNoQuorum):
		return fmt.Errorf("perhaps another node does the work: %w", err) // too few voters answer
	default:
		return err // such as ErrClosed, ErrRefused, or the end of ctx
	}
}

// TestTheTryLockOfTheErrorsPageReportsEachError runs the function of docs/errors.md at a free key,
// at a held key, and at a node that takes no more locks.
func TestTheTryLockOfTheErrorsPageReportsEachError(t *testing.T) {
	text, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("errors_page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	if len(shown) < 100 || !strings.Contains(strings.ReplaceAll(string(own), "\r\n", "\n"), "\n"+shown) {
		t.Errorf("docs/errors.md shows a function that isn't in errors_page_test.go to the letter:\n%s", shown)
	}
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		if err := once(t.Context(), m.Node("a")); err != nil {
			t.Errorf("the key is free: %v", err)
		}
		lease, err := m.Node("b").Lock(t.Context(), "billing/nightly")
		if err != nil {
			t.Fatal(err)
		}
		if err := once(t.Context(), m.Node("a")); err != nil {
			t.Errorf("the key is held: %v", err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Node("c").Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := once(t.Context(), m.Node("c")); !errors.Is(err, lockmesh.ErrClosed) {
			t.Errorf("the node drains: %v", err)
		}
	})
}
