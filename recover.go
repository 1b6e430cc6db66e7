package lockmesh

import (
	"context"
	"slices"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Recover recovers a lost electorate: the named nodes, this node among them, become the voters, on
// the operator's assurance that a majority of the voters is gone FOR GOOD. Recover is dangerous and
// asks no other node, so only an operator who has checked should call it. If the voters declared
// gone come back, or if Recover is called in two places, there are two electorates, and a key can
// be held twice.
//
// Before the call: see who is gone in [Mesh.Status], Electorate.Lost. Make sure that none of these
// voters runs anywhere or can start again with its state directory, for example by removing the
// directories. Then call Recover once, on a single node, with the names of running nodes in touch
// with this node, such as the remaining voters and the nodes on standby. The others learn the new
// electorate from this node. The lost voters may later come back with empty directories, as new
// peers.
//
// Recover returns once the new electorate is in this node's state directory. Locks granted by the
// lost voters are no longer known, so all voters then keep quiet for a MaxTTL, until none of these
// locks can be held; tokens continue above all tokens known to this node. If the mesh was changing
// MaxTTL, the longest counts that this node has heard of; if a longer one may have been decided
// since the node was last in touch with a majority, wait for that long before the call.
//
// Errors: [ErrNotLost] while a majority of the voters answers; ErrConfig for names that can't be
// voters now, or if the electorate is fixed, with a text that says what to do; ErrClosed; or ctx's.
// After ctx's error the new electorate may exist nevertheless: see Status.
func (m *Mesh) Recover(ctx context.Context, voters ...string) error {
	m.checkUsable("Mesh.Recover")
	checkContext(ctx, "Mesh.Recover")
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "recover", Reason: reason, Text: text, Err: err}
	}
	names := make([]vote.NodeID, 0, len(voters))
	for _, v := range voters {
		if problem := badName(v); problem != "" {
			return fail(ErrConfig, problem, nil)
		}
		names = append(names, vote.NodeID(v))
	}
	slices.Sort(names)
	switch {
	case m.eng.IsBornByCount():
		return fail(ErrConfig, "with Expect a mesh heals by itself: processes that see no majority "+
			"of the voters for six MaxTTL give the electorate up, and found or join another", nil)
	case !m.eng.IsDynamic():
		return fail(ErrConfig, "without StateDir the electorate is fixed: the voters are those "+
			"listed in Voters. Bring a majority of them back", nil)
	case len(names) == 0:
		return fail(ErrConfig, "no voter is named; name the nodes that shall vote, this node "+
			"among them", nil)
	case len(slices.Compact(slices.Clone(names))) < len(names):
		return fail(ErrConfig, "a name is listed twice; name each node once", nil)
	case ctx.Err() != nil:
		return fail(nil, "", errs.OfContext(ctx))
	}
	return m.eng.Recover(ctx, names)
}
