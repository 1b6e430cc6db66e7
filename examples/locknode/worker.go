package main

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh"
)

// work takes the lock of -lock -count times, then ends the program.
func (n *node) work(ctx context.Context) {
	book, err := openLedger(n.opts.ledger, n.mesh.Name())
	if err != nil {
		n.out.fail("ledger", "", err)
		n.end(errStuck)
		return
	}
	defer book.close()
	for i := 0; n.opts.count == 0 || i < n.opts.count; i++ {
		l, err := n.take(ctx, n.opts.lock, n.opts.try)
		switch {
		case err == nil:
			n.holdOnce(ctx, l, book)
			n.release(l)
		case errors.Is(err, lockmesh.ErrRefused):
			// The error says what to fix. An operator may do so at the other nodes in turn, while
			// this node waits.
			if !sleep(ctx, refusedPause) {
				return
			}
		}
		if !sleep(ctx, n.opts.pause) {
			return
		}
	}
	n.end(errDone)
}

// refusedPause is how long the worker waits after a refusal.
const refusedPause = time.Second

// step is how long the protected work goes on between two checks of the lease.
const step = 20 * time.Millisecond

// holdOnce stands for the work protected by the lock. It checks the lease before each write, and
// stops when the lease is lost or the program ends.
func (n *node) holdOnce(ctx context.Context, l *lockmesh.Lease, book *ledger) {
	if !n.write(l, book, "begin") {
		return
	}
	if n.opts.trace {
		n.out.lease("working", l)
	}
	for end := time.Now().Add(n.opts.hold); ; {
		d := time.Until(end)
		if d <= 0 || !sleep(ctx, min(d, step)) || !n.write(l, book, "work") {
			break
		}
	}
	n.write(l, book, "end")
}

// write writes a line to the ledger if the lease is still held.
func (n *node) write(l *lockmesh.Lease, book *ledger, word string) bool {
	if l.Err() != nil {
		return false // watch has reported why
	}
	if err := book.write(word, l); err != nil {
		n.out.fail("ledger", l.Key(), err)
		n.end(errStuck)
		return false
	}
	return true
}

// sleep waits, and reports whether the context is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
