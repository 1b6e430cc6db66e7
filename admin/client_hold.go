package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Hold is a lock that is held as long as a connection lives, made by [Client.Hold]. Call Release
// when the work is done. The methods may be called from any goroutine.
type Hold struct {
	client  *Client
	cancel  context.CancelFunc // ends the connection
	revoked chan Revocation
	done    chan struct{}
	gone    chan struct{} // closed when the reader has ended

	mu       sync.Mutex
	last     HoldLine
	deadline time.Time // of the lease, by this process's monotonic clock, unless a line comes
	timer    *time.Timer
	err      error
}

// maxRevocations is how many unread revocations wait, as many as [lockmesh.Lease.Revoked] has.
const maxRevocations = 8

// Hold takes a lock and holds the lock until [Hold.Release], or until the connection or the lease
// ends. The node renews the lease. ctx bounds the wait for the lock only. The errors are as for
// [Client.Lock].
func (c *Client) Hold(ctx context.Context, key string, o LockOptions) (*Hold, error) {
	conn, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	h, err := c.hold(conn, func() { cancel(nil) }, key, o)
	if !stop() { // ctx has ended, perhaps at the moment of the grant
		if err == nil {
			_ = h.Release() // the connection is cut already
		}
		err = fmt.Errorf("admin: hold %q: %w", key, context.Cause(ctx))
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return h, nil
}

func (c *Client) hold(ctx context.Context, cancel func(), key string, o LockOptions) (*Hold, error) {
	answer, err := c.send(ctx, http.MethodPut, keyPath("/v1/hold/", key, ""), o.query(), nil)
	if err != nil {
		return nil, err
	}
	lines := newLines(answer.Body)
	first, err := readLine(lines)
	switch {
	case err != nil:
		err = &unanswered{"the answer broke off", err}
	case first.Failure != nil:
		err = first.Failure
	}
	if err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("admin: hold %q: %w", key, err)
	}
	h := &Hold{
		client: c, cancel: cancel, revoked: make(chan Revocation, maxRevocations),
		done: make(chan struct{}), gone: make(chan struct{}),
	}
	h.mu.Lock() // the timer's first call waits until there is a deadline
	h.timer = time.AfterFunc(time.Duration(first.LeftMS)*time.Millisecond, h.check)
	h.note(first)
	h.mu.Unlock()
	go h.read(answer.Body, lines)
	return h, nil
}

func readLine(lines *bufio.Scanner) (*HoldLine, error) {
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return nil, err
		}
		return nil, errEndless
	}
	line := new(HoldLine)
	return line, json.Unmarshal(lines.Bytes(), line)
}

// read reads lines until the connection ends. The Hold owns the goroutine; Release ends the
// goroutine.
func (h *Hold) read(body io.Closer, lines *bufio.Scanner) {
	defer close(h.gone)
	defer body.Close()
	for {
		line, err := readLine(lines)
		if err != nil {
			_ = h.end(fmt.Errorf("%w: the connection to the node ended: %w", lockmesh.ErrLost, err))
			return
		}
		if line.Event == "end" {
			err := lockmesh.ErrLost
			if line.Failure != nil {
				err = fmt.Errorf("%w: %w", err, line.Failure)
			}
			h.lose(err, lines)
			return
		}
		if line.Revocation != nil {
			select {
			case h.revoked <- *line.Revocation:
			default: // enough wait unread
			}
		}
		if late := h.overdue(); late != nil {
			_ = h.end(late) // the line waited while this process stood still, or the node did
			return
		}
		h.mu.Lock()
		h.note(line)
		h.mu.Unlock()
	}
}

// lose ends the hold by a line of the node. The connection stays until [Hold.Release], until the
// deadline, or until the node closes it: a node that stops takes the open connection as a sign that
// this client still works, and keeps the lock.
func (h *Hold) lose(err error, lines *bufio.Scanner) {
	deadline := h.Deadline()
	if h.finish(err) == nil {
		limit := time.AfterFunc(time.Until(deadline), h.cancel)
		defer limit.Stop()
		for lines.Scan() { // no line follows, only the end of the connection
			continue
		}
	}
	h.cancel()
}

// note keeps a line's facts about the lease. The caller has the lock.
func (h *Hold) note(line *HoldLine) {
	if h.err != nil {
		return
	}
	left := time.Duration(line.LeftMS) * time.Millisecond
	h.last, h.deadline = *line, time.Now().Add(left)
	h.timer.Reset(left)
}

// check ends the hold if the lease's time is over.
func (h *Hold) check() { _ = h.Err() }

// end ends the hold and its connection, unless the hold has ended; then end returns why.
func (h *Hold) end(err error) error {
	if before := h.finish(err); before != nil {
		return before
	}
	h.cancel()
	return nil
}

// finish ends the hold but for its connection, unless the hold has ended; then finish returns why.
func (h *Hold) finish(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	h.err = err
	h.timer.Stop()
	close(h.done)
	return nil
}

// overdue returns an error if the lease's time is over and the hold hasn't ended.
func (h *Hold) overdue() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	late := !now.Before(h.deadline) || h.client.local && now.Round(0).After(h.last.Deadline)
	if h.err != nil || !late {
		return nil
	}
	return fmt.Errorf("%w: the node has sent no confirmation for so long that the lease may be over", lockmesh.ErrLost)
}

// Err returns nil while the lock is held, and afterwards always the reason of the end:
// [lockmesh.ErrLost], or [lockmesh.ErrReleased] after Release. Err reads the clock: if no line has
// come until the lease's deadline, the lock is lost, since the node may be gone. Over a unix socket
// the deadline is the node's. Over TCP the deadline is counted from the arrival of a line. So the
// deadline may be late by the travel time of the line, or by the line's wait while this process
// stood still; pass the token to the protected resource.
func (h *Hold) Err() error {
	if late := h.overdue(); late != nil {
		_ = h.end(late)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Done returns a channel; the channel is closed when the lock isn't held any more, and Err then
// says why.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Revoked returns a channel of requests to release the lock, see [lockmesh.Lease.Revoked]. It is
// never closed. When more than a few are unread, further ones are dropped.
func (h *Hold) Revoked() <-chan Revocation { return h.revoked }

// Token returns the fencing token: pass it to the protected resource.
func (h *Hold) Token() uint64 { return h.Last().Token }

// Last returns the newest line about the lock.
func (h *Hold) Last() HoldLine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Deadline returns when the lease ends unless a further line comes before, by this process's clock.
func (h *Hold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// Release has the node release the lock, ends the connection, and returns when both have happened:
// the next request for the key finds the key free. The error is nil if the lock was held until now,
// and otherwise how the lock was lost. An error that isn't [lockmesh.ErrLost] says that the node
// hasn't confirmed the release, since its process is gone, or until the end of the lease (but for a
// second at least, and five at most): the node releases the lock when it notices the end of the
// connection, and at the end of the lease if the process is gone. Further calls return
// [lockmesh.ErrReleased], or how the lock was lost. Call Release after a loss, too, once the work
// has ended: a node that stops keeps the lock until then, or until the deadline.
func (h *Hold) Release() error {
	err := h.Err()
	if err == nil {
		err = h.finish(fmt.Errorf("%w: by Release", lockmesh.ErrReleased))
	}
	switch {
	case err == nil:
		// At the end of the lease the key is free without a release.
		limit := min(max(time.Until(h.Deadline()), releaseLeast), releaseTime)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err = h.client.Unlock(ctx, h.Last().ID)
		cancel()
		h.cancel()
	case errors.Is(err, lockmesh.ErrLost):
		h.cancel()
	}
	<-h.gone
	return err
}
