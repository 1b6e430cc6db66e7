package locktest

import (
	"context"
	"time"
)

// Service is the lock service under examination. Its methods, and those of its clients and their locks, are called from several goroutines;
// but for the methods of one [Lock], of which one is called at a time, except Done, Err and Deadline.
//
// The caller of [Run] or [Examine] owns the service and ends it afterwards.
type Service interface {
	// Client returns a new client that is ready for use. ctx bounds the call and not the client.
	Client(ctx context.Context) (Client, error)
}

// Client is one user of the service, as a process of its own would be: what one client holds no other holds.
type Client interface {
	// Lock waits until the key is held, or ctx ends. With an error there is no lock.
	Lock(ctx context.Context, key string) (Lock, error)
	// TryLock takes the key if it is free, and doesn't wait for its holder if it isn't.
	TryLock(ctx context.Context, key string) (Lock, error)
	// Close ends the client. It is called once, after all else, also when the client has crashed or left.
	Close() error
}

// Lock is a lock that is held.
type Lock interface {
	// Unlock gives the lock back.
	Unlock(ctx context.Context) error
}

// Fenced is a [Lock] with a fencing token, larger than that of every earlier holder of the key.
type Fenced interface{ Token() uint64 }

// Expiring is a [Lock] that ends at a deadline unless it is renewed before.
type Expiring interface {
	// Deadline returns when the lock ends as things stand. It moves when the lock is renewed.
	Deadline() time.Time
}

// Watched is a [Lock] that tells of its end, by Unlock or by loss.
type Watched interface{ Done() <-chan struct{} }

// Checked is a [Lock] that can be asked whether it is still held.
type Checked interface {
	// Err returns nil while the lock is held, and then, for ever, an error.
	Err() error
}

// HeldTeller is a [Service] whose errors tell a key that somebody else has from all else that may go wrong.
type HeldTeller interface {
	// IsHeld reports whether a Try call failed because somebody else has the key.
	IsHeld(err error) bool
}

// Queue is a [Service] whose waiters stand in line: a key goes to who asked first. It lets the examination see who stands there, since
// otherwise nobody could know which of two calls came first.
type Queue interface {
	// Waiting returns how many calls of all clients wait for the key. Whoever asks after it has counted a call stands behind that call.
	Waiting(ctx context.Context, key string) (int, error)
}

// Crasher is a [Client] that can die without a word: nothing is given back, nothing is renewed any more, and calls under way fail.
// It isn't used afterwards.
type Crasher interface{ Crash() error }

// Leaver is a [Client] that can end in good order.
type Leaver interface {
	// Leave gives back all that the client holds and waits for, and returns once the service knows. Calls that come later fail.
	Leave(ctx context.Context) error
}

// Cutter is a [Client] that can be cut off from the service while it lives on.
type Cutter interface {
	// Cut cuts the client off: from now on no message passes, either way. heal ends that.
	Cut() (heal func(), err error)
}

// Readers is a [Client] with shared locks: many readers hold a key at once, or one who has locked it otherwise.
type Readers interface {
	RLock(ctx context.Context, key string) (Lock, error)
	TryRLock(ctx context.Context, key string) (Lock, error)
}

// Semaphores is a [Client] with semaphores: as many hold a key at once as there are permits.
type Semaphores interface {
	// Acquire takes one of the permits. All who use a key give the same number of permits.
	Acquire(ctx context.Context, key string, permits int) (Lock, error)
	TryAcquire(ctx context.Context, key string, permits int) (Lock, error)
}

// Values is a [Client] whose locks carry a few bytes that others can read, such as the holder's address.
type Values interface {
	LockValue(ctx context.Context, key string, value []byte) (Lock, error)
	// Value returns what the holder has written beside its lock; nil when nobody holds the key.
	Value(ctx context.Context, key string) ([]byte, error)
}

// Capability is something that a service may offer besides Lock, TryLock and Unlock: one of the optional interfaces, by its name.
type Capability string

// The capabilities, each named like its interface.
const (
	HasTokens     Capability = "Fenced"
	HasDeadline   Capability = "Expiring"
	HasDone       Capability = "Watched"
	HasErr        Capability = "Checked"
	HasIsHeld     Capability = "HeldTeller"
	HasQueue      Capability = "Queue"
	HasCrash      Capability = "Crasher"
	HasLeave      Capability = "Leaver"
	HasCut        Capability = "Cutter"
	HasReaders    Capability = "Readers"
	HasSemaphores Capability = "Semaphores"
	HasValues     Capability = "Values"
)

// has reports whether v implements a capability's interface.
func has[T any](v any) bool { _, ok := v.(T); return ok }

// offers returns what a service offers, by the types of it, of a client, and of a lock.
func offers(s Service, c Client, l Lock) map[Capability]bool {
	return map[Capability]bool{
		HasTokens: has[Fenced](l), HasDeadline: has[Expiring](l), HasDone: has[Watched](l), HasErr: has[Checked](l),
		HasIsHeld: has[HeldTeller](s), HasQueue: has[Queue](s),
		HasCrash: has[Crasher](c), HasLeave: has[Leaver](c), HasCut: has[Cutter](c),
		HasReaders: has[Readers](c), HasSemaphores: has[Semaphores](c), HasValues: has[Values](c),
	}
}
