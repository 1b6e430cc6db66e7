package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
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
// The owner of the mailbox's turn runs the loop: the loop's own goroutine, a caller's goroutine or
// a reader's (see mailbox).
type loop struct {
	engine *Engine
	api    API
	clocks clock.Clocks
	log    *slog.Logger
	box    *mailbox
	done   chan struct{} // closed when the loop has ended and has answered all waiting calls
	// causeClosed is the end of leases when their node is closed: the leases lapse, since no voter
	// was told and no node renews them.
	causeClosed error

	// All fields below belong to the owner of the turn.
	node                 *node.Node
	links                world.Links
	calls                table[*call]  // not granted yet
	held                 table[*Lease] // granted
	released             table[*Lease] // released by the user, and not confirmed yet
	kept                 table[*Lease] // ended, while the node keeps the key from others
	validities           map[quorum.GroupID]*groupValidity
	unreferenced         bool // some cover may have no lease
	awaiting             map[*readyWait]struct{}
	queries              map[uint64]chan<- *quorum.Event // queries, by nonce; each channel has room
	subscriptions        map[Topic]*subscription         // with readers
	subscriptionsByNonce map[uint64]*subscription        // the same stories, by nonce
	watchQueries         map[uint64]watchQuery           // queries for stories, by nonce
	watches              int                             // the number of open watches

	// when the keys in doubt are queried, on the slow clock; zero: no key is in doubt
	doubtsDue      vote.Instant
	lastDoubtNonce uint64 // the nonce of the story at which settle ended last

	releaseWaiters  []chan<- error // notified when every release is confirmed or given up
	leaving         bool
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

	nodeBusy     bool         // the node has work to continue at once
	roundStart   vote.Instant // when the last round began, on the slow clock
	yield        adaptiveYield
	voterMonitor voterMonitor
}

// unflushedConn is a connection with messages queued in this round.
type unflushedConn struct {
	conn  vote.Conn
	later bool // every message may wait for later messages, to share a write
}

// table maps the numbers of requests to their values. An emptied table frees its memory if it has
// been large.
type table[V any] struct {
	m    map[vote.Number]V
	most int
}

func (t *table[V]) put(n vote.Number, v V) {
	if t.m == nil {
		t.m = make(map[vote.Number]V)
	}
	t.m[n] = v
	t.most = max(t.most, len(t.m))
}

// take removes and returns an entry; it returns the zero value if there is none.
func (t *table[V]) take(n vote.Number) V {
	v := t.m[n]
	delete(t.m, n)
	if len(t.m) == 0 && t.most > roomyMap {
		t.m, t.most = nil, 0
	}
	return v
}

func newLoop(eng *Engine, n *node.Node) *loop {
	return &loop{
		engine: eng, api: eng.cfg.API, clocks: eng.clocks, log: eng.log, node: n,
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
	defer l.end() // as the owner; the turn stays taken
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
		runtime.Gosched()
		came := l.box.waiting()
		l.yield.record(l.clocks.Now().Slow.Sub(l.roundStart), l.roundStart, underWay, came)
		if came > 0 {
			l.round()
		}
	}
	l.flush()
	if l.nodeBusy {
		// The readers of urgent messages must get to run, on a single processor as well.
		runtime.Gosched()
	}
}

// disown gives up the turn, unless there is work to do. It reports whether the turn was given up.
func (l *loop) disown() bool { return len(l.backlog) == 0 && !l.nodeBusy && l.box.disown() }

// crashOnPanic makes a panic of this package end the process, as it would in a goroutine of its
// own. If the application, running the loop in its goroutine, recovered from the panic, the turn
// would stay taken and every call would wait forever.
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

// timer wakes the loop's goroutine.
type timer struct {
	fired *atomic.Bool // whether the newest setting has fired; nil while there is none
	due   vote.Instant // on the slow clock, by which timers run
	stop  func()
}

// set makes sure that wake is kicked after d at the latest.
func (t *timer) set(c clock.Clocks, now vote.Instant, d time.Duration, wake chan<- struct{}) {
	due := now.Add(d)
	if t.fired != nil {
		if !t.fired.Load() && t.due <= due {
			return // the timer fires early, and is then set again
		}
		t.stop()
	}
	fired := new(atomic.Bool)
	t.fired, t.due = fired, due
	t.stop = c.After(d, func() {
		fired.Store(true)
		wakeup.Send(wake)
	})
}

