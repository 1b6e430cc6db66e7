package engine

import (
	"context"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/eventqueue"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Observer has the functions of the application's observer; a nil function isn't called. The
// goroutine of a caller calls Requested, before the loop knows of the request. The goroutine of the
// event queue calls the others. The loop calls none.
type Observer struct {
	Requested         func(context.Context, Requested) context.Context
	Granted           func(context.Context, Granted)
	Refused           func(context.Context, Refused)
	Ended             func(context.Context, Ended)
	Renewed           func(Renewed)
	VoterChanged      func(VoterChanged)
	ElectorateChanged func(ElectorateChanged)
	Worked            func(Worked)
}

// Requested says that the application requests a key.
type Requested struct {
	Op      string // as in errors
	Key     vote.Key
	Mode    vote.Mode
	Permits uint16
	At      vote.Micros
}

// Granted says that a request was granted.
type Granted struct {
	Request Requested
	At      vote.Micros
	Waited  time.Duration
	Token   uint64
	Slot    vote.Slot
	Reentry bool // a lease that the caller's context carries was entered again
}

// Refused says that a request wasn't granted.
type Refused struct {
	Request Requested
	At      vote.Micros
	Waited  time.Duration
	Err     error // the error of the call
}

// Ended says that a granted lease has ended.
type Ended struct {
	Request Requested // the request for the lease
	At      vote.Micros
	Held    time.Duration
	Token   uint64
	Reason  EndReason
	Err     error // the result of Err
}

// Renewed says that a voter has acknowledged a refresh.
type Renewed struct {
	Voter vote.NodeID
	At    vote.Micros
	quorum.Renewal
}

// VoterChanged says that the state of a voter has changed. A voter that is new in the electorate
// had no state, and neither has a voter that was voted out.
type VoterChanged struct {
	Voter    vote.NodeID
	At       vote.Micros
	Had, Has bool // there is a state before, and a state now
	From     quorum.State
	To       quorum.VoterState
}

// ElectorateChanged says that the electorate has another version, is lost, or no longer lost.
type ElectorateChanged struct {
	At         vote.Micros
	Electorate ElectorateView
}

// observer passes events to the application's observer.
type observer struct {
	Observer
	queue  *eventqueue.Queue
	clocks clock.Clocks
}

// newObserver starts the event queue's goroutine; closing the queue ends the goroutine.
func (eng *Engine) newObserver() *observer {
	return &observer{
		Observer: *eng.cfg.Observer, clocks: eng.clocks,
		queue: eventqueue.New(func(fault any, stack []byte) {
			eng.log.Error("the observer panicked; further panics are counted only", "panic", fault, "stack", string(stack))
		}),
	}
}

// Observation is a request of the application, as the observer is told of the request, and of the
// request's lease. It stands for the context of the request. A request that isn't observed has none
// (nil).
type Observation struct {
	context.Context // the caller's
	observer        *observer
	told            context.Context // passed to the observer with each later event of the request
	request         Requested
	askedAt         vote.Instant // on the slow clock, as grantedAt
	grantedAt       vote.Instant // owned by the loop
}

// Ask tells the observer of a request before the request is made. The caller's goroutine runs the
// observer's code; without an observer, and after the end of the node, Ask returns nil at once.
func (eng *Engine) Ask(ctx context.Context, op string, r *Request) *Observation {
	o := eng.observer
	if o == nil || o.queue.Closed() {
		return nil
	}
	now := o.clocks.Now()
	asked := &Observation{
		Context: ctx, observer: o, told: ctx, askedAt: now.Slow,
		request: Requested{Op: op, Key: r.Key, Mode: max(r.Mode, vote.Exclusive), Permits: r.Permits, At: now.Wall},
	}
	if o.Requested != nil {
		o.queue.Call(func() {
			if told := o.Requested(ctx, asked.request); told != nil {
				asked.told = told
			}
		})
	}
	return asked
}

// Reentered tells the observer that the request has entered a held lease again, or why not.
func (o *Observation) Reentered(token uint64, err error) {
	if err != nil {
		o.refused(err)
	} else {
		o.granted(token, 0, true)
	}
}

// granted tells the observer that the request was granted.
func (o *Observation) granted(token uint64, slot vote.Slot, reentry bool) {
	now := o.observer.clocks.Now()
	o.grantedAt = now.Slow
	if tell := o.observer.Granted; tell != nil {
		e := Granted{Request: o.request, At: now.Wall, Waited: now.Slow.Sub(o.askedAt), Token: token, Slot: slot, Reentry: reentry}
		o.observer.queue.Put(func() { tell(o.told, e) })
	}
}

// refused tells the observer that the request wasn't granted.
func (o *Observation) refused(err error) {
	if o == nil || o.observer.Refused == nil {
		return
	}
	now, tell := o.observer.clocks.Now(), o.observer.Refused
	e := Refused{Request: o.request, At: now.Wall, Waited: now.Slow.Sub(o.askedAt), Err: err}
	o.observer.queue.Put(func() { tell(o.told, e) })
}

// ended tells the observer that the request's lease has ended.
func (o *Observation) ended(token uint64, reason EndReason, err error) {
	if o.observer.Ended == nil {
		return
	}
	now, tell := o.observer.clocks.Now(), o.observer.Ended
	e := Ended{Request: o.request, At: now.Wall, Held: now.Slow.Sub(o.grantedAt), Token: token, Reason: reason, Err: err}
	o.observer.queue.Put(func() { tell(o.told, e) })
}

// observeAnswer tells the observer of the answer to a call, before the caller knows the answer.
func (c *call) observeAnswer(r result) {
	switch {
	case c.Observation == nil:
	case r.err != nil:
		c.Observation.refused(r.err)
	case r.lease != nil:
		c.Observation.granted(r.lease.Token(), r.lease.Slot(), false)
	default: // an upgrade
		c.Observation.granted(c.upgradeOf.Token(), 0, false)
	}
}

// renewed tells the observer of a voter's answer to a refresh.
func (l *loop) renewed(now vote.Now, e *quorum.Event) {
	if l.observer == nil || l.observer.Renewed == nil {
		return
	}
	tell, told := l.observer.Renewed, Renewed{Voter: e.Who, At: now.Wall, Renewal: *e.Renewal}
	l.observer.queue.Put(func() { tell(told) })
}

// observeElectorate tells the observer of a change of the electorate.
func (l *loop) observeElectorate(now vote.Now) {
	if l.observer == nil || l.observer.ElectorateChanged == nil {
		return
	}
	tell, told := l.observer.ElectorateChanged, ElectorateChanged{At: now.Wall, Electorate: l.electorateView(now)}
	l.observer.queue.Put(func() { tell(told) })
}

// observeVoters tells the observer which voters have changed their states since the last call.
func (l *loop) observeVoters(now vote.Now, voters []quorum.VoterState) {
	if l.observer == nil || l.observer.VoterChanged == nil {
		return
	}
	tell := l.observer.VoterChanged
	for _, e := range l.voterStates.update(voters) {
		e.At = now.Wall
		l.observer.queue.Put(func() { tell(e) })
	}
}
