package lockmesh_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestPing(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		ctx, a := t.Context(), m.Node("a")
		if _, err := a.Ping(ctx, "b"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"", "a", "nobody"} {
			if _, err := a.Ping(ctx, name); !errors.Is(err, lockmesh.ErrOption) {
				t.Errorf("%q: %v", name, err)
			}
		}
		m.Partition([]string{"a", "c"}, []string{"b"})
		if _, err := a.Ping(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a node that is cut off: %v", err)
		}
		m.Heal()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if _, err := a.Ping(ctx, "b"); !errors.Is(err, lockmesh.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