// round processes the waiting inputs and hands out the results; flush has them written. The caller
// owns the turn.
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
	l.queryDoubts(now)
	l.drainNode(now)
	d := l.node.Next(now)
	for n := 0; d <= 0 && !l.node.Busy() && n < tickMax; n++ {
		l.node.Tick(now)
		l.drainNode(now)
		d = l.node.Next(now)
	}
	l.nodeBusy = l.node.Busy()
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
			l.release(now, in.lease)
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
	if l.engine.accounts.update(now, l.node) && l.node.Bars() != "" {
		// While voters hear from this process, they keep out the older process of the same name.
		l.engine.finder.Want(nil)
	}
	l.answerReady(now)
	l.saveAndDial()
	if len(l.released.m) == 0 {
		for _, c := range l.releaseWaiters {
			c <- l.leaveError()
		}
		l.releaseWaiters = nil
	}
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

// handleEvent processes one event of the node.
func (l *loop) handleEvent(now vote.Now, e *quorum.Event) {
	switch e.Kind {
	case quorum.EventGranted:
		c := l.calls.take(e.Number)
		if c == nil { // the call was abandoned in the same round
			l.node.Release(now, e.Number)
			return
		}
		if c.upgradeOf != nil {
			l.completeUpgrade(now, c, e.Token, l.validityOf(e.Group))
			return
		}
		lease, handle := l.api.NewLease()
		lease.begin(l, c, e, l.validityOf(e.Group), now)
		l.held.put(e.Number, lease)
		if c.TTLByNode > 0 {
			l.scheduleEnd(now, lease)
		}
		c.result <- result{lease: lease, handle: handle}
	case quorum.EventFailed:
		if c := l.calls.take(e.Number); c != nil {
			if c.upgradeOf != nil {
				c.upgradeOf.ensurePending().upgrading = nil
			}
			c.fail(l.explain(now, e.Wait))
		}
	case quorum.EventLost:
		if lease := l.held.take(e.Number); lease != nil {
			lease.move(nil)
			lease.end(&causeLost)
			l.stopPending(now, lease)
			lease.finish(lease.UnlockError(errs.Lost))
			if !lease.isFixed() { // else the lease was to end by itself
				l.lost = append(l.lost, lease)
			}
		} else if lease := l.released.take(e.Number); lease != nil {
			lease.finish(lease.UnlockError(errs.Lost))
		} else if lease := l.kept.take(e.Number); lease != nil {
			lease.pending.stop()
			lease.move(nil)
		}
	case quorum.EventReleased:
		if lease := l.released.take(e.Number); lease != nil {
			if l.leaving && e.Wait.Reason != quorum.WaitNone {
				l.unconfirmed++
				l.lastUnconfirmed = e.Wait.Text
			}
			lease.finish(lease.unconfirmed(e.Wait))
		}
	case quorum.EventMoved:
		if lease := cmp.Or(l.held.m[e.Number], l.kept.m[e.Number]); lease != nil {
			lease.move(l.validityOf(e.Group))
		}
	case quorum.EventValidity:
		l.validityOf(e.Group).until.Store(int64(e.Until))
	case quorum.EventContended:
		if lease := l.held.m[e.Number]; lease != nil && e.Revoke {
			lease.Revocations().Add(string(e.Who), e.Text)
		}
	case quorum.EventEvicted:
		if lease := l.held.m[e.Number]; lease != nil {
			l.evicted(now, lease, string(e.Who), e.Text)
		}
	case quorum.EventExtended:
		if lease := l.held.m[e.Number]; lease != nil {
			lease.answerExtensions(nil)
		}
	case quorum.EventNoted:
		if lease := l.held.m[e.Number]; lease != nil {
			lease.confirmValue(e.Version)
		}
	case quorum.EventNews:
		l.receiveNews(now, e)
	case quorum.EventQueryDone, quorum.EventPassed:
		if e.Result != nil {
			l.node.Spend(len(e.Result.Views)) // assembling the answer took as long
		}
		l.receiveResult(now, e)
		if answer := l.queries[e.Nonce]; answer != nil {
			delete(l.queries, e.Nonce)
			event := *e
			event.Wait = l.explain(now, event.Wait)
			answer <- &event
		}
	case quorum.EventAlarm:
		l.log.Error("alarm: " + e.Text)
	case quorum.EventDrift:
		l.log.Error("drift: " + e.Text)
	case quorum.EventElectorate:
		l.electorateChanged(now, e)
	}
}

