package lockmesh

import "context"

// Ready waits until a majority of the voters is reachable and counts, so that locks can be granted.
// This may change at any time after Ready returns.
//
// If ctx ends first, the error is ctx's and ErrNoQuorum, with the numbers. ErrRefused and ErrClosed
// are returned at once.
func (m *Mesh) Ready(ctx context.Context) error {
	m.checkUsable("Mesh.Ready")
	checkContext(ctx, "Mesh.Ready")
	return m.eng.Ready(ctx)
}

// Settled waits until the mesh can do without another voter. Settled is the gate of a rolling
// restart, between the start of one node and the stop of the next (docs/restarting.md). Settled
// returns nil once this node's own voter counts and the other voters know this, no voter is quiet,
// the electorate isn't being changed, and a majority counts even if any single voter stops. On a
// node that isn't a voter, Settled waits for the same conditions of the others.
//
// [Mesh.Ready] is no such gate: a node just started may be ready by the votes of others while its
// own voter is quiet for a MaxTTL. If the next voter is stopped then, two are missing.
//
// A missing voter is no reason to wait as long as another can be spared: of five voters, one may be
// broken during a rolling restart. Of one or two voters none can be spared; there Settled waits
// until all count, and each restart stops locks until the voter is back and counts again.
//
// The result holds for the moment only. Don't take a node out of service because Settled would
// wait: when a failure leaves no spare voter, as that of one of three does, Settled waits at every
// node. If ctx ends first, the error is ctx's and ErrNoQuorum, and says what is missing. ErrRefused
// and ErrClosed are returned at once.
func (m *Mesh) Settled(ctx context.Context) error {
	m.checkUsable("Mesh.Settled")
	checkContext(ctx, "Mesh.Settled")
	return m.eng.Settled(ctx)
}
