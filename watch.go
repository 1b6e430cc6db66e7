package lockmesh

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
)

const (
	// watchQueue is how many events may wait for a reader for longer than watchPatience, in
	// addition to the state at the beginning or after a gap. Beyond so many, the state is more
	// useful than the history.
	watchQueue = 256

	// watchPatience is how long more than watchQueue events may wait. The many leases of a node may
	// begin or end in one moment, before any reader can run, however fast the reader is. A busy
	// machine may stop a process for a second or two.
	watchPatience = 5 * time.Second

	// watchQueueBytes bounds the memory of the events that wait within watchPatience. The limit has
	// room for 5,000 events with the largest values and keys, and for 100,000 small events.
	watchQueueBytes = 32 << 20

	// eventBytes is about the memory of an event and of the name of its node.
	eventBytes = 300
)

// EventKind is the kind of an event of a key.
type EventKind uint8

const (
	// EventGranted means that a lease was granted.
	EventGranted EventKind = 1
	// EventReleased means that a lease was unlocked.
	EventReleased EventKind = 2
	// EventLost means that a lease ended without having been unlocked, as far as voters have
	// reported: its node has crashed or was cut off, the lease was evicted, or its set length is
	// over.
	EventLost EventKind = 3
	// EventWaiting means that a request waits: so many voters say so that, for now, there is no
	// majority left to grant the request. Requests that don't want to wait cause no event.
	EventWaiting EventKind = 4
	// EventChanged means that a lease has another value, or another mode. After an upgrade the
	// lease also has another token; Previous is the token before.
	EventChanged EventKind = 5
	// EventGap means that events may be missing here. Discard all known state; the present state
	// follows, as events with Current set, and then EventSynced.
	EventGap EventKind = 6
	// EventSynced means that the state at the beginning, or after a gap, is complete. Later events
	// are reported as they happen.
	EventSynced EventKind = 8

	eventConfirmed = EventKind(watchmerge.Confirmed) // confirmed; for DoubleBarrier, not passed to applications
)

func (k EventKind) String() string {
	switch k {
	case EventGranted:
		return "granted"
	case EventReleased:
		return "released"
	case EventLost:
		return "lost"
	case EventWaiting:
		return "waiting"
	case EventChanged:
		return "changed"
	case EventGap:
		return "gap"
	case EventSynced:
		return "synced"
	}
	return "unknown event"
}

// Event is an event of a watched key. EventGap and EventSynced have no fields but Kind and At.
type Event struct {
	Kind EventKind // what happened
	Key  string    // the key of the lease, or of the waiting request
	Node string    // the node of the lease, or of the waiting request
	// Token is the token of the lease, or of the first of the leases handed off within a node (see
	// [Mesh.Watch]); zero for a waiting request.
	Token    uint64
	Previous uint64 // the token before an upgrade; zero otherwise
	Mode     Mode   // of the lease, or of the waiting request
	Slot     int    // the number of the permit; zero for other modes
	Value    []byte // as far as known; read-only
	// Version is the version of the value, from 1; zero if there is none.
	Version uint64
	// Current says that the event describes a state from before the beginning of the watch or the
	// end of the gap, rather than something that happens now.
	Current bool
	// At is about when the event happened, or since when the state has existed, by this node's
	// clock.
	At time.Time
}

// String describes the event in a few words.
func (e Event) String() string {
	switch e.Kind {
	case EventGap, EventSynced:
		return e.Kind.String()
	case EventWaiting:
		return fmt.Sprintf("%q: %s waits", e.Key, e.Node)
	}
	return fmt.Sprintf("%q: %s by %s, token %d", e.Key, e.Kind, e.Node, e.Token)
}

// Watch is a stream of the events of a key, or of all keys with a prefix. It lasts until its
// context or the mesh ends.
type Watch struct {
	mesh           *Mesh
	sub            engine.Subscriber
	wantsConfirmed bool // also queue events of kind confirmed, when a majority has confirmed a lease
	events         chan Event

	mu       sync.Mutex
	queue    []Event
	since    time.Time     // when the oldest event of the queue was queued
	live     int           // number of queued events that aren't part of the state
	bytes    int           // memory of these events
	overflow overflowState // why no further events are queued
	wake     chan struct{} // capacity 1: wakes pump
	err      error
}

func (w *Watch) checkUsable(method string) {
	checkUsable(w != nil && w.mesh != nil, method, "Mesh.Watch")
}

