// Package certmagiclock gives any storage of certmagic locks from a mesh: certmagic keeps its certificates where it kept them, and the
// processes that share them agree over the mesh who obtains or renews one.
//
//	certmagic.Default.Storage = certmagiclock.Wrap(certmagic.Default.Storage, mesh)
//
// A wrapped storage has certmagic's Locker, TryLocker and LockLeaseRenewer, whatever the storage itself has.
package certmagiclock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/certmagic"

	"github.com/lockmesh/lockmesh"
)

// ErrNotLocked : the lock to be unlocked or renewed isn't held by this storage.
var ErrNotLocked = errors.New("certmagiclock: not locked")

// Storage is a storage with the locks of a mesh. The embedded one stores; its own locks aren't used.
//
// Like certmagic's others it knows a lock by its name alone, so within a process a name belongs to whoever locked it until Unlock, even if
// the lease is lost in between.
type Storage struct {
	certmagic.Storage

	mesh   *lockmesh.Mesh
	prefix string
	lost   func(name string, err error)

	mu    sync.Mutex
	holds map[string]*hold // by name
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
	_ fmt.Stringer               = (*Storage)(nil)
)

// hold is one name that somebody in this process has locked or waits for.
type hold struct {
	turn  chan struct{} // full while somebody has the name, or asks the mesh for it
	users int           // how many have it, ask or wait; the storage's mutex guards it, and all below

	lease *lockmesh.Lease // nil unless it is locked
	stop  func() bool     // unhooks the call of lost
}

// Option changes a [Storage].
type Option func(*Storage)

// WithPrefix puts a prefix before certmagic's names of locks, to make keys of the mesh. Default: "certmagic/". It must be the same on
// all nodes that share a storage, and another for another storage.
func WithPrefix(prefix string) Option { return func(s *Storage) { s.prefix = prefix } }

// WithLost calls f when a lease is lost between Lock and Unlock, with certmagic's name of the lock and an error that is
// [lockmesh.ErrLost]. From then on another process may do the same work. f is called on a goroutine of its own.
func WithLost(f func(name string, err error)) Option { return func(s *Storage) { s.lost = f } }

// Wrap returns the storage with locks of the mesh. All processes that share the storage must wrap it, since its own locks and these
// don't know each other. The mesh stays the caller's, who closes it when certmagic has come to an end.
func Wrap(storage certmagic.Storage, mesh *lockmesh.Mesh, opts ...Option) *Storage {
	s := &Storage{Storage: storage, mesh: mesh, prefix: "certmagic/", holds: map[string]*hold{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// String names the node and the storage, for certmagic's log.
func (s *Storage) String() string {
	return fmt.Sprintf("lockmesh(%s) over %v", s.mesh.Name(), s.Storage)
}

// Lock waits until the lock is held, or ctx ends. The lease renews itself until Unlock. Errors are those of [lockmesh.Mesh.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error {
	h := s.use(name)
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		s.leave(name, h)
		return fmt.Errorf("certmagiclock: %q is locked within this process: %w", name, errors.Join(lockmesh.ErrHeld, ctx.Err()))
	}
	lease, err := s.mesh.Lock(ctx, s.key(name))
	return s.settle(name, h, lease, err)
}

// TryLock locks if nobody has the lock, and doesn't wait behind others. It returns false without an error when somebody has it; an
// error, such as [lockmesh.ErrNoQuorum], says that nobody can know.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	h := s.use(name)
	select {
	case h.turn <- struct{}{}:
	default:
		s.leave(name, h)
		return false, nil
	}
	lease, err := s.mesh.TryLock(ctx, s.key(name))
	if err := s.settle(name, h, lease, err); err != nil {
		if errors.Is(err, lockmesh.ErrHeld) && ctx.Err() == nil {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// Unlock gives the lock back. It waits for the voters for a TTL at most, whatever becomes of ctx. The lock is given up in any case; the
// error is [lockmesh.ErrLost] when the lease ended before, so that another may have done the same work, and otherwise that of
// [lockmesh.Lease.Unlock]. certmagic logs it.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	h := s.holds[name]
	if h == nil || h.lease == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	lease, stop := h.lease, h.stop
	h.lease, h.stop = nil, nil
	s.mu.Unlock()
	stop()
	err := lease.Unlock(context.WithoutCancel(ctx))
	<-h.turn
	s.leave(name, h)
	if err != nil {
		return fmt.Errorf("certmagiclock: %w", err)
	}
	return nil
}

// RenewLockLease makes sure that the lock is still held; certmagic calls it before each attempt. There is nothing to do for a lease that
// is held, since it renews itself, so the duration doesn't matter.
//
// A lease that was lost is replaced if the lock is free: certmagic looks at the storage anew after this call, so that its attempt is
// as good as one that has just locked. Otherwise the error is [lockmesh.ErrLost] and what stands in the way,
// [lockmesh.ErrHeld] or [lockmesh.ErrNoQuorum]. certmagic then gives the attempt up, and comes back for the next.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	h := s.holds[name]
	if h == nil || h.lease == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	lease := h.lease
	s.mu.Unlock()
	lost := lease.Err()
	if lost == nil {
		return nil
	}
	again, err := s.mesh.TryLock(ctx, s.key(name))
	if err != nil {
		return fmt.Errorf("certmagiclock: %w, and the lock can't be had again: %w", lost, err)
	}
	s.mu.Lock()
	if h.lease == lease { // else it was unlocked meanwhile
		h.lease, h.stop = again, s.watch(name, again)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return errors.Join(fmt.Errorf("%w: %q was unlocked while it was renewed", ErrNotLocked, name), again.Unlock(context.WithoutCancel(ctx)))
}

// use returns what this process knows of a name, and counts the caller in.
func (s *Storage) use(name string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[name]
	if h == nil {
		h = &hold{turn: make(chan struct{}, 1)}
		s.holds[name] = h
	}
	h.users++
	return h
}

// leave counts a caller out. Names come and go, so the last one takes the entry away.
func (s *Storage) leave(name string, h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(s.holds, name)
	}
}

// settle keeps the lease of a caller whose turn it is, or ends the turn.
func (s *Storage) settle(name string, h *hold, lease *lockmesh.Lease, err error) error {
	if err != nil {
		<-h.turn
		s.leave(name, h)
		return fmt.Errorf("certmagiclock: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.lease, h.stop = lease, s.watch(name, lease)
	return nil
}

func (s *Storage) watch(name string, lease *lockmesh.Lease) func() bool {
	if s.lost == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(lease.Context(), func() {
		if err := lease.Err(); errors.Is(err, lockmesh.ErrLost) {
			s.lost(name, err)
		}
	})
}

// key is the key of the mesh for a name. certmagic makes names from what clients ask for, so they may be anything: what can't be a key
// is replaced by its hash.
func (s *Storage) key(name string) string {
	key := s.prefix + name
	if len(key) <= lockmesh.MaxKeyLen && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl) {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return s.prefix + "sha256:" + hex.EncodeToString(sum[:])
}
