package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmesh/lockmesh"
)

// ErrNotLeader : another process leads, or none.
var ErrNotLeader = errors.New("gocronlock: this process is not the leader")

// retryAfter is how long an elector rests after an error that doesn't go away by waiting in line, so that it doesn't ask in a circle.
const retryAfter = time.Second

// Elector is a [gocron.Elector]: it stands for election until it is closed, and leads while it holds its key. It may be used by several
// schedulers of a process.
type Elector struct {
	mesh *lockmesh.Mesh
	key  string
	stop context.CancelFunc
	done chan struct{} // closed when it doesn't stand any more

	mu    sync.Mutex
	lease *lockmesh.Lease // the latest; nil before the first
	why   error           // why it isn't standing in line right now; nil when it is

	closing  sync.Once
	closeErr error
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that stands for the leadership which key names, the same on all nodes. The mesh stays the
// caller's. Close the Elector before it leaves the mesh.
func NewElector(mesh *lockmesh.Mesh, key string) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{mesh: mesh, key: key, stop: cancel, done: make(chan struct{})}
	go e.stand(ctx)
	return e
}

// IsLeader returns nil while this process leads. It asks nobody, but reads the clock: as soon as the lease is lost it returns an error,
// even if the process was stopped meanwhile. The error is [ErrNotLeader], and tells more where there is more: [lockmesh.ErrLost]
// from the loss on until the next election, [lockmesh.ErrClosed], [lockmesh.ErrRefused] and [lockmesh.ErrKey] when it can't be elected.
func (e *Elector) IsLeader(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gocronlock: %w", ctx.Err())
	}
	e.mu.Lock()
	lease, why := e.lease, e.why
	e.mu.Unlock()
	err := ErrNotLeader
	if lease != nil {
		lost := lease.Err()
		if lost == nil {
			return nil
		}
		err = fmt.Errorf("%w: %w", err, lost)
	}
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// Lease returns the lease by which this process leads, or nil if it doesn't. A job hands its token to what it writes to.
func (e *Elector) Lease() *lockmesh.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease != nil && e.lease.Err() == nil {
		return e.lease
	}
	return nil
}

// Guard returns a context for the run of a job, which ends when ctx ends or the leadership is lost; its cause is then
// [lockmesh.ErrLost]. Call the function when the run is over. If this process doesn't lead, the context has ended, with [ErrNotLeader].
func (e *Elector) Guard(ctx context.Context) (context.Context, context.CancelFunc) {
	if lease := e.Lease(); lease != nil {
		return guard(ctx, lease)
	}
	return ended(ctx, ErrNotLeader)
}

// Close resigns, so that another process leads at once, and ends the Elector. Shut the scheduler down before, since a job that runs
// isn't stopped by it. The error is that of [lockmesh.Lease.Unlock] if this process led: it leads no more in any case. Further
// calls return the same.
func (e *Elector) Close(ctx context.Context) error {
	e.closing.Do(func() {
		e.stop()
		<-e.done // a canceled Lock returns at once
		if lease := e.Lease(); lease != nil {
			if err := lease.Unlock(ctx); err != nil {
				e.closeErr = fmt.Errorf("gocronlock: %w", err)
			}
		}
	})
	return e.closeErr
}

// stand waits for the key, holds it until it is lost, and waits again.
func (e *Elector) stand(ctx context.Context) {
	defer close(e.done)
	for {
		lease, err := e.mesh.Lock(ctx, e.key)
		if ctx.Err() != nil && err != nil {
			e.note(lockmesh.ErrReleased)
			return
		}
		if err == nil {
			e.lead(lease)
			select {
			case <-lease.Done():
			case <-ctx.Done():
				return // Close unlocks
			}
			continue
		}
		e.note(err)
		if errors.Is(err, lockmesh.ErrClosed) || errors.Is(err, lockmesh.ErrKey) {
			return // nothing mends that
		}
		rest := time.NewTimer(retryAfter)
		select {
		case <-rest.C:
			e.note(nil)
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

func (e *Elector) lead(lease *lockmesh.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.why = lease, nil
}

func (e *Elector) note(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = why
}
