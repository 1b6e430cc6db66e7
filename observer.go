package lockmesh

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Observer is told what happens at a node, for metrics, traces and logs; see [Config].Observer. A
// nil function isn't called, so an observer has the functions that it needs, and later versions can
// add functions. [Mesh.Stats] has what can be counted without events.
//
// LockRequested runs in the goroutine that calls Lock, before the request is made: a slow
// LockRequested delays its own caller, whatever the caller's context says, and no other. It may run
// several times at once. All other functions run in a single goroutine of the node, one after the
// other. They may be slow, block or panic, and no lease suffers: the node never waits for them.
// 4,096 events wait for a slow observer; further events are dropped, and counted in
// [Stats].Dropped. So an event may come late, and events tell when they happened. A panic is logged
// once and counted, and the call goes on as if the function had returned.
//
// The functions other than LockRequested are called in the order in which the events happened. Of
// one request, LockRequested has returned before LockGranted or LockRefused is called, and
// LockGranted before LeaseEnded. Exactly one of LockGranted and LockRefused follows each
// LockRequested, unless the event is dropped, or the node ends meanwhile.
//
// The functions may call the mesh and its leases, Lock included, of which the observer is told as
// well. Close passes on the events that wait, for a second at most, and after Close no function is
// called any more; a function that is still running then keeps its goroutine until it returns.
//
// The context of LockGranted, LockRefused and LeaseEnded is the one that LockRequested returned, or
// else the caller's: a trace can keep its span there. It may have ended.
type Observer struct {
	// LockRequested is called when the application requests a lock of any kind, with the caller's
	// context. The result is passed on with the later events of the request. It is no parent of the
	// context of the lease, and its end doesn't end the call. Nil stands for the caller's context.
	//
	// LockRequested isn't called for arguments that can't be used, with which no request is made:
	// for ErrKey, ErrOption, and a number of permits that is out of range. Nor is it called after
	// the end of the node.
	LockRequested func(context.Context, LockRequested) context.Context
	// LockGranted is called when a request was granted.
	LockGranted func(context.Context, LockGranted)
	// LockRefused is called when a request has failed, or was given up by its caller.
	LockRefused func(context.Context, LockRefused)
	// LeaseEnded is called when a granted lease has ended, except for a lease that has re-entered
	// another: the key stays held then. If Unlock has left the key to readers, LeaseEnded is called
	// when the readers no longer hold the key, with the reason and the error of that end.
	LeaseEnded func(context.Context, LeaseEnded)
	// RefreshAnswered is called when a voter has answered a refresh: five times per TTL for each
	// voter, and as often for each lease with a TTL of its own.
	RefreshAnswered func(RefreshAnswered)
	// VoterChanged is called when this node sees a voter in another state, within half a second. A
	// state that lasts for less may go unreported.
	VoterChanged func(VoterChanged)
	// ElectorateChanged is called when this node knows a new version of an electorate with dynamic
	// membership, and when the electorate is lost, or no longer lost.
	ElectorateChanged func(ElectorateChanged)
	// LoopWorked is called with the work of the node's loop, at most ten times a second.
	LoopWorked func(LoopWorked)
}

// LockRequested says that the application requests a lock: one key of one call.
type LockRequested struct {
	// Op is the call, as in [Error].Op: "lock" (also for Do, Lead and LeadOnce), "trylock",
	// "rlock", "tryrlock", "acquire", "tryacquire", "lockall" for each key, "campaign", "upgrade",
	// "enter" and "countdown".
	Op string
	// Key may be any text that the application has chosen: as a label of a metric, each key would
	// be a time series of its own.
	Key string
	// Mode is the requested mode.
	Mode Mode
	// Permits is the number of permits of a semaphore; zero for other modes.
	Permits int
	// At is the time of the call, by the wall clock.
	At time.Time
}

// LockGranted says that a request was granted.
type LockGranted struct {
	// Request is the request, as reported when the call began.
	Request LockRequested
	// At is the time of the grant, by the wall clock.
	At time.Time
	// Waited is the time from the call to the grant, by a clock that isn't set.
	Waited time.Duration
	// Token is the fencing token of the lease: the new token after an upgrade, and the token of the
	// held lease after a re-entry.
	Token uint64
	// Slot is the number of the permit of a semaphore; zero for other modes.
	Slot int
	// Reentry says that the call has entered a held lease again. The end of such a lease isn't
	// reported.
	Reentry bool
}

