package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
)

// goodbyeReserve is the part of Leave's time reserved for the goodbye, which reaches the others
// within a second or two; at most a quarter. Nodes that have received a voter's goodbye vote the
// voter out as soon as possible, rather than after a long absence.
const goodbyeReserve = 2 * time.Second

// LeaveTTLs is how many MaxTTL Leave waits at most to be voted out if its context has no deadline:
// twice the time needed if other voters have to be voted out, too.
const LeaveTTLs = 10

// LeaveElectorate has this node voted out, and waits for the result. A voter of a fixed list stays
// one, and so does a node that is being converted from such a list.
func (eng *Engine) LeaveElectorate(ctx context.Context) error {
	if !eng.dynamic || eng.cfg.FromFixed {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, deadline.Add(-min(goodbyeReserve, max(time.Until(deadline), 0)/4)))
		defer cancel()
		ctx = limited
	}
	enough := make(chan struct{}, 1)
	if _, limited := ctx.Deadline(); !limited {
		defer eng.clocks.After(LeaveTTLs*eng.longestTTL(), func() { wakeup.Send(enough) })()
	}
	l := eng.loop
	gone := make(chan string, 1)
	reason := ""
	l.box.post(false, func(now vote.Now) { l.leaveElectorate(now, gone) })
	select {
	case reason = <-gone:
		if reason == "" {
			return nil
		}
	case <-l.done:
		return nil
	case <-enough:
	case <-ctx.Done():
	}
	var over error // read here, since the loop must not wait for the application's code
	if ctx.Err() != nil {
		over = errs.OfContext(ctx)
	}
	still := make(chan error, 1)
	if l.box.post(false, func(now vote.Now) {
		st, _ := l.node.ElectorateStatus(now)
		if !st.IsVoter() {
			still <- nil
			return
		}
		if reason != "" && eng.IsBornByCount() && len(st.Electorate.All()) == 1 {
			still <- nil // the mesh ends with its only voter, as the caller wants: no voter needs this vote
			return
		}
		text := fmt.Sprintf("electorate %d (%s) could not vote this node out in time",
			vote.VersionNumber(st.Electorate.Version), strings.Join(ElectorNames(st.Electorate.All()), ", "))
		if reason == "" {
			reason = st.Change
		}
		if reason != "" {
			text += ": " + reason
		}
		text += "; the other voters need this node for their majority until "
		if !eng.IsBornByCount() {
			text += "it is back with its state directory, or until "
		}
		text += "they have voted it out"
		still <- eng.fail(errs.Failure{Op: "leave", Reason: errs.StillVoter, Text: text, Err: over})
	}) {
		select {
		case err := <-still:
			return err
		case <-l.done:
		}
	}
	return nil
}

// leaveElectorate has this node voted out. gone receives "" as soon as this node is no voter, or
// else the reason why the node stays a voter.
func (l *loop) leaveElectorate(now vote.Now, gone chan<- string) {
	l.node.LeaveElectorate(now)
	if st, _ := l.node.ElectorateStatus(now); !st.IsVoter() {
		gone <- ""
		return
	}
	l.electorate.leaveWaiters = append(l.electorate.leaveWaiters, gone)
}

func (l *loop) answerLeave(reason string) {
	for _, gone := range l.electorate.leaveWaiters {
		gone <- reason
	}
	l.electorate.leaveWaiters = nil
}

// Refuse refuses new calls for locks from now on, and ends the waiting calls. A node that is to
// leave for good begins to give its vote up, which takes a while.
func (eng *Engine) Refuse(leaves bool) {
	eng.loop.box.post(false, func(now vote.Now) {
		eng.loop.drain(make(chan struct{}, 1))
		if leaves && eng.dynamic && !eng.cfg.FromFixed {
			eng.loop.node.LeaveElectorate(now)
		}
	})
}

// Leave releases every lease, has a voter voted out, and says goodbye to the other nodes. The error
// says what is unconfirmed. The caller then calls Close.
func (eng *Engine) Leave(ctx context.Context) error {
	err := eng.releaseAll(ctx, "leave")
	err = errors.Join(err, eng.LeaveElectorate(ctx))
	select {
	case <-eng.loop.done: // closed meanwhile: no goodbye can be sent
		return err
	default:
	}
	eng.retire(ctx)
	eng.inOrder.Store(true)
	goodbye, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(eng.ctx, func() { cancel(errs.Closed) })()
	if leaveErr := eng.group.Leave(goodbye); leaveErr != nil {
		err = errors.Join(err, eng.fail(errs.Failure{Op: "leave", Err: leaveErr}))
	}
	return err
}

// Stop releases every lease and tells the nodes kept apart from this one that its votes no longer
// count. This node keeps its seat. The caller then calls Close.
func (eng *Engine) Stop(ctx context.Context) error {
	err := eng.releaseAll(ctx, "stop")
	select {
	case <-eng.loop.done: // closed meanwhile
	default:
		eng.retire(ctx)
		eng.inOrder.Store(true)
	}
	return err
}

// Drain refuses new calls for locks from now on, and waits until no lease is held.
//
// A process of a mesh that is born by count doesn't come back, so it begins to give its vote up.
// Until it has ended, the other processes know that it is about to end, and none is settled: an
// orchestrator would otherwise end one more process while this one still runs.
func (eng *Engine) Drain(ctx context.Context) error {
	done := make(chan struct{}, 1)
	eng.loop.box.post(false, func(now vote.Now) {
		eng.loop.drain(done)
		if eng.IsBornByCount() {
			eng.loop.node.LeaveElectorate(now)
		}
	})
	select {
	case <-done:
		return nil
	case <-eng.loop.done:
		return eng.fail(errs.Failure{Op: "drain", Reason: errs.Closed})
	case <-ctx.Done():
	}
	state, answered := eng.Snapshot()
	if answered && len(state.Held)+state.Releasing == 0 {
		return nil // the context ended before the loop could answer
	}
	if len(state.Held) == 0 {
		return eng.unanswered("drain", "", "not all leases are confirmed to be released", errs.OfContext(ctx))
	}
	text := fmt.Sprintf("%d leases are still held", len(state.Held))
	if len(state.Held) == 1 {
		text = fmt.Sprintf("the lease of %q is still held", state.Held[0].key)
	}
	return eng.fail(errs.Failure{Op: "drain", Reason: errs.Held, Text: text, Err: errs.OfContext(ctx)})
}

// releaseAll releases all leases and waits for the voters' confirmations.
func (eng *Engine) releaseAll(ctx context.Context, op string) error {
	freed, gone := make(chan struct{}), make(chan error, 1)
	eng.loop.box.post(false, func(vote.Now) { eng.loop.releaseAll(op, freed, gone) })
	select {
	case err := <-gone:
		return err
	case <-eng.loop.done:
		return nil
	case <-ctx.Done():
		// The voters are told of all leases in any case, which takes this node's time only.
		select {
		case <-freed:
		case <-eng.loop.done:
		}
		return eng.unanswered(op, "", "not all leases are confirmed to be released", errs.OfContext(ctx))
	}
}

// retire makes the voter's votes stop counting, and tells excluded nodes so, which may be waiting
// for this.
func (eng *Engine) retire(ctx context.Context) {
	done := make(chan struct{}, 1)
	if !eng.loop.box.post(false, func(now vote.Now) {
		eng.loop.node.Retire(now)
		eng.accounts.update(now, eng.loop.node)
		done <- struct{}{}
	}) {
		return
	}
	select {
	case <-done:
		eng.finder.SayGoodbye(ctx)
	case <-eng.loop.done:
	}
}
