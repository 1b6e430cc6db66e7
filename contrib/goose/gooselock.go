// Package gooselock lets goose take its migration lock from a mesh, so that of all the processes that start with the same migrations
// one applies them while the others wait. It works with every database that goose knows, those without locks of their own included.
//
//	locker := gooselock.New(mesh, "orders/migrations")
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
//	ctx, done := gooselock.Guard(ctx)
//	defer done()
//	results, err := provider.Up(ctx)
//
// goose doesn't ask whether it still has its lock. [Guard] gives it a context that ends when the lease is lost, and [Locker.Unlock]
// tells it afterwards.
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

// ErrNotLocked : Unlock was called on a Locker that isn't locked.
var ErrNotLocked = errors.New("gooselock: not locked")

// Locker is a [lock.Locker] over one key of a mesh. It never touches the database. It may be shared by providers and goroutines: one
// of them has it from Lock to Unlock, even if the lease is lost in between, so that Unlock always ends the lease that belongs to it.
type Locker struct {
	mesh *lockmesh.Mesh
	key  string
	turn chan struct{} // full from Lock to Unlock

	mu    sync.Mutex
	lease *lockmesh.Lease // nil while it isn't locked
	stop  func() bool     // unhooks the guard
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker for the key, which names the database that is migrated: the same on all nodes, another for another database.
// The mesh stays the caller's, who closes it after the last migration has ended.
func New(mesh *lockmesh.Mesh, key string) *Locker {
	return &Locker{mesh: mesh, key: key, turn: make(chan struct{}, 1)}
}

// Lock waits until this node holds the key, or ctx ends. With a context of [Guard], that one ends when the lease is lost.
//
// The errors are those of [lockmesh.Mesh.Lock]. It waits as long as ctx lets it: bound ctx where a program shouldn't wait for ever
// for a mesh without a majority.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("gooselock: %q is held by another user of this Locker: %w", l.key, errors.Join(lockmesh.ErrHeld, ctx.Err()))
	}
	lease, err := l.mesh.Lock(ctx, l.key)
	if err != nil {
		<-l.turn
		return fmt.Errorf("gooselock: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.stop = lease, watch(ctx, lease)
	return nil
}

// Unlock gives the key back. goose adds its error to that of the migrations: [lockmesh.ErrLost] says that the lease ended while they
// ran, so another node may have migrated at the same time; look at the versions. [lockmesh.ErrNoQuorum] says that the release is
// unconfirmed, which only delays the next one, by a TTL at most.
//
// It waits for the voters whatever becomes of ctx, but no longer than a TTL.
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
	<-l.turn
	if err != nil {
		return fmt.Errorf("gooselock: %w", err)
	}
	return nil
}

type guardKey struct{}

// Guard returns a context for a call of goose, which ends when the lease that the call took is lost. Its cause is then
// [lockmesh.ErrLost]. Migrations in a transaction are rolled back by that; others stop at their next use of the context. Call the
// function when goose has returned.
func Guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, guardKey{}, cancel), func() { cancel(nil) }
}

// watch ends the guard that ctx comes from when the lease is lost. The function that it returns ends the watch.
func watch(ctx context.Context, lease *lockmesh.Lease) func() bool {
	cancel, ok := ctx.Value(guardKey{}).(context.CancelCauseFunc)
	if !ok {
		return func() bool { return true }
	}
	return context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })
}
