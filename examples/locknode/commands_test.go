package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
)

// The node reports a line that is too long and ends, since the node can't find the start of the
// next command.
func TestALineThatIsTooLongIsSaid(t *testing.T) {
	var out bytes.Buffer
	ctx, end := context.WithCancelCause(t.Context())
	n := &node{out: newReport(&out, false), end: end, leases: make(map[string]*lockmesh.Lease)}
	n.readCommands(ctx, strings.NewReader("lock "+strings.Repeat("k", 1<<20)+"\n"))
	if !strings.Contains(out.String(), "too long") || !errors.Is(context.Cause(ctx), errStuck) {
		t.Errorf("it says %q and ends with %v", out.String(), context.Cause(ctx))
	}
}