// validityOf returns the cover of a group. A new cover is valid for no time until the node reports
// the validity of the group.
func (l *loop) validityOf(id quorum.GroupID) *groupValidity {
	c := l.validities[id]
	if c == nil {
		c = &groupValidity{}
		l.validities[id] = c
		l.unreferenced = true
	}
	return c
}

// logLost logs all leases lost in this round together.
func (l *loop) logLost(now vote.Now) {
	if len(l.lost) == 0 {
		return
	}
	// An operator must look at the resources protected by these locks.
	if why := l.refused(now); why != "" {
		l.log.Error("leases lost: this node withdrew, and other nodes may have held the same "+
			"locks meanwhile",
			"leases", len(l.lost), "keys", someKeys(l.lost), "why", why)
	}
	first := l.lost[0]
	l.log.Warn("leases lost: they could not be renewed in time",
		"leases", len(l.lost), "key", first.key, "token", first.token.Load(), "voters", describeVoters(l.node.Voters(now)))
	clear(l.lost)
	l.lost = l.lost[:0]
	if cap(l.lost) > roomyMap {
		l.lost = nil
	}
}

// logVoters logs changes in the states of the voters.
func (l *loop) logVoters(now vote.Now) {
	if l.leaving || l.voterMonitor.isThrottled(now.Slow) {
		return
	}
	for _, n := range l.voterMonitor.check(now, l.node.Ready(), l.node.Voters(now)) {
		l.log.Log(context.Background(), n.level, n.text, n.args...)
	}
}

// maxKeysLogged is the largest number of keys named in a line of the log.
const maxKeysLogged = 50

// someKeys returns the keys of the leases in order, up to maxKeysLogged of them.
func someKeys(leases []*Lease) []string {
	keys := make([]string, 0, len(leases))
	for _, lease := range leases {
		keys = append(keys, string(lease.key))
	}
	slices.Sort(keys)
	return keys[:min(len(keys), maxKeysLogged)]
}

// submit passes a call to the node.
func (l *loop) submit(now vote.Now, c *call) {
	if l.leaving {
		c.result <- result{err: c.error(errs.Closed, "this node is leaving", nil)}
		return
	}
	if text := l.refused(now); text != "" {
		c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: text})
		return
	}
	c.since = now.Wall
	ask := c.RequestOptions
	if lease := c.upgradeOf; lease != nil {
		if l.held.m[lease.number] != lease || lease.isKeyReleased() {
			c.result <- result{err: c.error(errs.Lost, "", nil)}
			return
		}
		if vote.Mode(lease.mode.Load()) == vote.Exclusive {
			// Another call was first, after this call had seen a shared lease.
			c.result <- result{}
			return
		}
		b := lease.ensurePending()
		if b.upgrading != nil {
			c.result <- result{err: c.error(errs.Clash, "another call of Upgrade is under way", nil)}
			return
		}
		c.Value = b.value
		ask.Beside, ask.Value = lease.number, c.Value
		if lease.isFixed() {
			// The upgrade gets the remaining time, so that its voters don't keep the key long after
			// the lease's end.
			ask.Length = max(lease.options.endsAt().Sub(now.Fast), l.engine.cfg.Limits.MinTTL)
		}
		if ask.EndsAfter != 0 {
			// Other nodes see how long the lease lasts after the grant of the upgrade.
			ask.EndsAfter = lease.options.endsAt().Sub(now.Fast)
		}
		b.upgrading = c
	}
	n, err := l.node.Lock(now, ask)
	if err != nil && c.upgradeOf != nil {
		c.upgradeOf.ensurePending().upgrading = nil
	}
	switch {
	case err == nil:
		c.number = n
		l.calls.put(n, c)
	case errors.Is(err, quorum.ErrBusy):
		c.result <- result{err: c.error(errs.Busy, fmt.Sprintf("this node holds or waits for %d keys", quorum.MaxRequests), nil)}
	default:
		c.result <- result{err: c.error(err, "", nil)}
	}
}

