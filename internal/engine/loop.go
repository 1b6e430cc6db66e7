package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// batchMax is how many ordered inputs and messages the loop processes before it looks at the
	// urgent lane again, if none of them causes much work: well below a millisecond. Their cost for
	// the node is limited as well: see node.Budget.
	batchMax = 256

	// roundsMax is how many rounds a caller's or a reader's goroutine runs before the loop's own
	// goroutine takes over.
	roundsMax = 8

	// tickMax is how many ticks in a row may leave the node with work due at once. Then the loop
	// naps, so that a fault of the node can't use a whole core.
	tickMax = 4
	napTime = time.Millisecond

	// roomyMap is the largest number of entries at which an emptied map is kept; Go's maps never
	// shrink.
	roomyMap = 4096
)

// loop is the single owner of a node's state machines. The loop takes inputs from the mailbox, lets
// the node process them, sends the node's messages and reports the node's events. The loop waits
// only for its mailbox and its timer.
//
// The owner (see ownership) runs the loop: the loop's own goroutine, a caller's goroutine or
// a reader's (see mailbox).
type loop struct {
	engine *Engine
	api    API
	clocks clock.Clocks
	log    *slog.Logger
	// nil if the application has no observer
	observer *observer
	box      *mailbox
	done     chan struct{} // closed when the loop has ended and has answered all waiting calls
	// causeClosed is the end of leases when their node is closed: the leases lapse, since no voter
	// was told and no node renews them.
	causeClosed error

	// All fields below belong to the owner.
	node                 *node.Node
	links                world.Links
	calls                table[*call]  // not granted yet
	held                 table[*Lease] // granted
	released             table[*Lease] // released by the user, and not confirmed yet
	kept                 table[*Lease] // ended, while the node keeps the key from others
	validities           map[quorum.GroupID]*groupValidity
	unreferenced         bool // some validity may have no lease
	awaiting             map[*readyWait]struct{}
	queries              map[uint64]chan<- *quorum.Event // queries, by nonce; each channel has room
	subscriptions        map[Topic]*subscription         // with readers
	subscriptionsByNonce map[uint64]*subscription        // the same subscriptions, by nonce
	watchQueries         map[uint64]watchQuery           // queries for subscriptions, by nonce
	watches              int                             // the number of open watches

	// when the keys in doubt are queried, on the slow clock; zero: no key is in doubt
	doubtsDue      vote.Instant
	lastDoubtNonce uint64 // the nonce of the subscription at which settle ended last

	releaseWaiters  []chan<- error    // notified when every release is confirmed or given up
	drainWaiters    []chan<- struct{} // notified when no lease is held or being released
	draining        bool              // new calls are refused, and held leases stay
	leaving         bool
	leaveOp         string // the call with which this node leaves
	unconfirmed     int    // releases confirmed by too few voters, since leaving
	lastUnconfirmed string // the text of the last unconfirmed release
	electorate      electorateState
	// why every call is refused: an older live process has this node's name; empty if there is none
	duplicateName string
	out           []vote.Outbound
	events        []quorum.Event
	lost          []*Lease // lost in this round
	watchEvents   []watchmerge.Event
	freeUrgent    []input
	freeOrdered   []input
	backlog       []input // from the ordered lane, not yet delivered to the node
	unflushed     []unflushedConn
	urgent        bool // at least one message of this round is urgent
	timer         timer

	tasks        []task       // to do in pieces, one after the other
	busy         bool         // the node or a task has work to continue at once
	roundStart   vote.Instant // when the last round began, on the slow clock
	yield        adaptiveYield
	voterMonitor voterMonitor

	voterStates voterStates // as the observer knows them
	ends        [EndReasons]uint64
	work        workMeter
	pauses      pauseMeter
}

// unflushedConn is a connection with messages queued in this round.
type unflushedConn struct {
	conn  vote.Conn
	later bool // every message may wait for later messages, to share a write
}

func newLoop(eng *Engine, n *node.Node) *loop {
	return &loop{
		engine: eng, api: eng.cfg.API, clocks: eng.clocks, log: eng.log, observer: eng.observer, node: n,
		box: newMailbox(), done: make(chan struct{}),
		validities: make(map[quorum.GroupID]*groupValidity), awaiting: make(map[*readyWait]struct{}), queries: make(map[uint64]chan<- *quorum.Event),
		subscriptions: make(map[Topic]*subscription), subscriptionsByNonce: make(map[uint64]*subscription), watchQueries: make(map[uint64]watchQuery),
		voterMonitor: newVoterMonitor(eng.clocks.Now().Slow, eng.cfg.MaxTTL),
		causeClosed:  eng.fail(errs.Failure{Op: "lease", Reason: errs.Lost, Err: errs.Closed}),
	}
}

