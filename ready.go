package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// readyWait is one call of Ready under way.
type readyWait struct {
	result chan error // capacity 1: the loop never waits
}

// Ready waits until a majority of the voters is reachable and counts, so that locks can be granted. It doesn't promise that this
// stays so.
//
// When ctx ends first, the error is ctx's and ErrNoQuorum, with the numbers. ErrRefused and ErrClosed come at once.
func (m *Mesh) Ready(ctx context.Context) error {
	w := &readyWait{make(chan error, 1)}
	if err := m.loop.box.call(func(now vote.Now) { m.loop.await(w) }); err != nil {
		return &Error{Op: "ready", Reason: err}
	}
	select {
	case err := <-w.result:
		return err
	case <-m.loop.done:
		return w.closed()
	case <-ctx.Done():
	}
	gave, why := make(chan error, 1), ended(ctx)
	if m.loop.box.post(false, func(now vote.Now) { gave <- m.loop.giveUp(now, w, why) }) {
		select {
		case err := <-gave:
			return err
		case <-m.loop.done:
		}
	}
	return w.closed()
}

// closed returns what the loop answered before it ended, if it did.
func (w *readyWait) closed() error {
	select {
	case err := <-w.result:
		return err
	default:
		return &Error{Op: "ready", Reason: ErrClosed}
	}
}

func (l *loop) await(w *readyWait) {
	if l.leaving {
		w.result <- &Error{Op: "ready", Reason: ErrClosed, Text: "this node is leaving"}
		return
	}
	l.awaiting[w] = struct{}{}
}

// tellReady answers those who wait for a majority, if the answer is known.
func (l *loop) tellReady(now vote.Now) {
	if len(l.awaiting) == 0 {
		return
	}
	answer, known := l.readiness(now)
	if !known {
		return
	}
	for w := range l.awaiting {
		w.result <- answer
	}
	clear(l.awaiting)
}

// readiness returns what Ready is to answer; known is false while there is something to wait for.
func (l *loop) readiness(now vote.Now) (answer error, known bool) {
	switch {
	case l.namesake != "":
		return &Error{Op: "ready", Reason: ErrRefused, Text: l.namesake}, true
	case l.node.Ready():
		return nil, true
	}
	if !l.node.Electorate().Known() {
		// The founders are the only ones of whom a word is expected. Who is refused by so many of them is in the wrong mesh.
		if text := l.refusedByFounders(); text != "" {
			return &Error{Op: "ready", Reason: ErrRefused, Text: text}, true
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
		return &Error{Op: "ready", Reason: ErrRefused, Text: census(voters)}, true
	}
	return nil, false
}

// giveUp ends a wait whose context has ended, as abandon does.
func (l *loop) giveUp(now vote.Now, w *readyWait, ended error) error {
	delete(l.awaiting, w)
	select {
	case err := <-w.result:
		return err
	default:
	}
	if answer, known := l.readiness(now); known {
		return answer
	}
	why := l.explain(now, quorum.Wait{Reason: quorum.WaitNoQuorum, Text: census(l.node.Voters(now))})
	return &Error{Op: "ready", Reason: ErrNoQuorum, Text: why.Text, Err: ended}
}
