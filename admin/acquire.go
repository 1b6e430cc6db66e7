package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh"
)

// acquire takes the lock described by the query; the lease lasts as opts say.
func (x *exchange) acquire(opts ...lockmesh.Option) (*lockmesh.Lease, error) {
	more, err := x.lockOptions()
	if err != nil {
		return nil, err
	}
	take, err := x.lockMode()
	if err != nil {
		return nil, err
	}
	lease, err := take(x.ctx, append(opts, more...)...)
	if errors.Is(err, lockmesh.ErrHeld) {
		if lock := x.h.looks.at(x.ctx, x.param, x.h.mesh.Inspect); lock != nil {
			err = &heldBy{err, lock}
		}
	}
	return lease, err
}

// summaryMost is how many holders and how many waiters the answer to a refused request names.
const summaryMost = 16

// summaryOf returns the state of a key for the answer to a refused request. The answer is short
// however crowded the key is: many clients may try again and again, or read slowly.
func summaryOf(i *lockmesh.Info) *Lock {
	holders, waiters := len(i.Holders), len(i.Waiters)
	i.Holders, i.Waiters = i.Holders[:min(holders, summaryMost)], i.Waiters[:min(waiters, summaryMost)]
	lock := lockOf(i)
	lock.MoreHolders, lock.MoreWaiters = holders-len(i.Holders), waiters-len(i.Waiters)
	left := lockmesh.MaxValueLen
	for n := range lock.Holders {
		if left -= len(lock.Holders[n].Value); left < 0 {
			lock.Holders[n].Value = nil
		}
	}
	for n := range lock.Waiters {
		lock.Waiters[n].Value = nil
	}
	return &lock
}

// lockMode returns the call for the lock mode of the query.
func (x *exchange) lockMode() (func(context.Context, ...lockmesh.Option) (*lockmesh.Lease, error), error) {
	permits, err := x.number("permits", lockmesh.MaxPermits)
	if err != nil {
		return nil, err
	}
	mode := x.query.Get("mode")
	if mode == "" && permits > 0 {
		mode = lockmesh.ModePermit.String()
	}
	key, mesh := x.param, x.h.mesh
	switch {
	case mode == lockmesh.ModePermit.String() && permits > 0:
		return mesh.Semaphore(key, permits).Acquire, nil
	case mode == lockmesh.ModePermit.String():
		return nil, failure(ErrRequest, "mode=permit needs permits, the number on which all users of the key agree")
	case permits > 0:
		return nil, failure(ErrRequest, "permits=%d can't be combined with mode=%s; leave one of the two out", permits, mode)
	case mode == "" || mode == lockmesh.ModeExclusive.String():
		return func(ctx context.Context, opts ...lockmesh.Option) (*lockmesh.Lease, error) {
			return mesh.Lock(ctx, key, opts...)
		}, nil
	case mode == lockmesh.ModeShared.String():
		return func(ctx context.Context, opts ...lockmesh.Option) (*lockmesh.Lease, error) {
			return mesh.RLock(ctx, key, opts...)
		}, nil
	}
	return nil, failure(ErrRequest, "mode=%q: one of exclusive, shared and permit is needed", mode)
}

// lockOptions returns the options of the query, but for the length of the lease. A request waits no
// longer than the query says; without a wait in the query, the request doesn't wait.
func (x *exchange) lockOptions() ([]lockmesh.Option, error) {
	wait, err := x.duration("wait", 0, MaxWait)
	if err != nil {
		return nil, err
	}
	opts := []lockmesh.Option{lockmesh.WithWait(wait)}
	for _, p := range []struct {
		name   string
		option func(time.Duration) lockmesh.Option
	}{{"min_hold", lockmesh.WithMinHold}, {"delay", lockmesh.WithDelay}} {
		d, err := x.duration(p.name, 0, lockmesh.LongestTTL)
		if err != nil {
			return nil, err
		}
		if d > 0 {
			opts = append(opts, p.option(d))
		}
	}
	value := []byte(x.query.Get("value"))
	if x.query.Has("value_base64") {
		if x.query.Has("value") {
			return nil, failure(ErrRequest, "the query has both value and value_base64; leave one of the two out")
		}
		if value, err = base64.URLEncoding.DecodeString(x.query.Get("value_base64")); err != nil {
			return nil, failure(ErrRequest, "value_base64 can't be read: %v; use the URL's alphabet (- and _), with padding", err)
		}
	}
	if len(value) > 0 {
		opts = append(opts, lockmesh.WithValue(value))
	}
	if x.query.Has("revoke") {
		opts = append(append(opts, lockmesh.WithRevoke()), reason(x.query.Get("revoke"))...)
	}
	return opts, nil
}
