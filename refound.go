package lockmesh

import (
	"context"
	"errors"
	"slices"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Refound makes the named nodes, this one among them, the voters, on your word that a majority of the voters is gone FOR GOOD. It is dangerous, and nothing
// but an operator who has looked should call it: it asks nobody. If those who are said to be gone come back, or if it is called in two
// places, there are two electorates, and a key can be held twice.
//
// Before: see in [Mesh.Status], Electorate.Lost, who is gone. Make sure that none of them runs anywhere and that none can start again with its state directory;
// removing those directories does it. Then call it once, on one node, with the names of nodes that are up and that it is in touch with, such as those
// voters that are left and the nodes that stand by. The others hear of it from there. Those who were gone may then come back with empty
// directories, as new peers.
//
// It returns once the new electorate is in this node's state directory. Locks that the lost voters granted are not known any more, so all voters then
// keep quiet for a MaxTTL, until none of those can be held; tokens go on above any that this node knows of.
//
// Errors: [ErrNotLost] while a majority of the voters answers; ErrConfig for names that can't be voters now, or where the electorate is fixed, with a text
// that says what to do; ErrClosed; or ctx's, with which the new electorate may be there all the same: see Status.
func (m *Mesh) Refound(ctx context.Context, voters ...string) error {
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "refound", Reason: reason, Text: text, Err: err}
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
	case m.keeper == nil:
		return fail(ErrConfig, "the electorate is fixed, without StateDir: it is what Voters says. Bring a majority of them back", nil)
	case len(names) == 0:
		return fail(ErrConfig, "nobody is named; name the nodes that shall vote, this one among them", nil)
	case len(slices.Compact(slices.Clone(names))) < len(names):
		return fail(ErrConfig, "a name is there twice; name each node once", nil)
	case ctx.Err() != nil:
		return fail(nil, "", ended(ctx))
	}
	done := make(chan error, 1)
	if err := m.loop.box.call(func(now vote.Now) { m.loop.refound(now, names, done) }); err != nil {
		return fail(err, "", nil)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fail(nil, "the new electorate isn't known to be in the state directory yet", ended(ctx))
	case <-m.loop.done:
	}
	select {
	case err := <-done:
		return err
	default:
		return fail(ErrClosed, "", nil)
	}
}

func (l *loop) refound(now vote.Now, names []vote.NodeID, done chan<- error) {
	err := l.node.Refound(now, names)
	switch {
	case errors.Is(err, electorate.ErrNotLost):
		done <- &Error{Op: "refound", Reason: ErrNotLost}
		return
	case err != nil:
		done <- &Error{Op: "refound", Reason: ErrConfig, Text: err.Error()}
		return
	}
	st, _ := l.node.ElectorateStatus(now)
	l.log.Warn("the electorate is founded again on an operator's word", "version", st.Electorate.Version, "voters", electorNames(st.Electorate.Voters))
	l.voting.refounds = append(l.voting.refounds, refounding{st.Electorate.Version, done})
}
