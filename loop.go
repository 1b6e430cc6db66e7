package lockmesh

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

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// batchMax is about how many ordered inputs and messages are taken in before the urgent lane is looked at again: well below a millisecond's work.
	batchMax = 256

	// roundsMax is how many rounds a goroutine does that has other things to do, before the loop's own goes on.
	roundsMax = 8

	// tickMax is how many ticks in a row may leave the node with something to do at once. Then the loop naps, so that a fault of the node's can't take
	// a whole core.
	tickMax = 4
	napTime = time.Millisecond

	// roomyMap is how many entries a map may have had and still be kept once it is empty; Go's maps never shrink.
	roomyMap = 4096
)

// loop is the one owner of a node's state machines. It takes in what comes, lets the node decide, and hands out what the node says.
// It never waits for anyone but its mailbox and its timer.
//
// It is run by whoever has the mailbox's turn: a goroutine of its own, or a caller's, or a reader's.
type loop struct {
	mesh   *Mesh
	clocks clocks
	log    *slog.Logger
	box    *mailbox
	done   chan struct{} // closed when the loop has ended and everyone has been told

	// All below is that of whoever has the turn.
	node     *node.Node
	links    world.Links
	calls    table[*call]  // not granted yet
	held     table[*Lease] // granted
	released table[*Lease] // given back, and not yet confirmed
	kept     table[*Lease] // given back by its user, and kept from others for a while
	covers   map[quorum.GroupID]*cover
	bare     bool // some cover may have no lease
	awaiting map[*readyWait]struct{}
	looks    map[uint64]chan<- *quorum.Event // by nonce; each has room for its answer
	watches  map[uint64]*Watch               // by nonce
	pictures map[uint64]*Watch               // that wait for a look, by its nonce
	settled  []chan<- error                  // told once nothing is released and unconfirmed
	leaving  bool
	unheard  int    // releases that too few voters confirmed, since leaving
	why      string // of the last of them
	voting   voting
	namesake string // another live process has our name, and we came later: why every call is refused
	out      []vote.Outbound
	events   []quorum.Event
	lost     []*Lease // in this round
	told     []quorum.Told
	spareU   []input
	spareO   []input
	backlog  []input // taken from the ordered lane, not yet fed
	said     []spoken
	urgent   bool // of what was said, something is
	timer    timer

	at       vote.Instant // when the last round began, on the slow clock
	courtesy courtesy
}

// spoken is a connection to which something was said in this round.
type spoken struct {
	conn  vote.Conn
	later bool // all of it may wait for other words
}

// table maps numbers of requests. Once it is empty it gives back the room that a crowd has taken.
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

// take removes and returns an entry; the zero value when there is none.
func (t *table[V]) take(n vote.Number) V {
	v := t.m[n]
	delete(t.m, n)
	if len(t.m) == 0 && t.most > roomyMap {
		t.m, t.most = nil, 0
	}
	return v
}

func newLoop(m *Mesh, n *node.Node) *loop {
	return &loop{
		mesh: m, clocks: m.clocks, log: m.log, node: n,
		box: newMailbox(), done: make(chan struct{}),
		covers: make(map[quorum.GroupID]*cover), awaiting: make(map[*readyWait]struct{}), looks: make(map[uint64]chan<- *quorum.Event),
		watches: make(map[uint64]*Watch), pictures: make(map[uint64]*Watch),
	}
}