// LockRefused says that a request wasn't granted.
type LockRefused struct {
	// Request is the request, as reported when the call began.
	Request LockRequested
	// At is the time of the failure, by the wall clock.
	At time.Time
	// Waited is the time from the call to the failure, by a clock that isn't set.
	Waited time.Duration
	// Outcome is the reason in a word, never OutcomeGranted.
	Outcome Outcome
	// Err is the error that the call returns, an [*Error]. If the caller's context ended the call,
	// the error is the context's, too.
	Err error
}

// Outcome is the outcome of a request for a lock, in a word that can be a label of a metric.
type Outcome string

// The outcomes of requests. All but the first are named like the sentinel of the call's error.
const (
	OutcomeGranted  Outcome = "granted"
	OutcomeHeld     Outcome = "held"      // ErrHeld
	OutcomeNoQuorum Outcome = "no_quorum" // ErrNoQuorum
	OutcomeRefused  Outcome = "refused"   // ErrRefused
	OutcomeBusy     Outcome = "busy"      // ErrBusy
	OutcomeClash    Outcome = "clash"     // ErrClash
	OutcomePermits  Outcome = "permits"   // ErrPermits
	OutcomeLost     Outcome = "lost"      // ErrLost, or ErrReleased: the lease to upgrade had ended
	OutcomeClosed   Outcome = "closed"    // ErrClosed
	OutcomeError    Outcome = "error"     // any other error
)

// LeaseEnded says that a lease has ended at its node.
type LeaseEnded struct {
	// Request is the request by which the lease was granted.
	Request LockRequested
	// At is the time of the end, by the wall clock.
	At time.Time
	// Held is the time from the grant to the end, by a clock that isn't set.
	Held time.Duration
	// Token is the fencing token of the lease at the end.
	Token uint64
	// Reason is the reason in a word.
	Reason EndReason
	// Err is the result of [Lease.Err].
	Err error
}

// EndReason says why a lease has ended, in a word that can be a label of a metric.
type EndReason string

// The reasons for the end of a lease.
const (
	// EndUnlocked means that the application has unlocked the lease.
	EndUnlocked EndReason = "unlocked"
	// EndExpired means that a lease [WithoutRenewal] has reached its end.
	EndExpired EndReason = "expired"
	// EndLost means that no majority of the voters has confirmed the lease in time. The work under
	// the lease may have gone on beside that of the next holder.
	EndLost EndReason = "lost"
	// EndEvicted means that another node has ended the lease with [Mesh.Evict].
	EndEvicted EndReason = "evicted"
	// EndReleased means that [Mesh.Leave] or [Mesh.Stop] has released the lease.
	EndReleased EndReason = "released"
	// EndClosed means that [Mesh.Close] has ended the node while the lease was held.
	EndClosed EndReason = "closed"
	// EndAbandoned means that the lease was granted just as the call's context ended: the call has
	// returned an error, and no caller has had the lease.
	EndAbandoned EndReason = "abandoned"
)

// endReasons are the reasons by their number in the engine.
var endReasons = [engine.EndReasons]EndReason{
	engine.EndUnlocked: EndUnlocked, engine.EndExpired: EndExpired, engine.EndLost: EndLost, engine.EndEvicted: EndEvicted,
	engine.EndReleased: EndReleased, engine.EndClosed: EndClosed, engine.EndAbandoned: EndAbandoned,
}

// RefreshAnswered says that a voter has answered a refresh, by which the node renews its leases.
type RefreshAnswered struct {
	// Voter is the name of the voter, possibly of this node itself.
	Voter string
	// At is the time of the answer, by the wall clock.
	At time.Time
	// RoundTrip is the time from the refresh to its answer.
	RoundTrip time.Duration
	// Leases is the number of leases that last longer due to the answer. It is zero for most
	// answers of all but one voter, since a majority of answers is needed. A lease [WithoutRenewal]
	// isn't among the leases: the application extends such a lease, early or late. If Leases is
	// zero, so are the fields below.
	Leases int
	// Left is the time that was left of the first of these leases to end, just before the answer:
	// the margin by which the node has kept its leases. Less and less of it warns before leases are
	// lost.
	Left time.Duration
	// TTL is the time for which an answer upholds these leases. Left divided by TTL is about 0.8 as
	// long as all is well, and no margin was left at 0.
	TTL time.Duration
}

