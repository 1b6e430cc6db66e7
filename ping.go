package lockmesh

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Ping sends a packet of gossip to another live node, by name, and returns the time until the
// answer: UDP packets pass in both directions. Locks travel by TCP, and [VoterStatus].RoundTrip has
// their times; a mesh whose UDP is blocked takes live nodes for failed. Ping is for diagnosis. It
// tries three times, and waits for two seconds at most.
//
// Errors: ErrOption if gossip knows no live node of the name, or if the name is this node's;
// ErrClosed; an error that is context.DeadlineExceeded if no answer comes, or ctx's.
func (m *Mesh) Ping(ctx context.Context, node string) (time.Duration, error) {
	m.checkUsable("Mesh.Ping")
	checkContext(ctx, "Mesh.Ping")
	e := &Error{Op: "ping"}
	if m.eng.IsClosing() {
		e.Reason = ErrClosed
		return 0, e
	}
	var took time.Duration
	known := false
	if node != m.Name() {
		took, known, e.Err = m.eng.Ping(ctx, vote.NodeID(node))
	}
	switch {
	case known && e.Err == nil:
		return took, nil
	case !known:
		e.Reason, e.Text = ErrOption, fmt.Sprintf("gossip knows no other live node %q", node)
	case ctx.Err() != nil:
		e.Err = errs.OfContext(ctx)
	default:
		e.Text = fmt.Sprintf("%q answers no packet by UDP", node)
	}
	return 0, e
}