// abandon cancels a call with an ended context, and returns an error with the reason for the call's
// waiting. If the call was granted a lease meanwhile, the lease is released. The caller passes
// ended, the reason for the context's end: the loop must not ask the context, since that runs the
// application's code, which may wait for the loop.
func (l *loop) abandon(now vote.Now, c *call, ended error) error {
	late := quorum.Wait{Reason: quorum.WaitHeld, Text: "it was granted as the context ended, and has been given back"}
	if l.calls.take(c.number) == c {
		why := l.explain(now, l.node.Why(now, c.number))
		if why.Reason == quorum.WaitNone {
			why = late // the grant is among the events that the node has yet to report
		}
		l.node.Release(now, c.number)
		if c.upgradeOf != nil {
			c.upgradeOf.ensurePending().upgrading = nil
		}
		return c.error(reasonOf(why.Reason), why.Text, ended)
	}
	// The call was answered before, and no other goroutine reads the answer.
	r := <-c.result
	lease := r.lease
	if lease == nil {
		return r.err // an upgrade granted in time stays
	}
	if a := lease.options; a != nil {
		// The caller never had the lease, so the job for which the key would be kept hasn't run. No
		// other goroutine knows the lease.
		a.requested.MinHoldByNode = 0
	}
	lease.end(&causeReleased)
	l.release(now, lease)
	return c.error(reasonOf(late.Reason), late.Text, ended)
}

// release releases a lease that has ended on this node.
func (l *loop) release(now vote.Now, lease *Lease) {
	if l.held.take(lease.number) == nil {
		return // lost before; finish was called
	}
	l.stopPending(now, lease)
	if left := lease.keptFor(now); left > 0 {
		lease.finish(nil)
		l.keepKey(lease, left)
		return
	}
	lease.move(nil)
	l.released.put(lease.number, lease)
	l.node.Release(now, lease.number)
}

// keepKey keeps the key of an ended lease from others for longer than voters can promise; the
// request lasts until then. The lease stays counted in its cover: another lease may join the same
// group, and the node reports the group's validity again only when it changes.
func (l *loop) keepKey(lease *Lease, left time.Duration) {
	l.kept.put(lease.number, lease)
	lease.ensurePending().stop = l.clocks.After(left, func() { l.box.post(false, func(now vote.Now) { l.releaseKept(now, lease) }) })
}

// releaseKept releases a key that was kept from others for the requested time.
func (l *loop) releaseKept(now vote.Now, lease *Lease) {
	if l.kept.take(lease.number) != nil {
		lease.move(nil)
		l.node.Release(now, lease.number)
	}
}

// scheduleEnd has the node end a lease when its set length is over.
func (l *loop) scheduleEnd(now vote.Now, lease *Lease) {
	b := lease.ensurePending()
	if b.stop != nil {
		b.stop() // the end has moved
	}
	b.stop = l.clocks.After(lease.options.endsAt().Sub(now.Fast), func() {
		l.box.post(false, func(now vote.Now) {
			if now.Fast < lease.options.endsAt() && l.held.m[lease.number] == lease {
				// The end has moved as the timer fired, or the timer's clock is fast.
				l.scheduleEnd(now, lease)
				return
			}
			l.endAtLength(now, lease)
		})
	})
}

// endAtLength ends a lease at the end of its set length; the node has kept the lease up until then.
func (l *loop) endAtLength(now vote.Now, lease *Lease) { l.endHeld(now, lease, &causeLost) }

// endHeld ends a held lease that its user hasn't released. The voters apply the options for such
// an end.
func (l *loop) endHeld(now vote.Now, lease *Lease, cause *error) {
	if l.held.m[lease.number] != lease {
		return
	}
	l.held.take(lease.number)
	lease.end(cause)
	l.stopPending(now, lease)
	lease.finish(lease.UnlockError(*cause))
	// Otherwise the voters' lock-delay lasts longer.
	if left := lease.keptFor(now); left > lease.request().Delay {
		l.keepKey(lease, left)
		return
	}
	lease.move(nil)
	l.node.Lapse(now, lease.number)
}

// stopPending stops the pending operations on an ended lease.
func (l *loop) stopPending(now vote.Now, lease *Lease) {
	if b := lease.pending; b != nil && b.stop != nil {
		b.stop()
		b.stop = nil
	}
	l.failPending(now, lease, CauseOf(lease.Cause()))
}