// run takes the turn whenever it is left to it, and when the node's time has come, until ctx ends.
func (l *loop) run(ctx context.Context) {
	defer l.end() // with the turn, for ever
	for {
		if l.box.turn() {
			for more := true; more; more = !l.pass() {
				if ctx.Err() != nil {
					return
				}
				l.rounds()
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

// work runs the loop for a while, for a goroutine that has got the turn and has other things to do.
func (l *loop) work() {
	defer l.guard()
	for range roundsMax {
		l.rounds()
		if l.pass() {
			return
		}
	}
	l.box.handOver()
}

// rounds does a round, and writes what was said. Where other calls are under way it first lets every goroutine go on that can: what they have to say then goes
// into the same writes, each of which costs more than a whole round.
func (l *loop) rounds() {
	l.round()
	if len(l.calls.m)+len(l.released.m) > 1 && len(l.said) > 0 && !l.urgent && l.courtesy.due(l.at) {
		runtime.Gosched()
		came := l.box.waiting()
		l.courtesy.shown(l.clocks.now().Slow.Sub(l.at), l.at, came)
		if came > 0 {
			l.round()
		}
	}
	l.flush()
}

// pass gives up the turn, unless there is something to do.
func (l *loop) pass() bool { return len(l.backlog) == 0 && l.box.pass() }

// guard makes sure that a fault of ours ends the process, as it does in a goroutine of our own: recovered by the application whose goroutine it was, it would leave
// the turn taken, and everyone waiting.
func (l *loop) guard() {
	if fault := recover(); fault != nil {
		text := fmt.Sprintf("lockmesh: %v\n\n%s", fault, debug.Stack())
		go panic(text)
		select {}
	}
}

// receive takes in what a peer has said.
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
		if l.box.messages(true, input{conn: c, from: peer, batch: first}) {
			l.work()
		}
		urgent = 0
	}
	if l.box.messages(urgent > 0, input{conn: c, from: peer, batch: b}) {
		l.work()
	}
}

// timer wakes the loop's goroutine.
type timer struct {
	fired *atomic.Bool // of the newest setting; nil while there is none
	due   vote.Instant // of the slow clock, by which timers run
	stop  func()
}

// set makes sure that wake is kicked after d at the latest.
func (t *timer) set(c clocks, now vote.Instant, d time.Duration, wake chan<- struct{}) {
	due := now.Add(d)
	if t.fired != nil {
		if !t.fired.Load() && t.due <= due {
			return // it fires early, and is then set anew
		}
		t.stop()
	}
	fired := new(atomic.Bool)
	t.fired, t.due = fired, due
	t.stop = c.after(d, func() {
		fired.Store(true)
		kick(wake)
	})
}

// round takes in what waits, and hands out what comes of it; flush has it written. The caller has the turn.
func (l *loop) round() {
	// The ordered lane first: then what is urgent and was there before any of that is fed before it. A connection is urgent, and its end isn't.
	if len(l.backlog) == 0 {
		if in := l.box.take(false, l.spareO); in != nil {
			l.backlog, l.spareO = in, in
		}
	}
	urgent := l.box.take(true, l.spareU)
	// The clock is read after the messages were taken: a voter that counts a session's time from before its refresh was sent
	// would let it end too early.
	now := l.clocks.now()
	l.at = now.Slow
	if l.node.Next(now) <= 0 {
		l.node.Tick(now)
	}
	for rest := urgent; len(rest) > 0; { // all of it: there is little, and none of it may wait for what isn't urgent
		rest = rest[l.feed(now, rest):]
	}
	l.spareU = reuse(urgent, l.spareU)
	l.backlog = l.backlog[l.feed(now, l.backlog):]
	if len(l.backlog) == 0 {
		l.spareO = reuse(l.spareO, l.spareO)
	}
	l.handOut(now)
	d := l.node.Next(now)
	for n := 0; d <= 0 && n < tickMax; n++ {
		l.node.Tick(now)
		l.handOut(now)
		d = l.node.Next(now)
	}
	if d <= 0 {
		d = napTime
	}
	l.timer.set(l.clocks, now.Slow, d, l.box.wake)
}

// reuse returns the emptied slice for the next taking, unless it has grown for a crowd that may never come again.
func reuse(used, spare []input) []input {
	if used == nil {
		return spare
	}
	if cap(used) > 2*laneMax {
		return nil
	}
	return used[:0]
}

// feed takes in about as many inputs as go into one batch, and returns how many they were.
func (l *loop) feed(now vote.Now, inputs []input) int {
	size := 0
	for i := range inputs {
		if size >= batchMax {
			return i
		}
		size++
		switch in := &inputs[i]; {
		case in.batch != nil:
			for j := range in.batch.Messages {
				l.node.Deliver(now, in.conn, in.from, &in.batch.Messages[j])
			}
			size += len(in.batch.Messages)
			in.batch.Free()
		case in.call != nil:
			l.ask(now, in.call)
		case in.lease != nil:
			l.release(now, in.lease)
		default:
			in.do(now)
		}
		inputs[i] = input{}
	}
	return len(inputs)
}

// handOut queues what the node wants sent and tells what it wants told, until it has nothing more to say.
func (l *loop) handOut(now vote.Now) {
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
				l.say(o.Conn, o.Later)
				l.urgent = l.urgent || o.Message.Kind.Urgent()
			}
		}
		clear(l.out)
		for i := range l.events {
			l.tell(now, &l.events[i])
		}
		clear(l.events)
	}
	l.tellLost(now)
	l.tellReady(now)
	l.keepUp()
	if len(l.released.m) == 0 {
		for _, c := range l.settled {
			c <- l.leaveError()
		}
		l.settled = nil
	}
	// Only here the node and the loop agree about who is covered by what.
	if l.bare {
		l.bare = false
		for id, c := range l.covers {
			if c.leases == 0 {
				delete(l.covers, id)
			}
		}
	}
}

