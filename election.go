package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/backoff"
	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Election elects one leader at a time among many nodes: the leader is the holder of the key with
// the election's name. An Election is made by [Mesh.Election], needs no closing, and may be used
// from any goroutine.
type Election struct {
	mesh *Mesh
	name string
}

func (e *Election) checkUsable(method string) {
	checkUsable(e != nil && e.mesh != nil, method, "Mesh.Election")
}

// Election returns the election with the given name, a key as for [Mesh.Lock]. Nothing is sent
// before the first Campaign.
func (m *Mesh) Election(name string) *Election {
	m.checkUsable("Mesh.Election")
	return &Election{m, name}
}

// Campaign waits until this node leads, or ctx ends. Candidates lead in the order of their arrival.
// value, up to 4 KiB, is shown to others with the leader: the leader's address, for example.
//
// Leadership is a lease. When the leader's node crashes, another candidate leads after the TTL; the
// leadership of a node that is cut off from a majority of the voters ends by itself, before another
// begins. As long as clocks keep their rates there is at most one leader; see Token for a leader
// that was paused unseen. Errors are as with [Mesh.Lock].
//
// With the context of a leadership of the same election, Campaign re-enters the leadership, as Lock
// re-enters a lease: value isn't shown, and Resign ends the re-entry alone.
func (e *Election) Campaign(ctx context.Context, value []byte, opts ...Option) (*Leadership, error) {
	e.checkUsable("Election.Campaign")
	ctx = guardContext(ctx, "Election.Campaign")
	opts = append([]Option{WithValue(value)}, opts...)
	lease, err := e.mesh.acquire(ctx, "campaign", newAcquireOptions(e.name, vote.Exclusive, false, opts))
	if err != nil {
		return nil, err
	}
	return &Leadership{lease}, nil
}

// Leadership is the lease of a leader. A leadership lasts until Resign, or until the lease is lost.
// The methods may be called from any goroutine.
type Leadership struct {
	lease *Lease
}

func (l *Leadership) checkUsable(method string) {
	checkUsable(l != nil && l.lease != nil, method, "Election.Campaign")
}

// Lease returns the underlying lease.
func (l *Leadership) Lease() *Lease {
	l.checkUsable("Leadership.Lease")
	return l.lease
}

// Token returns the leader's fencing token, larger than the token of every earlier leader; see
// [Lease.Token].
func (l *Leadership) Token() uint64 {
	l.checkUsable("Leadership.Token")
	return l.lease.Token()
}

// Deadline returns when the leadership ends unless renewed by then; see [Lease.Deadline].
func (l *Leadership) Deadline() time.Time {
	l.checkUsable("Leadership.Deadline")
	return l.lease.Deadline()
}

// Done returns a channel that is closed when the leadership has ended; a lost leadership ends a
// little before another node may lead.
func (l *Leadership) Done() <-chan struct{} {
	l.checkUsable("Leadership.Done")
	return l.lease.Done()
}

// Err returns nil while this node leads, and afterwards, permanently, [ErrLost] or [ErrReleased];
// see [Lease.Err].
func (l *Leadership) Err() error {
	l.checkUsable("Leadership.Err")
	return l.lease.Err()
}

// Context returns a context that ends with the leadership; see [Lease.Context].
func (l *Leadership) Context() context.Context {
	l.checkUsable("Leadership.Context")
	return l.lease.Context()
}

// Proclaim changes the value shown to others with the leader. It returns once a majority of the
// voters has the value. Errors are as with [Lease.SetValue].
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	l.checkUsable("Leadership.Proclaim")
	checkContext(ctx, "Leadership.Proclaim")
	return withOp(l.lease.SetValue(ctx, value), "proclaim")
}

// Resign ends the leadership at once, and the next candidate leads. Errors are as with
// [Lease.Unlock].
func (l *Leadership) Resign(ctx context.Context) error {
	l.checkUsable("Leadership.Resign")
	checkNotNil(ctx, "Leadership.Resign")
	return withOp(l.lease.Unlock(ctx), "resign")
}

