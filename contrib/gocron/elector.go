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

// ErrNotLeader is returned when another process leads, or none.
var ErrNotLeader = errors.New("gocronlock: this process is not the leader")

// retryAfter is how long an elector pauses after an error that further waiting in the queue can't
// cure, so that the elector doesn't retry in a tight loop.
const retryAfter = time.Second

// Elector is a [gocron.Elector]: it campaigns until closed, and leads while it holds its key.
// Several schedulers of a process may share an Elector.
type Elector struct {
	mesh *lockmesh.Mesh
	key  string
	stop context.CancelFunc
	done chan struct{} // closed when the elector has stopped campaigning

	mu      sync.Mutex
	lease   *lockmesh.Lease // the latest; nil before the first
	waitErr error           // why the elector isn't queued right now; nil while queued

	closing  sync.Once
	closeErr error
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that campaigns for the leadership named by key, the same on all
// nodes. The caller keeps the ownership of the mesh. Close the Elector before the mesh leaves.
// NewElector panics if the mesh is nil.
func NewElector(mesh *lockmesh.Mesh, key string) *Elector {
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, and says what is wrong
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{mesh: mesh, key: key, stop: cancel, done: make(chan struct{})}
	go e.campaign(ctx)
	return e
}

// IsLeader returns nil while this process leads. It sends no request, but reads the clock: as soon
// as the lease is lost, IsLeader returns an error, even if the process was stopped meanwhile. The
// error is [ErrNotLeader], with a more specific error if there is any: [lockmesh.ErrLost] from the
// loss until the next election, and [lockmesh.ErrClosed], [lockmesh.ErrRefused] or
// [lockmesh.ErrKey] if the process can't be elected.
func (e *Elector) IsLeader(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gocronlock: %w", ctx.Err())
	}
	e.mu.Lock()
	lease, why := e.lease, e.waitErr
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

// Lease returns the lease of this process's leadership, or nil if another process leads, or none. A
// job passes the lease's token along with its writes.
func (e *Elector) Lease() *lockmesh.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease != nil && e.lease.Err() == nil {
		return e.lease
	}
	return nil
}

// Guard returns a context for the run of a job. The context ends when ctx ends or when the
// leadership is lost, in the latter case with the cause [lockmesh.ErrLost]. Call the returned
// function when the run is over. If this process doesn't lead, the context has already ended, with
// [ErrNotLeader].
func (e *Elector) Guard(ctx context.Context) (context.Context, context.CancelFunc) {
	if lease := e.Lease(); lease != nil {
		return guard(ctx, lease)
	}
	return ended(ctx, ErrNotLeader)
}

// Close resigns, so that another process leads at once, and ends the Elector. Shut the scheduler
// down first, since Close doesn't stop running jobs. If this process led, the error is the error of
// [lockmesh.Lease.Unlock]; the leadership ends in any case. Further calls return the same error.
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

// campaign waits for the key, holds the key until the lease is lost, and waits again.
func (e *Elector) campaign(ctx context.Context) {
	defer close(e.done)
	for {
		lease, err := e.mesh.Lock(ctx, e.key)
		if ctx.Err() != nil && err != nil {
			e.setError(lockmesh.ErrReleased)
			return
		}
		if err == nil {
			e.setLease(lease)
			select {
			case <-lease.Done():
			case <-ctx.Done():
				return // Close unlocks
			}
			continue
		}
		e.setError(err)
		if errors.Is(err, lockmesh.ErrClosed) || errors.Is(err, lockmesh.ErrKey) {
			return // a permanent error
		}
		rest := time.NewTimer(retryAfter)
		select {
		case <-rest.C:
			e.setError(nil)
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

func (e *Elector) setLease(lease *lockmesh.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.waitErr = lease, nil
}

func (e *Elector) setError(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waitErr = why
}