// VoterChanged says that this node sees a voter in another state.
type VoterChanged struct {
	// Voter is the voter's name.
	Voter string
	// At is the time at which this node noticed, by the wall clock.
	At time.Time
	// From is the state before; empty for a new voter.
	From VoterState
	// To is the present state; empty for a voter that was voted out.
	To VoterState
	// Quiet is the minimum remaining time during which a quiet voter won't count.
	Quiet time.Duration
	// Text describes the present state and its reason in a few words.
	Text string
}

// ElectorateChanged says that the electorate has changed, is lost, or no longer lost.
type ElectorateChanged struct {
	// At is the time at which this node noticed, by the wall clock.
	At time.Time
	// Electorate is the electorate from now on, as in [Status]. The observer owns it.
	Electorate ElectorateStatus
}

// LoopWorked says how much the node's loop has worked since the event before. The loop processes
// all calls and messages of the node, one after the other.
type LoopWorked struct {
	// At is the end of the last round of work, by the wall clock.
	At time.Time
	// Rounds is the number of rounds: in a round, the loop processes what has arrived.
	Rounds int
	// Busy is how long the rounds took, including the time for which the machine did other work.
	Busy time.Duration
	// Longest is how long the longest round took.
	Longest time.Duration
}

// JoinObservers returns an observer that passes each event to all the given observers, in their
// order; nil observers are left out. The context that one LockRequested returns is passed to the
// next. If an observer panics, the others are called nevertheless.
func JoinObservers(observers ...*Observer) *Observer {
	var joined *Observer
	for _, o := range observers {
		switch {
		case o == nil:
		case joined == nil:
			joined = new(Observer)
			*joined = *o
		default:
			joined = joined.and(o)
		}
	}
	return joined
}

// and returns an observer that passes each event to o and then to next.
func (o *Observer) and(next *Observer) *Observer {
	return &Observer{
		LockRequested:     bothAsked(o.LockRequested, next.LockRequested),
		LockGranted:       bothWithContext(o.LockGranted, next.LockGranted),
		LockRefused:       bothWithContext(o.LockRefused, next.LockRefused),
		LeaseEnded:        bothWithContext(o.LeaseEnded, next.LeaseEnded),
		RefreshAnswered:   both(o.RefreshAnswered, next.RefreshAnswered),
		VoterChanged:      both(o.VoterChanged, next.VoterChanged),
		ElectorateChanged: both(o.ElectorateChanged, next.ElectorateChanged),
		LoopWorked:        both(o.LoopWorked, next.LoopWorked),
	}
}

func bothAsked(a, b func(context.Context, LockRequested) context.Context) func(context.Context, LockRequested) context.Context {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, e LockRequested) (told context.Context) {
		told = ctx
		defer func() { // also after a panic of a
			if last := b(told, e); last != nil {
				told = last
			}
		}()
		if first := a(ctx, e); first != nil {
			told = first
		}
		return told
	}
}

func bothWithContext[E any](a, b func(context.Context, E)) func(context.Context, E) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(ctx context.Context, e E) {
		defer b(ctx, e) // also after a panic of a
		a(ctx, e)
	}
}

func both[E any](a, b func(E)) func(E) {
	if a == nil || b == nil {
		return either(a, b, a == nil)
	}
	return func(e E) {
		defer b(e) // also after a panic of a
		a(e)
	}
}

// either returns the second value if wanted, and else the first.
func either[T any](first, second T, wantSecond bool) T {
	if wantSecond {
		return second
	}
	return first
}

// observeReentry tells the observer of a request that has re-entered a lease, or may not.
func observeReentry(o *engine.Observation, lease *Lease, err error) {
	switch {
	case o == nil:
	case err != nil:
		o.Reentered(0, err)
	default:
		o.Reentered(lease.core().Token(), nil)
	}
}