// Leader describes the leader as seen by others.
type Leader struct {
	// None says that there is no leader. Then the other fields are zero, except Missed.
	None  bool
	Node  string // the leader's node
	Token uint64 // the fencing token of its term
	Value []byte // as given by WithValue, Campaign or Proclaim; read-only
	// Since is about when the term began, by this node's clock.
	Since time.Time
	// Missed says that leaders may have come and gone unseen before this state; set by Observe
	// only.
	Missed bool
	// Unsure says that the node leads or only stands for election: the node ended, or was cut off,
	// before any other voter heard of the outcome. Token is zero if unknown. See [Holder.Unsure].
	// Set by Election.Leader only: Observe waits until the outcome is known.
	Unsure bool
}

// String describes the leader in a few words.
func (l Leader) String() string {
	if l.None {
		return "there is no leader"
	}
	leads := "leads"
	if l.Unsure {
		leads = "may lead"
	}
	return fmt.Sprintf("%s %s, token %d: %s", l.Node, leads, l.Token, l.Value)
}

// Leader returns the leader as seen by a majority of the voters, or ErrNoLeader if there is none.
// The result may be out of date on arrival: to be certain, ask the leader, who asks its lease. A
// leader of which too few voters have heard is marked as Unsure. Other errors are as with
// [Mesh.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	e.checkUsable("Election.Leader")
	ctx = guardContext(ctx, "Election.Leader")
	info, err := e.mesh.Inspect(ctx, e.name)
	if err != nil {
		return Leader{}, withOp(err, "leader")
	}
	for _, unsure := range []bool{false, true} {
		for _, h := range info.Holders {
			if h.Mode == ModeExclusive && h.Unsure == unsure {
				return Leader{Node: h.Node, Token: h.Token, Value: h.Value, Since: h.Since, Unsure: unsure}, nil
			}
		}
	}
	return Leader{}, &Error{Op: "leader", Key: e.name, Reason: ErrNoLeader}
}

// Observe returns an iterator over the current leader and each later change, in order and with
// rising tokens: a new leader, a new value proclaimed by the leader, and with None the departure of
// a leader without a successor yet. The iteration lasts until the loop breaks, or until ctx or the
// mesh ends; then the last error is ctx's or ErrClosed. Voters push the changes; there is no
// polling.
//
//	for leader, err := range election.Observe(ctx) {
//
// An observer never delays others. An observer that is too slow, or cut off from a majority of the
// voters, misses leaders, and the next Leader has Missed set. Errors at the beginning are as with
// [Mesh.Watch].
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	e.checkUsable("Election.Observe")
	ctx = guardContext(ctx, "Election.Observe")
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
			v.apply(event)
			missed = missed || event.Kind == EventGap
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

// leader returns the exclusive holder of the key.
func (v *view) leader() Leader {
	leader := Leader{None: true}
	for _, e := range v.held {
		if e.Mode == ModeExclusive && e.Token > leader.Token { // there is at most one
			leader = Leader{Node: e.Node, Token: e.Token, Value: e.Value, Since: e.At}
		}
	}
	return leader
}

func (l *Leader) same(o *Leader) bool {
	return l.Token == o.Token && string(l.Value) == string(o.Value)
}

// leadPauseMin and leadPauseMax bound Lead's pause between two turns, so that a function that
// returns at once doesn't keep the voters busy. After a turn longer than leadPauseMax, the pause
// is leadPauseMin again.
const (
	leadPauseMin = 100 * time.Millisecond
	leadPauseMax = 10 * time.Second
)

