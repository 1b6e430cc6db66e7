package certmagiclock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/certmagic"

	"github.com/lockmesh/lockmesh"
)

// ErrNotLocked is returned by Unlock and RenewLockLease if this storage doesn't hold the lock.
var ErrNotLocked = errors.New("certmagiclock: not locked")

// Storage is a storage with the locks of a mesh. The embedded storage stores; its own locks aren't
// used.
//
// Like certmagic's other storages, Storage knows a lock by its name alone. So within a process a
// name belongs to the caller that locked the name until Unlock, even if the lease is lost in
// between.
type Storage struct {
	certmagic.Storage

	mesh   *lockmesh.Mesh
	prefix string
	lost   func(name string, err error)

	mu      sync.Mutex
	entries map[string]*entry // by name
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
	_ fmt.Stringer               = (*Storage)(nil)
)

// entry is a name that callers in this process have locked or wait for.
type entry struct {
	sem chan struct{} // full while a caller has the name, or requests the mesh's lock
	// users counts the callers that have the name, request the lock or wait. The storage's mutex
	// guards users and all fields below.
	users int

	lease *lockmesh.Lease // nil unless locked
	stop  func() bool     // unhooks the call of lost
}

// Option changes a [Storage].
type Option func(*Storage)

// WithPrefix sets the prefix that makes keys of the mesh from certmagic's lock names. Default:
// "certmagic/". All nodes that share a storage must use the same prefix, and nodes of another
// storage another prefix.
func WithPrefix(prefix string) Option { return func(s *Storage) { s.prefix = prefix } }

// WithLost calls f when a lease is lost between Lock and Unlock, with certmagic's name of the lock
// and an error that is [lockmesh.ErrLost]. From then on another process may do the same work. f is
// called in a separate goroutine. Default, also for nil: a line at level WARN in [slog.Default].
func WithLost(f func(name string, err error)) Option {
	return func(s *Storage) {
		if f != nil {
			s.lost = f
		}
	}
}

// Wrap returns the storage with locks of the mesh. All processes that share the storage must wrap
// the storage, since the mesh's locks and the storage's own locks don't exclude each other. The
// caller keeps the ownership of the mesh, and closes the mesh when certmagic has stopped. Wrap
// panics if either is nil.
func Wrap(storage certmagic.Storage, mesh *lockmesh.Mesh, opts ...Option) *Storage {
	if storage == nil {
		panic("certmagiclock: Wrap was called with a nil storage")
	}
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, and says what is wrong
	s := &Storage{Storage: storage, mesh: mesh, prefix: "certmagic/", lost: logLost, entries: map[string]*entry{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

func logLost(name string, err error) {
	slog.Warn("certmagiclock: a lock is lost; another process may do the same work", slog.String("lock", name), slog.Any("err", err))
}

// String names the node and the storage, for certmagic's log.
func (s *Storage) String() string {
	return fmt.Sprintf("lockmesh(%s) over %v", s.mesh.Name(), s.Storage)
}

// Lock waits until the lock is held, or ctx ends. The lease renews itself until Unlock. The errors
// are the errors of [lockmesh.Mesh.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error {
	h := s.acquireEntry(name)
	select {
	case h.sem <- struct{}{}:
	case <-ctx.Done():
		s.releaseEntry(name, h)
		return fmt.Errorf("certmagiclock: %q is locked within this process: %w", name, errors.Join(lockmesh.ErrHeld, ctx.Err()))
	}
	lease, err := s.mesh.Lock(ctx, s.key(name))
	return s.storeLease(name, h, lease, err)
}

// TryLock takes the lock if free, and doesn't queue. It returns false without an error if the lock
// is held; any other error, such as [lockmesh.ErrNoQuorum], means that the state of the lock is
// unknown.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	h := s.acquireEntry(name)
	select {
	case h.sem <- struct{}{}:
	default:
		s.releaseEntry(name, h)
		return false, nil
	}
	lease, err := s.mesh.TryLock(ctx, s.key(name))
	if err := s.storeLease(name, h, lease, err); err != nil {
		if errors.Is(err, lockmesh.ErrHeld) && ctx.Err() == nil {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// Unlock releases the lock. Unlock waits for the voters for a TTL at most, even if ctx ends. The
// lock is given up in any case. The error is nil if the lease was lost before: certmagic takes an
// error to mean that the lock is still in place, and would unlock it again when the process ends.
// WithLost has reported the loss. Otherwise the error is that of [lockmesh.Lease.Unlock], and
// certmagic logs it.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	h := s.entries[name]
	if h == nil || h.lease == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	lease, stop := h.lease, h.stop
	h.lease, h.stop = nil, nil
	s.mu.Unlock()
	stop()
	err := lease.Unlock(context.WithoutCancel(ctx))
	<-h.sem
	s.releaseEntry(name, h)
	if err != nil && !errors.Is(err, lockmesh.ErrLost) {
		return fmt.Errorf("certmagiclock: %w", err)
	}
	return nil
}

// RenewLockLease checks that the lock is still held; certmagic calls RenewLockLease before each
// attempt. A held lease renews itself, so there is nothing to do, and the duration doesn't matter.
//
// A lost lease is replaced if the lock is free: certmagic reads the storage again after this call,
// so its attempt is as good as an attempt right after Lock. Otherwise the error is
// [lockmesh.ErrLost] together with the obstacle, [lockmesh.ErrHeld] or [lockmesh.ErrNoQuorum].
// certmagic then abandons the attempt, and calls again before the next.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	h := s.entries[name]
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
		return fmt.Errorf("certmagiclock: %w, and locking again failed: %w", lost, err)
	}
	s.mu.Lock()
	if h.lease == lease { // otherwise the lock was unlocked meanwhile
		h.lease, h.stop = again, s.watchLoss(name, again)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return errors.Join(fmt.Errorf("%w: %q was unlocked while it was renewed", ErrNotLocked, name), again.Unlock(context.WithoutCancel(ctx)))
}

// acquireEntry returns the entry of a name, and adds the caller to its users.
func (s *Storage) acquireEntry(name string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entries[name]
	if h == nil {
		h = &entry{sem: make(chan struct{}, 1)}
		s.entries[name] = h
	}
	h.users++
	return h
}

// releaseEntry removes a caller from the users. The last user deletes the entry, since names come
// and go.
func (s *Storage) releaseEntry(name string, h *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(s.entries, name)
	}
}

// storeLease stores the lease of the caller that has the turn, or, after an error, ends the turn.
func (s *Storage) storeLease(name string, h *entry, lease *lockmesh.Lease, err error) error {
	if err != nil {
		<-h.sem
		s.releaseEntry(name, h)
		return fmt.Errorf("certmagiclock: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.lease, h.stop = lease, s.watchLoss(name, lease)
	return nil
}

func (s *Storage) watchLoss(name string, lease *lockmesh.Lease) func() bool {
	return context.AfterFunc(lease.Context(), func() {
		if err := lease.Err(); errors.Is(err, lockmesh.ErrLost) {
			s.lost(name, err)
		}
	})
}

// key returns the mesh's key for a name. certmagic makes names from client input, so a name may be
// anything: an invalid key is replaced by a hash of the name.
func (s *Storage) key(name string) string {
	key := s.prefix + name
	if len(key) <= lockmesh.MaxKeyLen && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl) {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return s.prefix + "sha256:" + hex.EncodeToString(sum[:])
}
