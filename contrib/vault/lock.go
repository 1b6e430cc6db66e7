package vaultlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/vault/sdk/physical"

	"github.com/lockmesh/lockmesh"
)

var (
	// ErrLocked is returned when Lock is called on a [Lock] that is locked, or is being locked.
	ErrLocked = errors.New("vaultlock: this lock is in use")

	// ErrNotLocked is returned when Unlock is called on a [Lock] that isn't locked.
	ErrNotLocked = errors.New("vaultlock: this lock isn't locked")

	// ErrToken is returned when the storage has a value with a token at least as large as the token
	// of the lease. Either the lease was lost meanwhile, and the error says so as well. Or tokens
	// have gone backwards: all voters had restarted with clocks that were behind. Later leases have
	// larger tokens, so Vault's next tries help; or delete the entry.
	ErrToken = errors.New("vaultlock: the storage knows a later lease")
)

// Lock is a [physical.Lock]. Like other locks of Vault, a Lock is locked and unlocked once;
// afterwards it can be locked again.
type Lock struct {
	backend *Backend
	key     string
	value   string

	mu    sync.Mutex
	inUse bool            // from Lock to Unlock
	lease *lockmesh.Lease // nil until locked
}

var _ physical.Lock = (*Lock)(nil)

// Lock waits until the lock is held and its value stored. The returned channel is closed when the
// lease ends: by Unlock, or by a loss, a little before another node can get the lock, so Vault
// stops being active in time.
//
// If stopCh is closed first, both results are nil. Lock waits for as long as no majority of voters
// can be reached. The errors are the permanent errors of [lockmesh.Mesh.Lock], the errors of the
// storage, [ErrToken], [lockmesh.ErrLost] if the lease was lost before the value was stored, and
// context.DeadlineExceeded if the storage hasn't answered for ten seconds.
// After an error nothing is held.
func (l *Lock) Lock(stopCh <-chan struct{}) (<-chan struct{}, error) {
	if !l.reserve() {
		return nil, fmt.Errorf("%w: %q", ErrLocked, l.key)
	}
	lease, err := l.acquire(stopCh)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.inUse = lease, lease != nil
	if lease == nil {
		return nil, err
	}
	return lease.Done(), nil
}

// reserve marks the lock as in use, and returns false if the lock was in use already.
func (l *Lock) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := !l.inUse
	l.inUse = true
	return free
}

// acquire returns a lease with a stored value; neither a lease nor an error if stopCh was closed
// first.
func (l *Lock) acquire(stopCh <-chan struct{}) (*lockmesh.Lease, error) {
	ctx, cancel := stopContext(stopCh)
	defer cancel()
	lease, err := l.backend.mesh.Lock(ctx, l.backend.prefix+l.key)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil // Vault's convention for a stopped Lock
		}
		return nil, fmt.Errorf("vaultlock: %w", err)
	}
	during, stop := context.WithTimeout(lease.Context(), l.backend.patience)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	// The lease is renewed meanwhile: a storage that hangs here may work for another server.
	err = within(during, func() error { return l.backend.writeAnnouncement(during, l.key, l.value, lease) })
	if err == nil && lease.Err() != nil {
		err = fmt.Errorf("vaultlock: %w", lease.Err())
	}
	if err == nil && ctx.Err() == nil && !closed(stopCh) {
		return lease, nil
	}
	if lost := lease.Err(); lost != nil && !errors.Is(err, lost) {
		err = errors.Join(lost, err)
	}
	l.removeAnnouncement(lease)
	_ = lease.Unlock(context.Background()) // an unconfirmed release expires
	if ctx.Err() != nil || closed(stopCh) {
		return nil, nil
	}
	return nil, err
}

// Unlock deletes the value and releases the lock. Unlock takes as long as the storage, ten seconds
// at most, plus a TTL at most. The lock is given up in any case. The error is [lockmesh.ErrLost] if
// the lease had ended before, and otherwise the error of [lockmesh.Lease.Unlock].
func (l *Lock) Unlock() error {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("%w: %q", ErrNotLocked, l.key)
	}
	l.removeAnnouncement(lease)
	err := lease.Unlock(context.Background())
	l.mu.Lock()
	l.inUse = false
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("vaultlock: %w", err)
	}
	return nil
}

// removeAnnouncement deletes the value of a lease. The value belongs to this lease alone, so the
// deletion is safe at any time; if the deletion fails, the next holder deletes the value.
func (l *Lock) removeAnnouncement(lease *lockmesh.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), l.backend.patience)
	defer cancel()
	_ = within(ctx, func() error { return l.backend.Delete(ctx, entry(l.key, lease.Token())) })
}

// within returns the result of a storage call, or the context's error once the context has ended: a
// storage that ignores its context mustn't keep the lock from other servers. The goroutine of such
// a call ends with the call.
func within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("vaultlock: the storage doesn't answer: %w", context.Cause(ctx))
	}
}

// Value reports whether any node holds the lock, and the lock's value. The node that holds the lock
// by means of this Lock answers from memory; others ask the mesh, then the storage. If no majority
// of voters answers, the error is [lockmesh.ErrNoQuorum].
//
// A holder without a stored value doesn't count: its Lock hasn't returned. A crashed holder counts
// until its lease has expired. For a moment after such a crash, when the next holder has the lock
// but hasn't stored its value, Value returns the value of the crashed holder.
func (l *Lock) Value() (bool, string, error) {
	l.mu.Lock()
	lease := l.lease
	l.mu.Unlock()
	if lease != nil && lease.Err() == nil {
		return true, l.value, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.backend.patience)
	defer cancel()
	held, err := l.backend.held(ctx, l.key)
	if err != nil || !held {
		return false, "", err
	}
	value, ok, err := l.backend.latest(ctx, l.key)
	return ok, value, err
}

// Token returns the fencing token of the lease, larger than the token of every earlier lease, or
// zero if the lock isn't held.
func (l *Lock) Token() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil || l.lease.Err() != nil {
		return 0
	}
	return l.lease.Token()
}

// closed reports whether the channel is closed. The context from until ends a little later.
func closed(stopCh <-chan struct{}) bool {
	select {
	case <-stopCh:
		return true
	default:
		return false
	}
}

// stopContext returns a context that ends when the channel is closed. A nil channel is never
// closed.
func stopContext(stopCh <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if stopCh != nil {
		go func() {
			select {
			case <-stopCh:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}