// Lead calls f whenever this node leads, repeatedly, until ctx ends: Lead campaigns, calls f,
// resigns once f has returned, and campaigns again. So a lost leadership, a slow voter or a failed
// f costs this node a turn, never its candidacy. A turn is as with [Mesh.LeadOnce].
//
// Between two turns Lead pauses for up to 100 ms; after each turn shorter than 10 s the next pause
// is longer, up to 10 s. Lead logs each turn that ended in any other way than f returning nil, and
// each failed campaign.
//
// Lead returns once ctx has ended and f has returned. The error is ctx's, joined with the result of
// the turn that the end of ctx interrupted. Lead returns earlier only if no further try can
// succeed: [ErrClosed] when the mesh is closed, leaves or drains ([Mesh.Drain] ends a pause at
// once, and lets a turn under way end by itself), and [ErrKey], [ErrOption] or [ErrClash] for an
// invalid call. To end Lead from within f, cancel ctx. Options are those of Lock; [WithValue] shows
// others who leads.
func (m *Mesh) Lead(ctx context.Context, name string, f func(context.Context) error, opts ...Option) error {
	m.checkUsable("Mesh.Lead")
	ctx = guardContext(ctx, "Mesh.Lead")
	checkFunc(f != nil, "Mesh.Lead")
	pauses := backoff.Backoff{Least: leadPauseMin, Most: leadPauseMax}
	for {
		var failed error
		led := false
		began := m.eng.Clocks().Now().Slow
		err := m.LeadOnce(ctx, name, func(ctx context.Context) error {
			led, began = true, m.eng.Clocks().Now().Slow
			failed = f(ctx)
			return failed
		}, opts...)
		if ctx.Err() != nil {
			if led && !isOnly(err, ctx.Err()) {
				return errors.Join(err, &Error{Op: "lead", Key: name, Err: errs.OfContext(ctx)})
			}
			return &Error{Op: "lead", Key: name, Err: errs.OfContext(ctx)}
		}
		if m.Draining() {
			return errors.Join(failed, &Error{Op: "lead", Key: name, Reason: ErrClosed})
		}
		if !led && (errors.Is(err, ErrKey) || errors.Is(err, ErrOption) || errors.Is(err, ErrClash)) {
			return err
		}
		if led && m.eng.Clocks().Now().Slow.Sub(began) > leadPauseMax {
			pauses.Reset()
		}
		pause := pauses.Pause()
		again := []any{"election", name, "error", err, "next_try_in", pause}
		switch {
		case !led:
			m.eng.Log().Warn("the campaign failed; this node campaigns again", again...)
		case errors.Is(err, ErrLost):
			m.eng.Log().Warn("the leadership was lost; this node campaigns again", again...)
		case failed != nil:
			m.eng.Log().Warn("the leader's function failed; this node campaigns again", again...)
		case err != nil:
			m.eng.Log().Warn("the resignation isn't confirmed; this node campaigns again", again...)
		}
		clock.Sleep(ctx, m.eng.Clocks(), pause, m.ending)
	}
}

// isOnly reports whether err says nothing more than target: err is target, or joins it alone.
func isOnly(err, target error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err == nil || err == target
	}
	parts := joined.Unwrap()
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(part error) bool { return !isOnly(part, target) })
}

// LeadOnce waits until this node leads, and then calls f, once: a single turn of [Mesh.Lead]. f's
// context ends when ctx ends or the leadership is lost, and f should return soon afterwards. As
// long as the lease holds, the next candidate leads only after f has returned, also when f panics.
// (A lost lease can't wait for f; fencing tokens protect against this case. [Mesh.LeaseOf] has f's,
// by f's context.)
//
// The error joins the errors of f and of the resignation: [ErrLost] says that the leadership was
// lost while f ran, even if f returned nil. After any return this node is no candidate any more; to
// lead again, call [Mesh.Lead] instead. Options are those of Lock; [WithValue] shows others who
// leads.
func (m *Mesh) LeadOnce(ctx context.Context, name string, f func(context.Context) error, opts ...Option) error {
	m.checkUsable("Mesh.LeadOnce")
	ctx = guardContext(ctx, "Mesh.LeadOnce")
	checkFunc(f != nil, "Mesh.LeadOnce")
	return withOp(m.Do(ctx, name, func(ctx context.Context, _ *Lease) error { return f(ctx) }, opts...), "lead")
}