// say notes that something was said to a connection.
func (l *loop) say(c vote.Conn, later bool) {
	for i := range l.said {
		if s := &l.said[i]; s.conn == c {
			s.later = s.later && later
			return
		}
	}
	l.said = append(l.said, spoken{c, later})
}

// flush has written what was said since the last time.
func (l *loop) flush() {
	for _, s := range l.said {
		l.links.Flush(s.conn, s.later)
	}
	l.said, l.urgent = l.said[:0], false
}

// tell passes one event on.
func (l *loop) tell(now vote.Now, e *quorum.Event) {
	switch e.Kind {
	case quorum.EventGranted:
		c := l.calls.take(e.Number)
		if c == nil { // it was taken back in the same round
			l.node.Release(now, e.Number)
			return
		}
		if c.raises != nil {
			l.raise(now, c, e.Token, l.coverOf(e.Group))
			return
		}
		lease := newLease(l.mesh, c, e, l.coverOf(e.Group), now)
		l.held.put(e.Number, lease)
		if c.ends > 0 {
			lease.more().stop = l.clocks.after(c.ends, func() { l.box.post(false, func(now vote.Now) { l.outlived(now, lease) }) })
		}
		c.result <- result{lease: lease}
	case quorum.EventFailed:
		if c := l.calls.take(e.Number); c != nil {
			if c.raises != nil {
				c.raises.more().upgrading = nil
			}
			c.fail(l.explain(now, e.Wait))
		}
	case quorum.EventLost:
		if lease := l.held.take(e.Number); lease != nil {
			lease.move(nil)
			lease.end(&errLost)
			l.over(now, lease)
			lease.finish(lease.unlockError(ErrLost))
			if !lease.isFixed() { // it was to end by itself
				l.lost = append(l.lost, lease)
			}
		} else if lease := l.released.take(e.Number); lease != nil {
			lease.finish(lease.unlockError(ErrLost))
		} else if lease := l.kept.take(e.Number); lease != nil {
			lease.busy.stop()
			lease.move(nil)
		}
	case quorum.EventReleased:
		if lease := l.released.take(e.Number); lease != nil {
			if l.leaving && e.Wait.Reason != quorum.WaitNone {
				l.unheard++
				l.why = e.Wait.Text
			}
			lease.finish(lease.unconfirmed(e.Wait))
		}
	case quorum.EventMoved:
		if lease := cmp.Or(l.held.m[e.Number], l.kept.m[e.Number]); lease != nil {
			lease.move(l.coverOf(e.Group))
		}
	case quorum.EventCover:
		l.coverOf(e.Group).until.Store(int64(e.Until))
	case quorum.EventWanted:
		if lease := l.held.m[e.Number]; lease != nil && e.Urge {
			lease.revoke(Revocation{Node: string(e.Who), Why: e.Text})
		}
	case quorum.EventNoted:
		if lease := l.held.m[e.Number]; lease != nil {
			lease.noted(e.Version)
		}
	case quorum.EventNews:
		l.hearNews(now, e)
	case quorum.EventShown, quorum.EventPassed:
		l.hearPicture(now, e)
		if answer := l.looks[e.Nonce]; answer != nil {
			delete(l.looks, e.Nonce)
			event := *e
			event.Wait = l.explain(now, event.Wait)
			answer <- &event
		}
	case quorum.EventAlarm:
		l.log.Error("alarm: " + e.Text)
	case quorum.EventDrift:
		l.log.Error("drift: " + e.Text)
	case quorum.EventElectorate:
		l.reelected(now, e)
	}
}

// coverOf returns the cover of a group. A new one covers nothing until the node says so.
func (l *loop) coverOf(id quorum.GroupID) *cover {
	c := l.covers[id]
	if c == nil {
		c = &cover{}
		l.covers[id] = c
		l.bare = true
	}
	return c
}

// tellLost logs what was lost in this round, in one line however much it is.
func (l *loop) tellLost(now vote.Now) {
	if len(l.lost) == 0 {
		return
	}
	first := l.lost[0]
	l.log.Warn("leases lost: they could not be renewed in time",
		"leases", len(l.lost), "key", first.key, "token", first.token.Load(), "voters", census(l.node.Voters(now)))
	clear(l.lost)
	l.lost = l.lost[:0]
	if cap(l.lost) > roomyMap {
		l.lost = nil
	}
}

