package lockmesh

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Election chooses one of many nodes at a time: whoever holds the key of that name leads. It is made by [Mesh.Election], has nothing to be closed,
// and may be used from any goroutine.
type Election struct {
	mesh *Mesh
	name string
}

// Election returns the election of a name, which is a key as for [Mesh.Lock]. Nothing is sent before the first Campaign.
func (m *Mesh) Election(name string) *Election { return &Election{m, name} }

// Campaign waits until this node leads, or ctx ends. Candidates lead in the order in which they have come. value, up to 4 KiB, is what
// others see of the leader: its address, for one.
//
// Leadership is a lease. When its node dies another leads after the TTL; a leader that is cut off from a majority of the voters ends by itself,
// before another begins. With clocks that keep their rates there is one leader at most; see Token for a leader that was paused unseen.
// Errors are as with Lock.
func (e *Election) Campaign(ctx context.Context, value []byte, opts ...Option) (*Leadership, error) {
	opts = append([]Option{WithValue(value)}, opts...)
	lease, err := e.mesh.acquire(ctx, "campaign", newWish(e.name, vote.Exclusive, false, opts))
	if err != nil {
		return nil, err
	}
	return &Leadership{lease}, nil
}

// Leadership is the lease of a leader. It goes on until Resign, or until it is lost. Its methods may be called from any goroutine.
type Leadership struct {
	lease *Lease
}

// Lease returns the lease behind it.
func (l *Leadership) Lease() *Lease { return l.lease }

// Token returns the leader's fencing number, larger than that of every earlier leader; see [Lease.Token].
func (l *Leadership) Token() uint64 { return l.lease.Token() }

// Deadline returns when the leadership ends unless it is renewed until then; see [Lease.Deadline].
func (l *Leadership) Deadline() time.Time { return l.lease.Deadline() }

// Done returns a channel that is closed when the leadership has ended; when it is lost, a little before another may lead.
func (l *Leadership) Done() <-chan struct{} { return l.lease.Done() }

// Err returns nil while this node leads, and then, for ever, [ErrLost] or [ErrReleased]; see [Lease.Err].
func (l *Leadership) Err() error { return l.lease.Err() }

// Context returns a context that ends with the leadership; see [Lease.Context].
func (l *Leadership) Context() context.Context { return l.lease.Context() }

// Proclaim changes the value that others see of the leader. It returns once a majority of the voters has it; errors are as with [Lease.SetValue].
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	return withOp(l.lease.SetValue(ctx, value), "proclaim")
}

// Resign ends the leadership at once, and the next candidate leads; errors are as with [Lease.Unlock].
func (l *Leadership) Resign(ctx context.Context) error { return withOp(l.lease.Unlock(ctx), "resign") }

// Leader is who leads, as others see it.
type Leader struct {
	// None says that nobody leads. Then the other fields are zero, but for Missed.
	None  bool
	Node  string
	Token uint64
	Value []byte // must not be changed
	Since time.Time
	// Missed says that leaders may have come and gone unseen before this; of Observe only.
	Missed bool
}

// String tells in a few words who leads.
func (l Leader) String() string {
	if l.None {
		return "nobody leads"
	}
	return fmt.Sprintf("%s leads, token %d: %s", l.Node, l.Token, l.Value)
}

// Leader returns who leads, as a majority of the voters sees it; ErrNoLeader when nobody does. It is as old as the answer: whoever must be sure
// asks the leader, and the leader its lease. Other errors are as with [Mesh.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	info, err := e.mesh.Inspect(ctx, e.name)
	if err != nil {
		return Leader{}, withOp(err, "leader")
	}
	for _, h := range info.Holders {
		if h.Mode == Exclusive {
			return Leader{Node: h.Node, Token: h.Token, Value: h.Value, Since: h.Since}, nil
		}
	}
	return Leader{}, &Error{Op: "leader", Key: e.name, Reason: ErrNoLeader}
}

// Observe tells who leads now, and then each change, in order, with rising tokens: a leader that comes, a value that it proclaims, and with None
// that it has gone and no other has come yet. It goes on until the loop over it breaks, or ctx or the mesh ends; then the last error is ctx's or
// ErrClosed. Voters tell of what happens; nobody is asked again and again.
//
//	for leader, err := range election.Observe(ctx) {
//
// Nobody waits for an observer: one that is too slow, or cut off from a majority of the voters, misses leaders, and the next one says so with Missed.
// Errors at the beginning are as with [Mesh.Watch].
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		v, err := e.mesh.view(ctx, "observe", e.name)
		if err != nil {
			yield(Leader{None: true}, err)
			return
		}
		defer v.stop()
		var last Leader
		first, missed := true, false
		for event := range v.watch.Events() {
			v.take(event)
			missed = missed || event.Kind == Gap
			leader := v.leader()
			if !v.synced || !first && !missed && leader.same(&last) {
				continue
			}
			first, last, leader.Missed, missed = false, leader, missed, false
			if !yield(leader, nil) {
				return
			}
		}
		yield(Leader{None: true}, withOp(v.watch.Err(), "observe"))
	}
}

// leader returns who holds the key alone.
func (v *view) leader() Leader {
	leader := Leader{None: true}
	for _, e := range v.held {
		if e.Mode == Exclusive && e.Token > leader.Token { // there is one at most
			leader = Leader{Node: e.Node, Token: e.Token, Value: e.Value, Since: e.At}
		}
	}
	return leader
}

func (l *Leader) same(o *Leader) bool {
	return l.Token == o.Token && string(l.Value) == string(o.Value)
}

// Lead waits until this node leads, and then calls f, once. f's context ends when ctx does or the leadership is lost, and f should return soon then. The
// next candidate leads after f has returned, never before, as long as the lease holds; also when f panics. (A lease that is lost can't wait for anyone: that is
// what the token is for, which [Mesh.Do] hands to its function.)
//
// The error joins that of f and that of the resignation: [ErrLost] says that the leadership was lost while f ran, even if f returned nil. One call is one
// turn. To lead whenever this node's turn comes, call it in a loop:
//
//	for ctx.Err() == nil {
//		err := mesh.Lead(ctx, "scheduler", run)
//		log.Print(err)
//	}
//
// While no majority of the voters answers, a turn waits for it, so the loop doesn't spin; but f that returns at once does. Options are those of
// Lock; with [WithValue] others see who leads.
func (m *Mesh) Lead(ctx context.Context, name string, f func(context.Context) error, opts ...Option) error {
	return withOp(m.Do(ctx, name, func(ctx context.Context, _ *Lease) error { return f(ctx) }, opts...), "lead")
}