// overflowState says whether a reader was too slow.
type overflowState uint8

const (
	overflowNone overflowState = iota
	// the queue was discarded; once the reader has the events before, the loop is asked for the
	// state
	overflowDropped
	overflowRequested // the loop was asked
)

// Watch reports the events of a key from now on, beginning with the present state. It returns at
// once; the caller receives the events from [Watch.Events] until ctx ends.
//
// The state at the beginning includes everything completed before the call of Watch, on any node,
// as the answer of [Mesh.Inspect] does: a lease that Lock has returned comes before [EventSynced],
// and a lease that Unlock has given back doesn't come. For this, EventSynced takes longer in two
// cases:
//
//   - If the node of a request has ended, or was cut off, in the moment between the votes for the
//     request and its own report of the grant to the voters, EventSynced waits until the request's
//     lease would be over: up to the lease's TTL. (If the request only waits, at a node that can't
//     reach a majority, EventSynced waits for MaxTTL and half a TTL at most.)
//   - If a voter can be reached from this node and not from the node of a lease, EventSynced takes
//     up to half a TTL.
//
// If the node of a lease is in touch with a majority of the voters, the lease's grant and the
// lease's end are each reported once, in the order of the tokens as far as leases exclude each
// other. A grant is reported once a majority of the voters has reported the grant. A watched key is
// not handed off among the callers of one node without the voters, so each of their leases is
// reported, too. A lease that was held when the watch began may have been handed off before; its
// events then have the token of its first caller. While WatchPrefix goes on, such a lease may be
// handed off unreported, at most 31 times in all, or until another node waits. When a node crashes,
// its leases are reported as [EventLost] when their TTL ends; when a single voter crashes or
// restarts, nothing is missed.
//
// An [EventGap] says that events may be missing, and the state follows. An EventGap has four
// causes:
//
//   - Fewer than a majority of the voters have reported without interruption: their nodes ended, or
//     a voter has forgotten events before the watching node received them. (After an interruption a
//     voter counts again once a majority of the others has reported all its events from before,
//     on a healthy mesh within some round trips.) A voter remembers 16,384 events, and as many
//     older ones of watched keys, and sends 40 in a round trip to a watch on another node, or fewer
//     if their values have over 16 KiB together: over a round trip of 40 ms that is 1,000 events a
//     second.
//   - The reader is slow: more than 256 events wait, the oldest for 5 s, or the events that wait
//     take 32 MiB. All waiting events are discarded. A slow reader never delays others.
//   - More than 16,384 keys are in doubt: a voter has reported an event of the key, and no majority
//     has confirmed the event yet.
//   - A lease is reported only after a later lease on its key. This happens after a partition.
//
// On a healthy mesh a reader that only reads gets no EventGap, also when the many leases of a node
// begin or end at once, as long as these events are no more than the voters remember.
//
// A reported state has existed, and may have changed since: for decisions, hold a lock. Errors:
// ErrKey, ErrBusy with [MaxWatches] watches open, ErrClosed, or ctx's.
func (m *Mesh) Watch(ctx context.Context, key string) (*Watch, error) {
	m.checkUsable("Mesh.Watch")
	ctx = guardContext(ctx, "Mesh.Watch")
	if err := checkKey("watch", key); err != nil {
		return nil, err
	}
	return m.watch(ctx, &Watch{sub: engine.Subscriber{Topic: engine.Topic{Key: vote.Key(key)}}})
}

// WatchPrefix is [Mesh.Watch] for all keys that begin with prefix; an empty prefix means all keys.
// Events of one key come in order; events of different keys needn't. If there are more than 65,536
// leases and waiting requests at the beginning, or after a gap, the state has only the first keys
// by name; later events are reported for all keys. A node queries four prefixes at a time, so a
// node with many prefixes waits longer for EventSynced than Watch says.
func (m *Mesh) WatchPrefix(ctx context.Context, prefix string) (*Watch, error) {
	m.checkUsable("Mesh.WatchPrefix")
	ctx = guardContext(ctx, "Mesh.WatchPrefix")
	if prefix != "" {
		if err := checkKey("watch", prefix); err != nil {
			return nil, err
		}
	}
	return m.watch(ctx, &Watch{sub: engine.Subscriber{Topic: engine.Topic{Key: vote.Key(prefix), Prefix: true}}})
}