func requestOf(e *engine.Requested) LockRequested {
	return LockRequested{Op: e.Op, Key: string(e.Key), Mode: Mode(e.Mode), Permits: int(e.Permits), At: wallTime(e.At)}
}

func voterChanged(e *engine.VoterChanged) VoterChanged {
	c := VoterChanged{Voter: string(e.Voter), At: wallTime(e.At)}
	if e.Had {
		c.From = VoterState(e.From.String())
	}
	if e.Has {
		c.To, c.Quiet, c.Text = VoterState(e.To.State.String()), e.To.Quiet, e.To.String()
	}
	return c
}

// wallTime returns a time of the wall clock for users.
func wallTime(at vote.Micros) time.Time { return time.UnixMicro(int64(at)) }

// outcomeOf returns the outcome of a request that failed with an error.
func outcomeOf(err error) Outcome {
	for _, row := range []struct {
		is      error
		outcome Outcome
	}{
		{ErrClosed, OutcomeClosed},
		{ErrHeld, OutcomeHeld},
		{ErrNoQuorum, OutcomeNoQuorum},
		{ErrRefused, OutcomeRefused},
		{ErrBusy, OutcomeBusy},
		{ErrClash, OutcomeClash},
		{ErrPermits, OutcomePermits},
		{ErrLost, OutcomeLost},
		{ErrReleased, OutcomeLost},
	} {
		if errors.Is(err, row.is) {
			return row.outcome
		}
	}
	return OutcomeError
}

// forEngine returns the engine's functions for an observer; nil if there is none. status converts
// an electorate.
func (o *Observer) forEngine(status func(engine.ElectorateView) ElectorateStatus) *engine.Observer {
	if o == nil {
		return nil
	}
	own, to := *o, new(engine.Observer) // the caller may change its observer
	o = &own
	if o.LockRequested != nil {
		to.Requested = func(ctx context.Context, e engine.Requested) context.Context {
			return o.LockRequested(ctx, requestOf(&e))
		}
	}
	if o.LockGranted != nil {
		to.Granted = func(ctx context.Context, e engine.Granted) {
			o.LockGranted(ctx, LockGranted{Request: requestOf(&e.Request), At: wallTime(e.At), Waited: e.Waited, Token: e.Token, Slot: int(e.Slot), Reentry: e.Reentry})
		}
	}
	if o.LockRefused != nil {
		to.Refused = func(ctx context.Context, e engine.Refused) {
			o.LockRefused(ctx, LockRefused{Request: requestOf(&e.Request), At: wallTime(e.At), Waited: e.Waited, Outcome: outcomeOf(e.Err), Err: e.Err})
		}
	}
	if o.LeaseEnded != nil {
		to.Ended = func(ctx context.Context, e engine.Ended) {
			o.LeaseEnded(ctx, LeaseEnded{Request: requestOf(&e.Request), At: wallTime(e.At), Held: e.Held, Token: e.Token, Reason: endReasons[e.Reason], Err: e.Err})
		}
	}
	if o.RefreshAnswered != nil {
		to.Renewed = func(e engine.Renewed) {
			o.RefreshAnswered(RefreshAnswered{Voter: string(e.Voter), At: wallTime(e.At), RoundTrip: e.RoundTrip, Leases: e.Leases, Left: e.Left, TTL: e.TTL})
		}
	}
	if o.VoterChanged != nil {
		to.VoterChanged = func(e engine.VoterChanged) { o.VoterChanged(voterChanged(&e)) }
	}
	if o.ElectorateChanged != nil {
		to.ElectorateChanged = func(e engine.ElectorateChanged) {
			o.ElectorateChanged(ElectorateChanged{At: wallTime(e.At), Electorate: status(e.Electorate)})
		}
	}
	if o.LoopWorked != nil {
		to.Worked = func(e engine.Worked) {
			o.LoopWorked(LoopWorked{At: wallTime(e.At), Rounds: e.Rounds, Busy: e.Busy, Longest: e.Longest})
		}
	}
	return to
}