// ask feeds a call to the node.
func (l *loop) ask(now vote.Now, c *call) {
	if l.leaving {
		c.result <- result{err: c.error(ErrClosed, "this node is leaving", nil)}
		return
	}
	if l.namesake != "" {
		c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: l.namesake})
		return
	}
	c.since = now.Wall
	ask := c.Ask
	if lease := c.raises; lease != nil {
		if l.held.m[lease.number] != lease || lease.Err() != nil {
			c.result <- result{err: c.error(ErrLost, "", nil)}
			return
		}
		if lease.Mode() == Exclusive { // another call was first, after this one had seen that it was shared
			c.result <- result{lease: lease}
			return
		}
		b := lease.more()
		if b.upgrading != nil {
			c.result <- result{err: c.error(ErrClash, "another call of Upgrade is under way", nil)}
			return
		}
		c.Value = b.value
		ask.Beside, ask.Value = lease.number, c.Value
		if lease.isFixed() { // what is left of it, so that its voters don't keep the key for long after its end
			ask.Length = max(lease.apart.last.Sub(now.Fast), MinTTL)
		}
		b.upgrading = c
	}
	n, err := l.node.Lock(now, ask)
	if err != nil && c.raises != nil {
		c.raises.more().upgrading = nil
	}
	switch {
	case err == nil:
		c.number = n
		l.calls.put(n, c)
	case errors.Is(err, quorum.ErrBusy):
		c.result <- result{err: c.error(ErrBusy, fmt.Sprintf("this node holds or waits for %d keys", quorum.MaxRequests), nil)}
	default:
		c.result <- result{err: c.error(err, "", nil)}
	}
}

// abandon takes a call back whose context has ended, and returns the error that says what it was waiting for. A lease that it was
// granted meanwhile is given back. The loop is told why the context has ended: to ask it would be to call the application's code, which may wait for the loop.
func (l *loop) abandon(now vote.Now, c *call, ended error) error {
	late := quorum.Wait{Reason: quorum.WaitHeld, Text: "it was granted as the context ended, and has been given back"}
	if l.calls.take(c.number) == c {
		why := l.explain(now, l.node.Why(now, c.number))
		if why.Reason == quorum.WaitNone {
			why = late // the grant is among what the node has yet to say
		}
		l.node.Release(now, c.number)
		if c.raises != nil {
			c.raises.more().upgrading = nil
		}
		return c.error(reasonOf(why.Reason), why.Text, ended)
	}
	// It was answered before. Nobody else reads the answer any more.
	r := <-c.result
	if r.lease == nil || c.raises != nil {
		return r.err // an upgrade that came in time stays
	}
	if a := r.lease.apart; a != nil {
		a.wish.lasts = 0 // nobody had it, so nobody has done what the key was to be kept for; and nobody else knows of the lease
	}
	r.lease.end(&errReleased)
	l.release(now, r.lease)
	return c.error(reasonOf(late.Reason), late.Text, ended)
}

// release gives a lease back that has ended here.
func (l *loop) release(now vote.Now, lease *Lease) {
	if l.held.take(lease.number) == nil {
		return // lost before; finish was called
	}
	l.over(now, lease)
	if left := lease.keptFor(now); left > 0 {
		lease.finish(nil)
		l.keep(lease, left)
		return
	}
	lease.move(nil)
	l.released.put(lease.number, lease)
	l.node.Release(now, lease.number)
}

// keep keeps the key of a lease that has ended from others for longer than voters can promise, so the request goes on until then. It stays under its cover:
// another lease may come under that, and the node tells of it anew only when it changes.
func (l *loop) keep(lease *Lease, left time.Duration) {
	l.kept.put(lease.number, lease)
	lease.more().stop = l.clocks.after(left, func() { l.box.post(false, func(now vote.Now) { l.letGo(now, lease) }) })
}

// letGo gives back a key that was kept from others for its time.
func (l *loop) letGo(now vote.Now, lease *Lease) {
	if l.kept.take(lease.number) != nil {
		lease.move(nil)
		l.node.Release(now, lease.number)
	}
}

