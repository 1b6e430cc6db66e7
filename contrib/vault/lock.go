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
	// ErrLocked : Lock was called on a [Lock] that is locked, or is being locked.
	ErrLocked = errors.New("vaultlock: this lock is in use")

	// ErrNotLocked : Unlock was called on a [Lock] that isn't locked.
	ErrNotLocked = errors.New("vaultlock: this lock isn't locked")

	// ErrToken : the storage has a value with a token as large as that of the lease, or larger. Either the lease was lost meanwhile, which
	// the error says as well. Or tokens have fallen back: all voters had restarted and their clocks were behind. Later leases
	// have larger tokens, so Vault's next tries help; or delete the entry.
	ErrToken = errors.New("vaultlock: the storage knows a later lease")
)

// Lock is a [physical.Lock]. Like others of Vault it is locked and unlocked once; it can be locked again after that.
type Lock struct {
	backend *Backend
	key     string
	value   string

	mu    sync.Mutex
	busy  bool            // from Lock to Unlock
	lease *lockmesh.Lease // nil until it is locked
}

var _ physical.Lock = (*Lock)(nil)

// Lock waits until the lock is held and its value stored. The channel that it returns is closed when the lease ends: when it is lost, a
// little before another node can have it, so Vault stops being active in time; and by Unlock.
//
// When stopCh is closed first, both results are nil. It waits for as long as no majority of voters can be reached. The errors are
// those of [lockmesh.Mesh.Lock] that waiting doesn't mend, those of the storage, [ErrToken], and [lockmesh.ErrLost] if
// the lease was lost before the value was stored. With an error nothing is held.
func (l *Lock) Lock(stopCh <-chan struct{}) (<-chan struct{}, error) {
	if !l.reserve() {
		return nil, fmt.Errorf("%w: %q", ErrLocked, l.key)
	}
	lease, err := l.acquire(stopCh)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.busy = lease, lease != nil
	if lease == nil {
		return nil, err
	}
	return lease.Done(), nil
}

// reserve reports whether the lock wasn't in use, and is from now on.
func (l *Lock) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := !l.busy
	l.busy = true
	return free
}

// acquire returns a lease whose value is stored; neither a lease nor an error if stopCh was closed first.
func (l *Lock) acquire(stopCh <-chan struct{}) (*lockmesh.Lease, error) {
	ctx, cancel := until(stopCh)
	defer cancel()
	lease, err := l.backend.mesh.Lock(ctx, l.backend.prefix+l.key)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil // Vault's way to say that it was stopped
		}
		return nil, fmt.Errorf("vaultlock: %w", err)
	}
	during, stop := context.WithCancel(lease.Context())
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err = l.backend.announce(during, l.key, l.value, lease)
	if err == nil && lease.Err() != nil {
		err = fmt.Errorf("vaultlock: %w", lease.Err())
	}
	if err == nil && ctx.Err() == nil && !closed(stopCh) {
		return lease, nil
	}
	if lost := lease.Err(); lost != nil && !errors.Is(err, lost) {
		err = errors.Join(lost, err)
	}
	l.withdraw(lease)
	_ = lease.Unlock(context.Background()) // what is unconfirmed lapses
	if ctx.Err() != nil || closed(stopCh) {
		return nil, nil
	}
	return nil, err
}

// Unlock deletes the value and gives the lock back. It takes as long as the storage, and a TTL at most. The lock is given up in any
// case. The error is [lockmesh.ErrLost] when the lease had ended before, and otherwise that of [lockmesh.Lease.Unlock].
func (l *Lock) Unlock() error {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("%w: %q", ErrNotLocked, l.key)
	}
	l.withdraw(lease)
	err := lease.Unlock(context.Background())
	l.mu.Lock()
	l.busy = false
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("vaultlock: %w", err)
	}
	return nil
}

// withdraw deletes the value of a lease. It is nobody else's, so this is safe at any time; an entry that stays is cleared away by the next
// holder.
func (l *Lock) withdraw(lease *lockmesh.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	_ = l.backend.Delete(ctx, entry(l.key, lease.Token()))
}

// Value reports whether any node holds the lock, and the value that it has. The node that holds it by means of this Lock answers from
// memory; others ask the mesh, then the storage. When nobody can know, the error is [lockmesh.ErrNoQuorum].
//
// A holder whose value isn't stored yet doesn't count: it hasn't come back from Lock. A holder that died counts until its lease has lapsed.
// For a moment after such a death, when the next one holds the lock and hasn't stored its value, the value is the dead one's.
func (l *Lock) Value() (bool, string, error) {
	l.mu.Lock()
	lease := l.lease
	l.mu.Unlock()
	if lease != nil && lease.Err() == nil {
		return true, l.value, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	held, err := l.backend.held(ctx, l.key)
	if err != nil || !held {
		return false, "", err
	}
	value, ok, err := l.backend.latest(ctx, l.key)
	return ok, value, err
}

// Token returns the fencing token of the lease, larger than that of every earlier one, or zero if it isn't held.
func (l *Lock) Token() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil || l.lease.Err() != nil {
		return 0
	}
	return l.lease.Token()
}

// closed reports whether the channel is. Its context hears of that a little later.
func closed(stopCh <-chan struct{}) bool {
	select {
	case <-stopCh:
		return true
	default:
		return false
	}
}

// until returns a context that ends when the channel is closed. A nil channel never is.
func until(stopCh <-chan struct{}) (context.Context, context.CancelFunc) {
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
