package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// readyWait is a call of Ready or Settled under way.
type readyWait struct {
	op     string
	result chan error // capacity 1: the loop never waits
}

const opReady, opSettled = "ready", "settled"

// Ready waits until a majority of the voters is reachable and counts, so that locks can be granted.
// This may change at any time after Ready returns.
//
// If ctx ends first, the error is ctx's and ErrNoQuorum, with the numbers. ErrRefused and ErrClosed
// are returned at once.
func (m *Mesh) Ready(ctx context.Context) error {
	m.checkUsable("Mesh.Ready")
	checkContext(ctx, "Mesh.Ready")
	return m.await(ctx, opReady)
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
	return m.await(ctx, opSettled)
}

// await waits until the loop answers, or ctx ends.
func (eng *engine) await(ctx context.Context, op string) error {
	w := &readyWait{op, make(chan error, 1)}
	if err := eng.loop.box.putCall(func(now vote.Now) { eng.loop.await(w) }); err != nil {
		return &Error{Op: op, Reason: err}
	}
	select {
	case err := <-w.result:
		return err
	case <-eng.loop.done:
		return w.closed()
	case <-ctx.Done():
	}
	gave, why := make(chan error, 1), contextError(ctx)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.abandonWait(now, w, why) }) {
		select {
		case err := <-gave:
			return err
		case <-eng.loop.done:
		}
	}
	return w.closed()
}

// closed returns the answer given by the loop before its end, or else ErrClosed.
func (w *readyWait) closed() error {
	select {
	case err := <-w.result:
		return err
	default:
		return &Error{Op: w.op, Reason: ErrClosed}
	}
}

func (l *loop) await(w *readyWait) {
	if l.leaving {
		w.result <- &Error{Op: w.op, Reason: ErrClosed, Text: "this node is leaving"}
		return
	}
	l.awaiting[w] = struct{}{}
}

// answerReady answers the waiting calls of Ready and Settled with a known result.
func (l *loop) answerReady(now vote.Now) {
	for w := range l.awaiting {
		if answer, known := l.readiness(now, w.op); known {
			w.result <- answer
			delete(l.awaiting, w)
		}
	}
}

// readiness returns the answer of Ready or Settled; known is false while the call must wait.
func (l *loop) readiness(now vote.Now, op string) (answer error, known bool) {
	switch {
	case l.refused(now) != "":
		return &Error{Op: op, Reason: ErrRefused, Text: l.refused(now)}, true
	case l.node.Ready():
		return nil, op == opReady || l.node.Unsettled(now) == ""
	}
	if !l.node.Electorate().Known() {
		// Only the founders are expected to answer. After so many refusals by founders, this node
		// is in the wrong mesh.
		if text := l.refusedByFounders(); text != "" {
			return &Error{Op: op, Reason: ErrRefused, Text: text}, true
		}
		return nil, false
	}
	voters := l.node.Voters(now)
	refusing := 0
	for _, v := range voters {
		if v.State == quorum.Refused {
			refusing++
		}
	}
	if len(voters)-refusing < l.node.Electorate().Majority() {
		return &Error{Op: op, Reason: ErrRefused, Text: describeVoters(voters)}, true
	}
	return nil, false
}

// abandonWait ends a wait after the end of its context, as abandon does for a call.
func (l *loop) abandonWait(now vote.Now, w *readyWait, ended error) error {
	delete(l.awaiting, w)
	select {
	case err := <-w.result:
		return err
	default:
	}
	if answer, known := l.readiness(now, w.op); known {
		return answer
	}
	why := l.explain(now, quorum.Wait{Reason: quorum.WaitNoQuorum, Text: describeVoters(l.node.Voters(now))})
	if text := l.node.Unsettled(now); w.op == opSettled && text != "" {
		why.Text += "; " + text
	}
	return &Error{Op: w.op, Reason: ErrNoQuorum, Text: why.Text, Err: ended}
}
