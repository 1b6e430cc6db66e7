package lockmesh

import (
	"bytes"
	"context"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Info is what a majority of the voters sees of a key.
type Info struct {
	Key     string
	Permits int      // of the semaphore; zero if the key isn't used as one
	Holders []Holder // in order of their tokens
	Waiters []Waiter // in the order in which they will be served, but for nodes whose clocks differ by more than a second
	// Resting is for how long the key, or a permit, is kept from everyone though nobody holds it (WithMinHold, WithDelay); zero if it isn't.
	Resting time.Duration
}

// Holder is a lease as others see it.
type Holder struct {
	Node    string
	Token   uint64 // the first that the lease was given; its node may have passed the key on with larger ones, see [Lease.Token]
	Mode    Mode
	Slot    int // which of the permits; zero for other modes
	Value   []byte
	Version uint64    // of the value, from 1; zero when none was given
	Since   time.Time // about when it was granted, by this node's clock
	// Left is how long its voters would still wait if they heard nothing from its node any more.
	Left time.Duration
}

// Waiter is a request as others see it.
type Waiter struct {
	Node  string
	Mode  Mode
	Try   bool
	Value []byte
	Since time.Time // about when it came, by this node's clock
}

// Inspect tells who holds a key and who waits for it, without asking for it. A majority of the voters that count answers: a lease that was granted or a
// value that was set before Inspect was called is seen, though a lease of which no voter has
// heard yet that it was granted is seen as a waiter, and one that was given back may be seen as held as long as some voter hasn't heard of that, for a TTL at most. What
// happens meanwhile may be seen or not. A key that nobody uses
// is no error: there are no holders and no waiters. For decisions use a lock; this is for people and for pages.
//
// Errors: ErrKey, ErrNoQuorum if too few voters answer within a TTL, ErrClosed, ErrBusy, or ctx's.
func (m *Mesh) Inspect(ctx context.Context, key string) (Info, error) {
	if err := checkKey("inspect", key); err != nil {
		return Info{}, err
	}
	e, err := m.look(ctx, "inspect", key, func(now vote.Now) uint64 { return m.loop.node.Look(now, vote.Key(key)) })
	if err != nil {
		return Info{}, err
	}
	return m.info(key, e.Shown), nil
}

func (m *Mesh) info(key string, shown *quorum.Shown) Info {
	info := Info{Key: key, Permits: int(shown.Permits)}
	now := time.UnixMicro(int64(m.clocks.now().Wall))
	for i := range shown.Sights {
		s := &shown.Sights[i]
		switch s.What {
		case vote.Holding:
			info.Holders = append(info.Holders, Holder{
				Node: string(s.Owner.Node), Token: uint64(s.Token), Mode: Mode(s.Mode), Slot: int(s.Slot),
				Value: bytes.Clone(s.Value), Version: s.Version, // a voter of this node shows what it keeps itself
				Since: now.Add(-s.For), Left: s.Left,
			})
		case vote.Resting:
			info.Resting = max(info.Resting, s.Left)
		default:
			info.Waiters = append(info.Waiters, Waiter{
				Node: string(s.Owner.Node), Mode: Mode(s.Mode), Try: s.Try, Value: bytes.Clone(s.Value), Since: now.Add(-s.For),
			})
		}
	}
	if len(info.Holders) > 0 && info.Holders[0].Mode != Permit {
		info.Permits = 0
	}
	return info
}

// Revoke asks whoever holds the key to give it back, and tells them why if [WithWhy] says so, the one option that it takes; see [Lease.Revoked]. It is a
// wish: holders decide. Revoke returns nil once a majority of the voters has passed it on, also if nobody holds the key.
//
// Errors: ErrKey, ErrOption, ErrNoQuorum if too few voters answer within a TTL, ErrClosed, ErrBusy, or ctx's.
func (m *Mesh) Revoke(ctx context.Context, key string, opts ...Option) error {
	if err := checkKey("revoke", key); err != nil {
		return err
	}
	w := newWish(key, vote.Exclusive, false, opts)
	if err := w.complete(&m.cfg); err != nil {
		return withOp(err, "revoke")
	}
	if !w.plain() {
		return &Error{Op: "revoke", Key: key, Reason: ErrOption, Text: "it takes WithWhy only, since it asks for no lock; its context bounds how long it waits"}
	}
	_, err := m.look(ctx, "revoke", key, func(now vote.Now) uint64 { return m.loop.node.Revoke(now, vote.Key(key), w.Why) })
	return err
}

// look puts a question to the voters and waits for the answer.
func (m *Mesh) look(ctx context.Context, op, key string, ask func(vote.Now) uint64) (*quorum.Event, error) {
	answer := make(chan *quorum.Event, 1)
	fail := func(reason error, text string, err error) error {
		return &Error{Op: op, Key: key, Reason: reason, Text: text, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", ended(ctx))
	}
	if err := m.loop.box.call(func(now vote.Now) { m.loop.looks[ask(now)] = answer }); err != nil {
		return nil, fail(err, "", nil)
	}
	select {
	case e := <-answer:
		if e.Wait.Reason != quorum.WaitNone {
			return nil, fail(reasonOf(e.Wait.Reason), e.Wait.Text, nil)
		}
		return e, nil
	case <-m.loop.done:
		return nil, fail(ErrClosed, "", nil)
	case <-ctx.Done():
		return nil, fail(nil, "", ended(ctx))
	}
}

// Revocation is a wish that a lease be given back.
type Revocation struct {
	Node string // whose
	Why  string // as the one who wishes says; may be empty
}

// Revoked returns a channel on which wishes to have the lease given back arrive: of [Mesh.Revoke], and of calls that wait with [WithRevoke]. They are wishes
// only: the lease is held until it is unlocked or lost. The channel is never closed; use Done for the end. Wishes that nobody reads are dropped
// when more than a few are waiting.
func (l *Lease) Revoked() <-chan Revocation { return l.root().revocations() }

// revokedMax is how many wishes wait to be read. More would say the same.
const revokedMax = 8

// wishes are what others would have of a lease.
type wishes struct{ c chan Revocation }

func (l *Lease) revocations() chan Revocation {
	if w := l.wishes.Load(); w != nil {
		return w.c
	}
	l.wishes.CompareAndSwap(nil, &wishes{make(chan Revocation, revokedMax)})
	return l.wishes.Load().c
}

func (l *Lease) revoke(r Revocation) {
	select {
	case l.revocations() <- r:
	default:
	}
}