// outlived ends a lease whose set length is over, and which the node has kept up until then.
func (l *loop) outlived(now vote.Now, lease *Lease) {
	if l.held.take(lease.number) == nil {
		return
	}
	lease.end(&errLost)
	l.over(now, lease)
	lease.finish(lease.unlockError(ErrLost))
	if left := lease.keptFor(now); left > lease.wish().Delay { // else what the voters make of the delay lasts longer
		l.keep(lease, left)
		return
	}
	lease.move(nil)
	l.node.Lapse(now, lease.number)
}

// over stops what goes on about a lease that has ended.
func (l *loop) over(now vote.Now, lease *Lease) {
	if b := lease.busy; b != nil && b.stop != nil {
		b.stop()
		b.stop = nil
	}
	l.forgetUpgrade(now, lease, causeOf(lease.cause()))
}

// drop gives a lease back of which a reading of the clock has said that it is lost.
func (l *loop) drop(now vote.Now, lease *Lease) {
	if lease.apart != nil && now.Fast >= lease.apart.last {
		l.outlived(now, lease)
		return
	}
	if l.held.take(lease.number) == nil {
		return
	}
	lease.move(nil)
	l.over(now, lease)
	lease.finish(lease.unlockError(ErrLost))
	if !lease.isFixed() {
		l.lost = append(l.lost, lease)
	}
	l.node.Lapse(now, lease.number)
}

// giveAllBack releases every lease and answers every call. gone, which must have room, hears once all releases are confirmed or given up.
func (l *loop) giveAllBack(now vote.Now, gone chan<- error) {
	l.leaving = true
	// The calls first: a lease is passed on to whoever waits for it here.
	l.failAll(now, func(c *call) { c.result <- result{err: c.error(ErrClosed, "this node is leaving", nil)} })
	for w := range l.awaiting {
		w.result <- &Error{Op: "ready", Reason: ErrClosed, Text: "this node is leaving"}
	}
	clear(l.awaiting)
	for _, lease := range l.held.m {
		lease.end(&errReleased) // no matter if it has ended otherwise just now: it is over
		l.release(now, lease)
	}
	l.settled = append(l.settled, gone)
}

func (l *loop) leaveError() error {
	if l.unheard == 0 {
		return nil
	}
	if l.unheard == 1 {
		return &Error{Op: "leave", Reason: ErrNoQuorum, Text: "one release is unconfirmed: " + l.why}
	}
	return &Error{Op: "leave", Reason: ErrNoQuorum, Text: fmt.Sprintf("%d releases are unconfirmed; of the last, %s", l.unheard, l.why)}
}

// failAll takes all pending calls back and answers them.
func (l *loop) failAll(now vote.Now, answer func(*call)) {
	for n, c := range l.calls.m {
		l.node.Release(now, n)
		if c.raises != nil {
			c.raises.more().upgrading = nil
		}
		answer(c)
	}
	l.calls = table[*call]{}
}

// setNamesake says why every call is refused, or with "" that none is any more.
func (l *loop) setNamesake(now vote.Now, text string) {
	l.namesake = text
	if text != "" {
		l.failAll(now, func(c *call) { c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: text}) })
	}
}

// errLostByClose is how leases end when their node is closed under them: nobody was told, so they lapse, and nobody renews them.
var errLostByClose error = &Error{Op: "lease", Reason: ErrLost, Err: ErrClosed}

// end tells everyone who waits that nothing more will come.
func (l *loop) end() {
	for _, in := range append(l.backlog, l.box.close()...) {
		if in.call != nil {
			in.call.result <- result{err: in.call.error(ErrClosed, "", nil)}
		}
	}
	if l.timer.fired != nil {
		l.timer.stop()
	}
	for _, lease := range l.held.m {
		lease.end(&errLostByClose)
		if b := lease.busy; b != nil {
			if b.stop != nil {
				b.stop()
			}
			for _, w := range b.setting {
				w.done <- &Error{Op: "setvalue", Key: lease.Key(), Reason: ErrClosed}
			}
		}
		lease.finish(lease.notReleased())
	}
	for _, lease := range l.kept.m {
		lease.busy.stop()
	}
	for _, lease := range l.released.m {
		lease.finish(lease.notReleased())
	}
	for _, c := range l.calls.m {
		c.result <- result{err: c.error(ErrClosed, "", nil)}
	}
	for w := range l.awaiting {
		w.result <- &Error{Op: "ready", Reason: ErrClosed}
	}
	l.endFollowing()
	l.held, l.released, l.calls = table[*Lease]{}, table[*Lease]{}, table[*call]{}
	close(l.done)
}