func (m *Mesh) watch(ctx context.Context, w *Watch) (*Watch, error) {
	w.mesh, w.sub.Put, w.events, w.wake = m, w.put, make(chan Event), make(chan struct{}, 1)
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "watch", Key: string(w.sub.Topic.Key), Reason: reason, Text: text, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", errs.OfContext(ctx))
	}
	switch err := m.eng.Subscribe(&w.sub, func() { w.pump(ctx) }); err {
	case nil:
		return w, nil
	case engine.ErrFull:
		return nil, fail(ErrBusy, fmt.Sprintf("%d watches are open", MaxWatches), nil)
	default:
		return nil, fail(err, "", nil)
	}
}

// Events returns the channel of events. The channel is closed when the watch has ended; Err then
// says why.
func (w *Watch) Events() <-chan Event {
	w.checkUsable("Watch.Events")
	return w.events
}

// Err returns nil during the watch, and afterwards the reason for its end: the context's error, or
// [ErrClosed].
func (w *Watch) Err() error {
	w.checkUsable("Watch.Err")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// put queues events for the reader, and never waits.
func (w *Watch) put(events []watchmerge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for i := range events {
		e := &events[i]
		if e.Kind == watchmerge.Confirmed && !w.wantsConfirmed {
			continue
		}
		if e.Kind == watchmerge.Gap && len(w.queue) > watchQueue {
			// The reader must discard the queue; otherwise states longer than a queue would pile
			// up.
			w.discard()
		}
		if w.overflow != overflowNone { // the state that follows includes the event
			w.mesh.watchEventsDropped.Add(1)
			continue
		}
		if len(w.queue) == 0 {
			w.since = now
		}
		if !e.Current && e.Kind != watchmerge.Synced { // not part of the state
			w.live++
			w.bytes += eventBytes + len(e.View.Key) + len(e.View.Value)
		}
		w.queue = append(w.queue, event(e))
		if w.live > watchQueue && now.Sub(w.since) >= watchPatience || w.bytes > watchQueueBytes {
			w.overflow = overflowDropped
			w.discard()
		}
	}
	wakeup.Send(w.wake)
}

// discard drops the queued events, since the reader gets a gap and the state.
func (w *Watch) discard() {
	w.mesh.watchEventsDropped.Add(uint64(len(w.queue)))
	w.queue, w.live, w.bytes = nil, 0, 0
}

// catchUp queues the state for a reader that was too slow, instead of the missed events. The loop
// calls catchUp.
func (w *Watch) catchUp(state []watchmerge.Event) {
	w.mu.Lock()
	w.overflow = overflowNone
	w.mu.Unlock()
	w.put(state)
}

// requery has the voters asked for the state once more, in case a report was missed.
func (w *Watch) requery() { w.mesh.eng.Requery(&w.sub) }

// take removes and returns the queued events.
func (w *Watch) take() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queue
	w.queue, w.live, w.bytes = nil, 0, 0
	if len(queue) == 0 && w.overflow == overflowDropped {
		w.overflow = overflowRequested
		w.mesh.eng.SendState(&w.sub, w.catchUp)
	}
	return queue
}

// pump passes events to the reader, at the reader's pace, until the context or the mesh ends.
func (w *Watch) pump(ctx context.Context) {
	eng := w.mesh.eng
	defer close(w.events)
	defer eng.Unsubscribe(&w.sub)
	end := func() {
		err := &Error{Op: "watch", Key: string(w.sub.Topic.Key), Reason: ErrClosed}
		if ctx.Err() != nil {
			err.Reason, err.Err = nil, errs.OfContext(ctx)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err, w.queue = err, nil
	}
	for {
		batch := w.take()
		for _, e := range batch {
			select {
			case w.events <- e:
			case <-ctx.Done():
				end()
				return
			case <-eng.Done():
				end()
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			end()
			return
		case <-eng.Done():
			end()
			return
		}
	}
}

// event converts an event of the watch merger for users.
func event(e *watchmerge.Event) Event {
	s := &e.View
	ev := Event{
		Kind: EventKind(e.Kind), Key: string(s.Key), Node: string(s.Owner.Node), Token: uint64(s.Token), Previous: uint64(e.Previous), Mode: Mode(s.Mode), Slot: int(s.Slot),
		Value: s.Value, Version: s.Version, Current: e.Current, At: time.UnixMicro(int64(e.At)),
	}
	if ev.Kind == EventWaiting {
		ev.Token = 0
	}
	return ev
}
