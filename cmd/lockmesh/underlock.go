package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
)

// guarded is a command to be run while keys are held.
type guarded struct {
	*lockFlags
	*jobFlags
	keys    []string
	args    []string
	signals <-chan os.Signal
}

// underLock takes the keys of a command, runs the command, and releases the keys. underLock returns
// the signal by which the user has ended the wait or the command, if any.
func (g *globals) underLock(ctx context.Context, l *link, c *guarded) (told syscall.Signal, err error) {
	h := &holder{lockFlags: c.lockFlags, link: l, name: c.args[0]}
	waiting, stop := untilSignal(ctx, c.signals)
	if err = h.checkGrace(waiting, c.Grace); err == nil {
		err = h.take(waiting, c.keys)
	}
	stop()
	if sig := signalOf(waiting); sig != 0 { // perhaps at the moment of the grant
		return sig, errors.Join(causeOf(waiting, err), h.release())
	}
	if err != nil {
		return 0, err
	}
	grace, err := newGrace(c.Grace, h.length)
	if err != nil {
		return 0, errors.Join(err, h.release())
	}
	s := &supervisor{holder: h, grace: grace, follow: !c.Alone, yield: c.Yield, signals: c.signals}
	result := s.run(c.args)
	switch err := h.release(); {
	case err == nil || s.loss != nil:
	case errors.Is(err, lockmesh.ErrLost):
		return s.endedBy(), &exit{code: exitLost, err: fmt.Errorf("the command has ended, and the lock was lost before its release: %w", err)}
	default:
		_, _ = fmt.Fprintf(g.err, "lockmesh: the release isn't confirmed, and others may have to wait for the end of the lease: %s\n", describe(err))
	}
	return s.endedBy(), result
}

// checkGrace returns an error about a --grace too long for the leases to be taken: before the wait
// for the first lease, which may take hours. If the node doesn't tell the length of its leases, the
// grants tell.
func (h *holder) checkGrace(ctx context.Context, asked time.Duration) error {
	if asked == 0 {
		return nil
	}
	length := h.TTL
	if length == 0 {
		var err error
		if length, err = h.ownTTL(ctx); err != nil || length == 0 {
			return err
		}
	}
	_, err := newGrace(asked, length)
	return err
}

// ownTTL returns the length of the node's own leases; zero if the node doesn't tell. A request for
// a lock shows then what is wrong with the node.
func (h *holder) ownTTL(ctx context.Context) (time.Duration, error) {
	c, err := h.link.client(nil)
	if err != nil {
		return 0, err
	}
	defer h.link.drop(c)
	ctx, cancel := context.WithTimeout(ctx, h.link.g.Timeout)
	defer cancel()
	if s, err := c.Status(ctx); err == nil {
		return milliseconds(s.TTLMS), nil
	}
	return 0, nil
}
