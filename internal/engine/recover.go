package engine

import (
	"context"
	"errors"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Recover makes the named nodes the voters of a lost electorate, and returns once the new
// electorate is in this node's state directory.
func (eng *Engine) Recover(ctx context.Context, names []vote.NodeID) error {
	fail := func(reason error, text string, err error) error {
		return eng.fail(errs.Failure{Op: "recover", Reason: reason, Text: text, Err: err})
	}
	done := make(chan error, 1)
	if err := eng.loop.box.putCall(func(now vote.Now) { eng.loop.recoverElectorate(now, names, done) }); err != nil {
		return fail(err, "", nil)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fail(nil, "the new electorate isn't known to be saved in the state directory yet",
			errs.OfContext(ctx))
	case <-eng.loop.done:
	}
	select {
	case err := <-done:
		return err
	default:
		return fail(errs.Closed, "", nil)
	}
}

func (l *loop) recoverElectorate(now vote.Now, names []vote.NodeID, done chan<- error) {
	err := l.node.Recover(now, names)
	switch {
	case errors.Is(err, electorate.ErrNotLost):
		done <- l.fail(errs.Failure{Op: "recover", Reason: errs.NotLost})
		return
	case err != nil:
		done <- l.fail(errs.Failure{Op: "recover", Reason: errs.Config, Text: err.Error()})
		return
	}
	st, _ := l.node.ElectorateStatus(now)
	l.log.Warn("the electorate is recovered: an operator has named new voters",
		"version", st.Electorate.Version, "voters", ElectorNames(st.Electorate.Voters))
	l.electorate.recoveries = append(l.electorate.recoveries, recovery{st.Electorate.Version, done})
}

// recovery is a call of Recover waiting for its version to be stored in the directory.
type recovery struct {
	version uint64
	done    chan<- error // has room
}
