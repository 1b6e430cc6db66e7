package locktest

import (
	"context"
	"time"
)

// Service is the lock service under examination. The methods of the service, of its clients and of
// their locks are called from several goroutines. Only the methods of one [Lock] are called one at
// a time, except Done, Err and Deadline.
//
// The caller of [Run] or [Examine] owns the service and stops it afterwards.
type Service interface {
	// Client returns a new client, ready for use. ctx bounds the call, not the client.
	Client(ctx context.Context) (Client, error)
}

// Client is a user of the service and excludes all other clients, as a separate process would.
type Client interface {
	// Lock waits until the key is held, or ctx ends. If Lock returns an error, there is no lock.
	Lock(ctx context.Context, key string) (Lock, error)
	// TryLock takes the key if the key is free, and doesn't wait for the holder otherwise.
	TryLock(ctx context.Context, key string) (Lock, error)
	// Close ends the client. Close is called once, after all other calls, also when the client has
	// crashed or left.
	Close() error
}

// Lock is a held lock.
type Lock interface {
	// Unlock releases the lock.
	Unlock(ctx context.Context) error
}

// Fenced is a [Lock] with a fencing token, larger than the token of every earlier holder of the
// key.
type Fenced interface{ Token() uint64 }

// Expiring is a [Lock] that ends at a deadline unless renewed before.
type Expiring interface {
	// Deadline returns when the lock ends unless renewed. A renewal moves the deadline.
	Deadline() time.Time
}

// Watched is a [Lock] with a channel that is closed when the lock ends, by Unlock or by loss.
type Watched interface{ Done() <-chan struct{} }

// Checked is a [Lock] with a method to tell whether the lock is still held.
type Checked interface {
	// Err returns nil while the lock is held, and always an error afterwards.
	Err() error
}

// Contexted is a [Lock] with a context that ends with the lock.
type Contexted interface{ Context() context.Context }

// ErrorClassifier is a [Service] with distinct errors for a key held by another call and for all
// other failures.
type ErrorClassifier interface {
	// IsHeld reports whether a Try call failed because another call holds the key.
	IsHeld(err error) bool
}

// Stopper is a [Service] on several servers, of which a majority can be stopped, as SIGSTOP stops a
// process: the servers keep their memory and their connections, and answer nothing.
type Stopper interface {
	// StopMajority stops a majority of the servers. A server in the process of the spared client
	// isn't among the stopped servers, so that the process can go on. resume lets the stopped
	// servers run again.
	StopMajority(spared Client) (resume func(), err error)
}

// Queue is a [Service] with a first-come, first-served queue of waiters. Queue lets the suite see
// the queue; otherwise the suite couldn't know the order of two calls.
type Queue interface {
	// Waiting returns how many calls of all clients wait for the key. A call that starts after
	// Waiting has counted another call is queued behind the counted call.
	Waiting(ctx context.Context, key string) (int, error)
}

// Crasher is a [Client] that can crash without a message: no lock is released or renewed any more,
// and calls under way fail. The client isn't used afterwards.
type Crasher interface{ Crash() error }

// Leaver is a [Client] that can shut down in good order.
type Leaver interface {
	// Leave releases all locks and withdraws all requests of the client, and returns once the
	// service knows. Later calls fail.
	Leave(ctx context.Context) error
}

// Cutter is a [Client] that can be cut off from the service without being stopped.
type Cutter interface {
	// Cut cuts the client off: from now on no message passes in either direction. heal restores the
	// connection.
	Cut() (heal func(), err error)
}

// Readers is a [Client] with shared locks: a key has many readers at once, or one exclusive holder.
type Readers interface {
	RLock(ctx context.Context, key string) (Lock, error)
	TryRLock(ctx context.Context, key string) (Lock, error)
}

// Semaphores is a [Client] with semaphores: a key has as many holders at once as permits.
type Semaphores interface {
	// Acquire takes one of the permits. All users of a key give the same number of permits.
	Acquire(ctx context.Context, key string, permits int) (Lock, error)
	TryAcquire(ctx context.Context, key string, permits int) (Lock, error)
}

// Values is a [Client] with a few bytes beside each lock for others to read, such as the holder's
// address.
type Values interface {
	LockValue(ctx context.Context, key string, value []byte) (Lock, error)
	// Value returns what the holder has written beside its lock, or nil when the key has no holder.
	Value(ctx context.Context, key string) ([]byte, error)
}

// ValueSetter is a [Lock] of a client with [Values] whose value can be changed.
type ValueSetter interface {
	SetValue(ctx context.Context, value []byte) error
}

// Inspector is a [Client] that can look up whether a key is held.
type Inspector interface {
	Held(ctx context.Context, key string) (bool, error)
}

// KeyWatcher is a [Client] that can watch a key.
type KeyWatcher interface {
	// Watch returns a channel of the changes of a key from the return of Watch until ctx ends, when
	// the channel is closed. The reader of the channel keeps up.
	Watch(ctx context.Context, key string) (<-chan Change, error)
}

// Change is an event reported by a watch.
type Change struct {
	Granted bool   // a lock was granted; otherwise, a lock ended
	Lost    bool   // the lock ended without having been released
	Missed  bool   // neither of the two: changes may be missing here
	Token   uint64 // the token of the lock; zero where there are no tokens
}

// Capability is something that a service may offer besides Lock, TryLock and Unlock: one of the
// optional interfaces, by its name.
type Capability string

// The capabilities, each named like its interface.
const (
	HasTokens     Capability = "Fenced"
	HasDeadline   Capability = "Expiring"
	HasDone       Capability = "Watched"
	HasErr        Capability = "Checked"
	HasIsHeld     Capability = "ErrorClassifier"
	HasStop       Capability = "Stopper"
	HasQueue      Capability = "Queue"
	HasCrash      Capability = "Crasher"
	HasLeave      Capability = "Leaver"
	HasCut        Capability = "Cutter"
	HasReaders    Capability = "Readers"
	HasSemaphores Capability = "Semaphores"
	HasValues     Capability = "Values"
	HasSetValue   Capability = "ValueSetter"
	HasContext    Capability = "Contexted"
	HasInspection Capability = "Inspector"
	HasWatches    Capability = "KeyWatcher"
)

// has reports whether v implements a capability's interface.
func has[T any](v any) bool { _, ok := v.(T); return ok }

// capabilitiesOf returns what a service offers, judged by the types of the service, a client and a
// lock.
func capabilitiesOf(s Service, c Client, l Lock) map[Capability]bool {
	return map[Capability]bool{
		HasTokens: has[Fenced](l), HasDeadline: has[Expiring](l), HasDone: has[Watched](l), HasErr: has[Checked](l),
		HasIsHeld: has[ErrorClassifier](s), HasStop: has[Stopper](s), HasQueue: has[Queue](s),
		HasCrash: has[Crasher](c), HasLeave: has[Leaver](c), HasCut: has[Cutter](c),
		HasReaders: has[Readers](c), HasSemaphores: has[Semaphores](c), HasValues: has[Values](c), HasSetValue: has[ValueSetter](l),
		HasContext: has[Contexted](l), HasInspection: has[Inspector](c), HasWatches: has[KeyWatcher](c),
	}
}
