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

// registerGrace is how long the end of the node waits for a call under way, which the end of the
// node cancels.
const registerGrace = time.Second

// callRegister makes the node's register calls, one at a time, until the node stops.
func (eng *Engine) callRegister() {
	r := registrar{register: eng.cfg.Register}
	failing := make(map[bool]bool) // the last call that stores, and the last that doesn't
	user := ""                     // the other mesh that has the register; empty if none has
	for {
		select {
		case call := <-eng.registerCalls:
			result, answered := eng.askRegister(&r, &call)
			if !answered {
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
			if !call.Store && result.Failed == "" {
				was := user
				if user = ""; !result.Record.IsOf(eng.cfg.Mesh) {
					user = result.Record.Mesh
				}
				if user != "" && user != was {
					eng.log.Warn("the register is in use by another mesh; give each mesh a register of its own", "mesh", eng.cfg.Mesh, "user", user)
				}
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

// askRegister makes a call in a goroutine, since the register may ignore its context. The result is
// false at the end of the node; then a call that ignores its context, and its goroutine, end late,
// and no other call follows.
func (eng *Engine) askRegister(r *registrar, call *vote.RegisterCall) (result vote.RegisterResult, answered bool) {
	results := make(chan vote.RegisterResult, 1)
	go func() {
		ctx, cancel := context.WithTimeout(eng.ctx, min(registerTimeout, call.Term/registerTries))
		defer cancel()
		results <- r.do(ctx, call)
	}()
	select {
	case result = <-results:
		return result, eng.ctx.Err() == nil
	case <-eng.ctx.Done():
	}
	select {
	case <-results:
	case <-time.After(registerGrace):
		eng.log.Warn("the register has not returned although its context has ended; the node ends, and a goroutine stays until the register returns")
	}
	return result, false
}

// refusedAsChanged is how many stores in a row may be refused as changed while loads show the same
// version. A replica that is behind for a moment shows the same version once or twice.
const refusedAsChanged = 3

// registrar makes the calls of one process, and remembers the version of the record that it has
// seen last.
type registrar struct {
	register register.Register
	version  string
	record   vote.RegisterRecord // of that version
	seen     bool
	heeds    bool   // the register was seen to refuse a store on condition of an old version
	refused  string // the version for which the last store was refused as changed
	refusals int    // how many stores in a row were refused so for this version
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
	data := record.Encode(&call.New)
	switch err := r.register.Store(ctx, data, r.version); {
	case err == nil:
		r.refusals = 0
		return vote.RegisterResult{Failed: r.probe(ctx, data)}
	case !errors.Is(err, register.ErrChanged):
		return vote.RegisterResult{Failed: errs.Text(err)}
	}
	if r.refusals == 0 || r.refused != r.version {
		r.refused, r.refusals = r.version, 0
	}
	if r.refusals++; r.refusals >= refusedAsChanged {
		return vote.RegisterResult{Failed: "each write is refused since the record has changed, and each read shows the same record: " +
			"a replica or a cache answers the reads, or a proxy changes versions (ETags); have reads and writes go to the storage itself"}
	}
	return vote.RegisterResult{Changed: true}
}

// probe repeats this process's first store, on condition of the version from before, which the
// register must refuse. Some storages take a condition and ignore it: there, two meshes
// would each find itself in the record, and act. The content is the same, so a write does no harm.
// The result says what is wrong; empty if nothing is.
func (r *registrar) probe(ctx context.Context, data []byte) (failed string) {
	if r.heeds {
		return ""
	}
	switch err := r.register.Store(ctx, data, r.version); {
	case err == nil:
		return "the storage replaces a record that has changed since it was read: the storage ignores the conditions of writes " +
			"(If-Match, If-None-Match or resourceVersion), or something in front of it does; use another storage"
	case errors.Is(err, register.ErrChanged):
		r.heeds = true
		return ""
	default:
		return errs.Text(err)
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
