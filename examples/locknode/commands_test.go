package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
)

// Who pastes something too long must hear of it: the node can't go on, since it doesn't know where the next command begins.
func TestALineThatIsTooLongIsSaid(t *testing.T) {
	var out bytes.Buffer
	ctx, end := context.WithCancelCause(t.Context())
	n := &node{out: newReport(&out, false), end: end, leases: make(map[string]*lockmesh.Lease)}
	n.readCommands(ctx, strings.NewReader("lock "+strings.Repeat("k", 1<<20)+"\n"))
	if !strings.Contains(out.String(), "too long") || !errors.Is(context.Cause(ctx), errStuck) {
		t.Errorf("it says %q and ends with %v", out.String(), context.Cause(ctx))
	}
}