// drop releases a lease that Err has found expired.
func (l *loop) drop(now vote.Now, lease *Lease) {
	if lease.options != nil && now.Fast >= lease.options.endsAt() {
		l.endAtLength(now, lease)
		return
	}
	if l.held.take(lease.number) == nil {
		return
	}
	lease.move(nil)
	l.stopPending(now, lease)
	lease.finish(lease.UnlockError(errs.Lost))
	if !lease.isFixed() {
		l.lost = append(l.lost, lease)
	}
	l.node.Lapse(now, lease.number)
}

// releaseAll releases every lease and answers every call. gone, which must have room, is notified
// when all releases are confirmed or given up.
func (l *loop) releaseAll(now vote.Now, gone chan<- error) {
	l.leaving = true
	// The calls are answered first, since a released lease would be handed to the next call in the
	// local queue.
	l.failAll(now, func(c *call) { c.result <- result{err: c.error(errs.Closed, "this node is leaving", nil)} })
	for w := range l.awaiting {
		w.result <- l.fail(errs.Failure{Op: w.op, Reason: errs.Closed, Text: "this node is leaving"})
	}
	clear(l.awaiting)
	for _, lease := range l.held.m {
		lease.end(&causeReleased) // the first end counts, if another came just before
		l.release(now, lease)
	}
	l.releaseWaiters = append(l.releaseWaiters, gone)
}

func (l *loop) leaveError() error {
	if l.unconfirmed == 0 {
		return nil
	}
	if l.unconfirmed == 1 {
		return l.fail(errs.Failure{Op: "leave", Reason: errs.NoQuorum, Text: "one release is unconfirmed: " + l.lastUnconfirmed})
	}
	return l.fail(errs.Failure{Op: "leave", Reason: errs.NoQuorum, Text: fmt.Sprintf("%d releases are unconfirmed; of the last, %s", l.unconfirmed, l.lastUnconfirmed)})
}

// failAll cancels and answers all pending calls.
func (l *loop) failAll(now vote.Now, answer func(*call)) {
	for n, c := range l.calls.m {
		l.node.Release(now, n)
		if c.upgradeOf != nil {
			c.upgradeOf.ensurePending().upgrading = nil
		}
		answer(c)
	}
	l.calls = table[*call]{}
}

// setDuplicateName sets the reason why every call is refused; with "" no call is refused any more.
func (l *loop) setDuplicateName(now vote.Now, text string) {
	l.duplicateName = text
	if text != "" {
		l.refuseAll(now, text)
	}
}

func (l *loop) refuseAll(now vote.Now, text string) {
	l.failAll(now, func(c *call) { c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: text}) })
}

// end answers every waiting call, since the loop reports nothing more.
func (l *loop) end() {
	for _, in := range append(l.backlog, l.box.close()...) {
		if in.call != nil {
			in.call.result <- result{err: in.call.error(errs.Closed, "", nil)}
		}
	}
	if l.timer.fired != nil {
		l.timer.stop()
	}
	for _, lease := range l.held.m {
		lease.end(&l.causeClosed)
		if b := lease.pending; b != nil {
			if b.stop != nil {
				b.stop()
			}
			for _, w := range b.valueWaits {
				w.done <- l.fail(errs.Failure{Op: "setvalue", Key: string(lease.key), Reason: errs.Closed})
			}
			lease.answerExtensions(errs.Closed)
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
		c.result <- result{err: c.error(errs.Closed, "", nil)}
	}
	for w := range l.awaiting {
		w.result <- l.fail(errs.Failure{Op: w.op, Reason: errs.Closed})
	}
	l.endElectorate()
	l.held, l.released, l.calls = table[*Lease]{}, table[*Lease]{}, table[*call]{}
	close(l.done)
}

func (l *loop) fail(f errs.Failure) error { return l.api.Error(f) }

// evicted ends a lease at the request of another node.
func (l *loop) evicted(now vote.Now, lease *Lease, by, why string) {
	text := "by " + by
	if why != "" {
		text += ": " + why
	}
	cause := l.fail(errs.Failure{Op: "lease", Key: string(lease.key), Reason: errs.Evicted, Text: text, Err: errs.Lost})
	l.log.Warn("a lease was evicted", "key", string(lease.key), "token", lease.token.Load(), "by", by, "why", why)
	l.endHeld(now, lease, &cause)
}
