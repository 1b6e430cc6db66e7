package engine

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// readyWait is a call of Ready or Settled under way.
type readyWait struct {
	op     string
	result chan error // capacity 1: the loop never waits
}

const opReady, opSettled = "ready", "settled"

// Ready waits until locks can be granted.
func (eng *Engine) Ready(ctx context.Context) error { return eng.await(ctx, opReady) }

// Settled waits until the mesh can do without another voter.
func (eng *Engine) Settled(ctx context.Context) error { return eng.await(ctx, opSettled) }

// Alive waits until the loop has answered. A process that has given way to an older process with
// its name takes no part any more until it is restarted, so it isn't alive.
func (eng *Engine) Alive(ctx context.Context) error {
	answered := make(chan string, 1)
	if eng.loop.box.post(false, func(vote.Now) { answered <- eng.loop.node.LinkRefusal() }) {
		select {
		case refusal := <-answered:
			if refusal != "" {
				return eng.fail(errs.Failure{Op: "alive", Reason: errs.Refused, Text: refusal + ": restart this process"})
			}
			return nil
		case <-eng.loop.done:
		case <-ctx.Done():
			return eng.fail(errs.Failure{Op: "alive", Text: "the node's loop has not answered", Err: errs.OfContext(ctx)})
		}
	}
	return eng.fail(errs.Failure{Op: "alive", Reason: errs.Closed})
}

// await waits until the loop answers, or ctx ends.
func (eng *Engine) await(ctx context.Context, op string) error {
	w := &readyWait{op, make(chan error, 1)}
	if err := eng.loop.box.putCall(func(now vote.Now) { eng.loop.await(w) }); err != nil {
		return eng.fail(errs.Failure{Op: op, Reason: err})
	}
	select {
	case err := <-w.result:
		return err
	case <-eng.loop.done:
		return eng.answerOf(w)
	case <-ctx.Done():
	}
	gave, ended := make(chan error, 1), errs.OfContext(ctx)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.abandonWait(now, w, ended) }) {
		select {
		case err := <-gave:
			return err
		case <-eng.loop.done:
		}
	}
	return eng.answerOf(w)
}

// answerOf returns the answer given by the loop before its end, or else errs.Closed.
func (eng *Engine) answerOf(w *readyWait) error {
	select {
	case err := <-w.result:
		return err
	default:
		return eng.fail(errs.Failure{Op: w.op, Reason: errs.Closed})
	}
}

func (l *loop) await(w *readyWait) {
	if l.leaving {
		w.result <- l.fail(errs.Failure{Op: w.op, Reason: errs.Closed, Text: leavingText})
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
		return l.fail(errs.Failure{Op: op, Reason: errs.Refused, Text: l.refused(now)}), true
	case l.node.Ready():
		return nil, op == opReady || l.node.Unsettled(now) == ""
	}
	if !l.node.Electorate().Known() {
		// Only the founders are expected to answer. After so many refusals by founders, this node
		// is in the wrong mesh.
		if text := l.refusedByFounders(); text != "" {
			return l.fail(errs.Failure{Op: op, Reason: errs.Refused, Text: text}), true
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
		return l.fail(errs.Failure{Op: op, Reason: errs.Refused, Text: describeVoters(voters)}), true
	}
	return nil, false
}

// lacksElectorateAndIsRefused reports whether this process has never known an electorate of its
// mesh with Expect, and a process refuses this one, and too few others for a birth are known. The
// wait goes on: an address of another mesh, out of date, must not fail the first start of a mesh. A
// process that has outlived its electorate had the right secret, and stays in service.
func (l *loop) lacksElectorateAndIsRefused() bool {
	return l.engine.IsBornByCount() && !l.node.HasKnown() && l.engine.finder.IsRefused()
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
	text := l.describeVoters(now)
	if unsettled := l.node.Unsettled(now); w.op == opSettled && unsettled != "" {
		text += "; " + unsettled
	}
	reason := errs.NoQuorum
	if l.lacksElectorateAndIsRefused() {
		reason = errs.Refused
	}
	return l.fail(errs.Failure{Op: w.op, Reason: reason, Text: text, Err: ended})
}
