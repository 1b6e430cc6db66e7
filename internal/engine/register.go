package engine

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/record"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

// registerTimeout is the longest time that a register call may take. A register answers within
// milliseconds; a voter has several tries in a term.
const registerTimeout = 10 * time.Second

// registerTries is how many calls without an answer fit into a term at least, so that a single call
// without an answer doesn't stop a voter.
const registerTries = 6

// callRegister makes the node's register calls, one at a time, until the node stops.
func (eng *Engine) callRegister() {
	r := registrar{register: eng.cfg.Register}
	failing := make(map[bool]bool) // the last call that stores, and the last that doesn't
	for {
		select {
		case call := <-eng.registerCalls:
			ctx, cancel := context.WithTimeout(eng.ctx, min(registerTimeout, call.Term/registerTries))
			result := r.do(ctx, &call)
			cancel()
			if eng.ctx.Err() != nil {
				return
			}
			was := failing[true] || failing[false]
			failing[call.Store] = result.Failed != ""
			switch is := failing[true] || failing[false]; {
			case is && !was:
				eng.log.Warn("the register can't be used; will retry", "error", result.Failed)
			case !is && was:
				eng.log.Info("the register can be used again")
			}
			eng.loop.box.post(true, func(now vote.Now) {
				eng.loop.node.Registered(now, result)
				eng.loop.electorate.dialsStale = true
			})
		case <-eng.ctx.Done():
			return
		}
	}
}

// registrar makes the calls of one process, and remembers the version of the record that it has
// seen last.
type registrar struct {
	register register.Register
	version  string
	record   vote.RegisterRecord // of that version
	seen     bool
}

// do makes a call and returns its result.
func (r *registrar) do(ctx context.Context, call *vote.RegisterCall) vote.RegisterResult {
	if !call.Store || !r.seen {
		if err := r.load(ctx); err != nil {
			r.seen = false
			return vote.RegisterResult{Failed: errs.Text(err)}
		}
	}
	if !call.Store {
		return vote.RegisterResult{Record: r.record}
	}
	if r.record != call.Old {
		return vote.RegisterResult{Changed: true}
	}
	r.seen = false // the version of what is stored now is unknown
	switch err := r.register.Store(ctx, record.Encode(&call.New), r.version); {
	case err == nil:
		return vote.RegisterResult{}
	case errors.Is(err, register.ErrChanged):
		return vote.RegisterResult{Changed: true}
	default:
		return vote.RegisterResult{Failed: errs.Text(err)}
	}
}

func (r *registrar) load(ctx context.Context) error {
	data, version, err := r.register.Load(ctx)
	if err != nil {
		return err
	}
	if r.record, err = record.Decode(data); err != nil {
		return err
	}
	r.version, r.seen = version, true
	return nil
}