// run owns the loop whenever ownership is left to the loop's own goroutine, and when the node's
// timer fires, until ctx ends.
func (l *loop) run(ctx context.Context) {
	defer l.end() // as the owner, and no goroutine becomes the next
	for {
		if l.box.tryOwn() {
			for more := true; more; more = !l.disown() {
				if ctx.Err() != nil {
					return
				}
				l.roundAndFlush()
			}
		}
		select {
		case <-l.box.wake:
		case <-ctx.Done():
			l.box.claim()
			return
		}
	}
}

// runAsOwner runs the loop for a while, in a goroutine that has become the owner and has other work
// to do.
func (l *loop) runAsOwner() {
	defer l.crashOnPanic()
	for range roundsMax {
		l.roundAndFlush()
		if l.disown() {
			return
		}
	}
	l.box.handOver()
}

// roundAndFlush runs a round and writes the queued messages. If other calls are under way, rounds
// first lets all runnable goroutines proceed: their messages then share the same writes, each of
// which costs more than a whole round.
func (l *loop) roundAndFlush() {
	l.round()
	if underWay := len(l.calls.m) + len(l.released.m); underWay > 1 && len(l.unflushed) > 0 && !l.urgent && l.yield.due(l.roundStart, underWay) {
		if l.observer != nil {
			l.work.pause(l.clocks.Now().Slow)
		}
		runtime.Gosched()
		came := l.box.waiting()
		now := l.clocks.Now().Slow
		l.yield.record(now.Sub(l.roundStart), l.roundStart, underWay, came)
		l.work.begin(now)
		if came > 0 {
			l.round()
		}
	}
	l.flush()
	l.observeWork()
	if l.busy {
		// The readers of urgent messages must get to run, on a single processor as well.
		runtime.Gosched()
	}
}

// disown gives up ownership, unless there is work to do, and reports whether ownership was given
// up.
func (l *loop) disown() bool { return len(l.backlog) == 0 && !l.busy && l.box.disown() }

// crashOnPanic makes a panic of this package end the process, as it would in a goroutine of its
// own. If the application, running the loop in its goroutine, recovered from the panic,
// ownership would stay taken and every call would wait forever.
func (l *loop) crashOnPanic() {
	if fault := recover(); fault != nil {
		text := fmt.Sprintf("lockmesh: %v\n\n%s", fault, debug.Stack())
		go panic(text)
		select {}
	}
}

// receive takes in the messages of a peer. Urgent messages go ahead of the others.
func (l *loop) receive(c vote.Conn, peer vote.SessionID, b *transport.Batch) {
	urgent := 0
	for i := range b.Messages {
		if b.Messages[i].Kind.Urgent() {
			urgent++
		}
	}
	if urgent > 0 && urgent < len(b.Messages) {
		first := transport.NewBatch()
		b.Messages = slices.DeleteFunc(b.Messages, func(m vote.Message) bool {
			if m.Kind.Urgent() {
				*first.Add() = m
			}
			return m.Kind.Urgent()
		})
		if l.box.putMessages(true, input{conn: c, from: peer, batch: first}) {
			l.runAsOwner()
		}
		urgent = 0
	}
	if l.box.putMessages(urgent > 0, input{conn: c, from: peer, batch: b}) {
		l.runAsOwner()
	}
}

// round processes the waiting inputs and hands out the results; flush has them written. The caller
// owns the loop.
func (l *loop) round() {
	// The ordered lane is taken first, so that the node gets urgent messages ahead of all ordered
	// inputs that arrived after them. A new connection is an urgent input, and the end of a
	// connection isn't.
	if len(l.backlog) == 0 {
		if in := l.box.take(false, l.freeOrdered); in != nil {
			l.backlog, l.freeOrdered = in, in
		}
	}
	urgent := l.box.take(true, l.freeUrgent)
	// The clock is read after the messages were taken: if a voter counted a session's time from
	// before the refresh was sent, the voter would end the session too early.
	now := l.clocks.Now()
	l.roundStart = now.Slow
	l.work.begin(now.Slow)
	if l.timer.fired != nil {
		l.pauses.note(now, l.timer.due)
	}
	if l.node.Next(now) <= 0 {
		l.node.Tick(now)
	}
	// All urgent inputs are processed: there are few, and none may wait for ordered inputs.
	for rest := urgent; len(rest) > 0; {
		rest = rest[l.feed(now, rest):]
	}
	l.freeUrgent = reuse(urgent, l.freeUrgent)
	l.backlog = l.backlog[l.feed(now, l.backlog):]
	if len(l.backlog) == 0 {
		l.freeOrdered = reuse(l.freeOrdered, l.freeOrdered)
	}
	l.doTasks(now)
	l.queryDoubts(now)
	l.drainNode(now)
	d := l.node.Next(now)
	for n := 0; d <= 0 && !l.node.Busy() && n < tickMax; n++ {
		l.node.Tick(now)
		l.drainNode(now)
		d = l.node.Next(now)
	}
	l.busy = l.node.Busy() || len(l.tasks) > 0
	if d <= 0 {
		d = napTime
	}
	l.logVoters(now)
	if due, waits := l.voterMonitor.due(now.Slow); waits {
		d = min(d, max(due, napTime))
	}
	if l.doubtsDue != 0 {
		d = min(d, max(l.doubtsDue.Sub(now.Slow), napTime))
	}
	l.timer.set(l.clocks, now.Slow, d, l.box.wake)
}

