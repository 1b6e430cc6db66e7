package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockmesh/lockmesh"
)

// logged logs an acting request before its execution, so the log has requests to end the process,
// too.
func (x *exchange) logged(attrs ...any) {
	attrs = append([]any{"action", x.route.path, "from", x.origin()}, attrs...)
	x.h.log.Info("admin: a request acts", attrs...)
}

// origin describes for the log where a request comes from.
func (x *exchange) origin() string {
	if x.isOwnerOnly() {
		return "the owner's socket"
	}
	return x.r.RemoteAddr
}

func (x *exchange) revoke() error {
	var body RevokeRequest
	if err := x.decode(&body); err != nil {
		return err
	}
	x.logged("key", x.param, "reason", body.Reason)
	if err := x.h.mesh.Revoke(x.ctx, x.param, reason(body.Reason)...); err != nil {
		return err
	}
	return x.done()
}

// reason returns the option for a reason, which may be empty.
func reason(text string) []lockmesh.Option {
	if text == "" {
		return nil
	}
	return []lockmesh.Option{lockmesh.WithReason(text)}
}

func (x *exchange) evict() error {
	var body EvictRequest
	if err := x.decode(&body); err != nil {
		return err
	}
	wait, err := x.duration("wait", evictWait, MaxWait)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.ctx, wait)
	defer cancel()
	lease, err := x.leaseToEvict(ctx, &body)
	if err != nil {
		return err
	}
	x.logged("key", x.param, "token", lease.Token, "node", lease.Node, "reason", body.Reason)
	if err := x.h.mesh.Evict(ctx, x.param, lease.Token, reason(body.Reason)...); err != nil {
		return err
	}
	return x.answer(http.StatusOK, lease)
}

// leaseToEvict finds the lease described by a request. An ended lease is no error if the request
// has the lease's token: the request is fulfilled.
func (x *exchange) leaseToEvict(ctx context.Context, want *EvictRequest) (*Evicted, error) {
	if want.Token == 0 && want.Node == "" {
		return nil, failure(ErrRequest, `the body names neither a token nor a node: {"token": 1732…}, as GET /v1/locks/{key} shows it`)
	}
	info, err := x.h.mesh.Inspect(ctx, x.param)
	if err != nil {
		return nil, err
	}
	found := &Evicted{Key: x.param, Token: want.Token}
	n := 0
	for _, h := range info.Holders {
		switch {
		case want.Token == h.Token && want.Node != "" && want.Node != h.Node:
			return nil, withStatus(http.StatusConflict, failure(ErrRequest, "the lease with token %d is of node %q, not of %q", h.Token, h.Node, want.Node))
		case want.Token == h.Token, want.Token == 0 && want.Node == h.Node:
			found.Token, found.Node = h.Token, h.Node
			n++
		}
	}
	if want.Token == 0 && n != 1 {
		text := fmt.Sprintf("node %q holds the key %d times: name the token", want.Node, n)
		if n == 0 {
			text = fmt.Sprintf("node %q doesn't hold the key", want.Node)
		}
		return nil, withStatus(http.StatusConflict, failure(ErrRequest, "%s", text))
	}
	return found, nil
}

func (x *exchange) drain() error {
	wait, err := x.duration("wait", actWait, MaxWait)
	if err != nil {
		return err
	}
	x.logged("wait", wait)
	// The drain itself goes on when the client is gone; only the wait for its end is over.
	ctx, cancel := context.WithTimeout(x.ctx, wait)
	defer cancel()
	if err := x.h.mesh.Drain(ctx); err != nil {
		return err
	}
	return x.done()
}

func (x *exchange) stop() error  { return x.end(x.h.mesh.Stop) }
func (x *exchange) leave() error { return x.end(x.h.mesh.Leave) }

// end ends the node, and goes on when the client is gone: otherwise the begun end would be left
// unconfirmed, and a voter not voted out.
//
// The end by f releases the node's leases, and end can't tell a client with a ttl of its own:
// another client would get the key while this client counts on the ttl. So f is called when no
// client has a lease any more. Holders over a connection are told. If the wait is too short, the
// node is closed: leases then end as after a crash.
func (x *exchange) end(f func(context.Context) error) error {
	ctx, cancel, err := x.patient(actWait)
	if err != nil {
		return err
	}
	defer cancel()
	x.logged()
	x.h.beginEnd()
	if err := errors.Join(x.h.leases.wait(ctx), x.h.beforeEnd(ctx)); err != nil {
		closing := x.h.mesh.Close()
		left := failure(lockmesh.ErrHeld, "clients had keys when the wait was over: the node has ended nevertheless, and has left the keys "+
			"to the ends of their times")
		return errors.Join(left, closing)
	}
	if err := f(ctx); err != nil {
		return err
	}
	return x.done()
}

// loggedName is how many bytes of a name the log has: more than any node's name.
const loggedName = 200

func (x *exchange) recoverVoters() error {
	var body RecoverRequest
	if err := x.decode(&body); err != nil {
		return err
	}
	ctx, cancel, err := x.patient(actWait)
	if err != nil {
		return err
	}
	defer cancel()
	shown := make([]string, 0, lockmesh.MaxVoters)
	for _, name := range body.Voters[:min(len(body.Voters), lockmesh.MaxVoters)] {
		shown = append(shown, cut(name, loggedName)) // Recover refuses more and longer names
	}
	x.logged("voters", shown)
	if err := x.h.mesh.Recover(ctx, body.Voters...); err != nil {
		return err
	}
	return x.done()
}
