package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/lockmesh/lockmesh"
)

// ErrNotLocked is returned by Unlock on a Locker that isn't locked.
var ErrNotLocked = errors.New("gooselock: not locked")

// Locker is a [lock.Locker] over a key of a mesh. It never touches the database. Providers and
// goroutines may share a Locker: a single user has the Locker from Lock to Unlock, even if the
// lease is lost in between, so Unlock always ends the lease of its own Lock.
type Locker struct {
	mesh *lockmesh.Mesh
	key  string
	sem  chan struct{} // full from Lock to Unlock

	mu    sync.Mutex
	lease *lockmesh.Lease // nil unless locked
	stop  func() bool     // unhooks the guard
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker for the key. The key names the migrated database: use the same key on all
// nodes, and different keys for different databases. The caller keeps the ownership of the mesh,
// and closes the mesh after the last migration has ended. New panics if the mesh is nil.
func New(mesh *lockmesh.Mesh, key string) *Locker {
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, and says what is wrong
	return &Locker{mesh: mesh, key: key, sem: make(chan struct{}, 1)}
}

// Lock waits until this node holds the key, or ctx ends. A context from [Guard] ends when the lease
// is lost.
//
// The errors are the errors of [lockmesh.Mesh.Lock]. Lock waits as long as ctx allows: bound ctx if
// the program shouldn't wait indefinitely for a mesh without a majority.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case l.sem <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("gooselock: %q is held by another user of this Locker: %w", l.key, errors.Join(lockmesh.ErrHeld, ctx.Err()))
	}
	lease, err := l.mesh.Lock(ctx, l.key)
	if err != nil {
		<-l.sem
		return fmt.Errorf("gooselock: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.stop = lease, watch(ctx, lease)
	return nil
}

// Unlock releases the key. goose joins its error with the migrations' errors. [lockmesh.ErrLost]
// means that the lease ended during the migrations, so another node may have migrated at the same
// time; check the versions. [lockmesh.ErrNoQuorum] means that the release is unconfirmed, which
// only delays the next holder, by a TTL at most.
//
// Unlock waits for the voters even if ctx ends, but no longer than a TTL.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	lease, stop := l.lease, l.stop
	l.lease, l.stop = nil, nil
	l.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("%w: %q", ErrNotLocked, l.key)
	}
	stop()
	err := lease.Unlock(context.WithoutCancel(ctx))
	<-l.sem
	if err != nil {
		return fmt.Errorf("gooselock: %w", err)
	}
	return nil
}

type guardKey struct{}

// Guard returns a context for a call of goose. The context ends when the lease taken by the call is
// lost, with the cause [lockmesh.ErrLost]. Migrations in a transaction are then rolled back; others
// stop at their next use of the context. Call the returned function when goose has returned.
func Guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, guardKey{}, cancel), func() { cancel(nil) }
}

// watch ends the guard of ctx when the lease is lost. The returned function ends the watch.
func watch(ctx context.Context, lease *lockmesh.Lease) func() bool {
	cancel, ok := ctx.Value(guardKey{}).(context.CancelCauseFunc)
	if !ok {
		return func() bool { return true }
	}
	return context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })
}