// reuse returns the emptied slice for the next inputs, unless the slice has grown for a burst that
// may never come again.
func reuse(used, spare []input) []input {
	if used == nil {
		return spare
	}
	if cap(used) > 2*LaneMax {
		return nil
	}
	return used[:0]
}

// feed processes inputs up to a limit of their number and work, and returns how many inputs are
// done.
func (l *loop) feed(now vote.Now, inputs []input) int {
	size, limit := 0, l.node.Work()+node.Budget
	for i := range inputs {
		if size >= batchMax || l.node.Work() >= limit {
			return i
		}
		size++
		switch in := &inputs[i]; {
		case in.batch != nil:
			for ; in.delivered < len(in.batch.Messages); in.delivered++ {
				if l.node.Work() >= limit {
					return i // the remaining messages come first in the next round
				}
				l.node.Deliver(now, in.conn, in.from, &in.batch.Messages[in.delivered])
			}
			size += len(in.batch.Messages)
			in.batch.Free()
		case in.call != nil:
			l.submit(now, in.call)
		case in.lease != nil:
			l.release(now, in.lease, EndUnlocked)
		default:
			in.do(now)
		}
		inputs[i] = input{}
	}
	return len(inputs)
}

// drainNode queues the node's messages and reports its events, until the node has no more.
func (l *loop) drainNode(now vote.Now) {
	for {
		l.out, l.events = l.node.Drain(l.out[:0], l.events[:0])
		if len(l.out) == 0 && len(l.events) == 0 {
			break
		}
		for i := range l.out {
			if o := &l.out[i]; o.Close {
				l.links.CloseConn(o.Conn)
			} else {
				l.links.Queue(o.Conn, &o.Message)
				l.noteQueued(o.Conn, o.Later)
				l.urgent = l.urgent || o.Message.Kind.Urgent()
			}
		}
		clear(l.out)
		for i := range l.events {
			l.handleEvent(now, &l.events[i])
		}
		clear(l.events)
	}
	l.logLost(now)
	l.failRefused(now)
	if l.engine.accounts.update(now, l.node) && l.node.LinkRefusal() != "" {
		// While voters hear from this process, they keep out the older process of the same name.
		l.engine.finder.Want(nil)
	}
	l.checkIdentity()
	l.answerReady(now)
	l.saveAndDial()
	l.answerEnding()
	// Only here do the node and the loop agree on which group each lease belongs to.
	if l.unreferenced {
		l.unreferenced = false
		for id, c := range l.validities {
			if c.leases == 0 {
				delete(l.validities, id)
			}
		}
	}
}

// noteQueued records that a message was queued for a connection.
func (l *loop) noteQueued(c vote.Conn, later bool) {
	for i := range l.unflushed {
		if s := &l.unflushed[i]; s.conn == c {
			s.later = s.later && later
			return
		}
	}
	l.unflushed = append(l.unflushed, unflushedConn{c, later})
}

// flush has all messages written that were queued since the last flush.
func (l *loop) flush() {
	for _, s := range l.unflushed {
		l.links.Flush(s.conn, s.later)
	}
	l.unflushed, l.urgent = l.unflushed[:0], false
}

// end answers every waiting call, since the loop reports nothing more.
func (l *loop) end() {
	for _, in := range append(l.backlog, l.box.close()...) {
		if in.call != nil {
			in.call.answer(result{err: in.call.error(errs.Closed, "", nil)})
		}
	}
	if l.timer.fired != nil {
		l.timer.stop()
	}
	for _, lease := range l.held.m {
		lease.end(&l.causeClosed)
		l.noteEnd(lease, EndClosed)
		if b := lease.pending; b != nil {
			if b.stop != nil {
				b.stop()
			}
			for _, w := range b.valueWaits {
				w.done <- l.fail(errs.Failure{Op: "setvalue", Key: string(lease.key), Reason: errs.Closed})
			}
			for _, c := range b.extensions {
				c.done <- l.fail(errs.Failure{Op: "extend", Key: string(lease.key), Reason: errs.Closed})
			}
		}
		lease.finish(lease.notReleased())
	}
	for _, lease := range l.kept.m {
		lease.pending.stop()
	}
	for _, lease := range l.released.m {
		lease.finish(lease.notReleased())
	}
	for _, c := range l.calls.m {
		c.answer(result{err: c.error(errs.Closed, "", nil)})
	}
	for w := range l.awaiting {
		w.result <- l.fail(errs.Failure{Op: w.op, Reason: errs.Closed})
	}
	l.endElectorate()
	l.held, l.released, l.calls = table[*Lease]{}, table[*Lease]{}, table[*call]{}
	close(l.done)
}

func (l *loop) fail(f errs.Failure) error { return l.api.Error(f) }
