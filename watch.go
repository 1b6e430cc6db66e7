package lockmesh

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	// MaxWatches is how many watches a node may have open at once. Each costs every voter a place, and this node a goroutine.
	MaxWatches = 1024

	// watchQueue is how many events wait for a slow reader, besides what there was when it began or after a gap. Some hundred are what a burst of
	// a busy key makes; beyond them the state says more than the story.
	watchQueue = 256
)

// EventKind says what has happened to a key.
type EventKind uint8

const (
	// Granted : a lease was granted.
	Granted = EventKind(quorum.ToldGranted)
	// Released : a lease was given back.
	Released = EventKind(quorum.ToldReleased)
	// Lost : a lease ended without having been given back, as far as anybody has told: its node has died or was cut off, or its set length is over.
	Lost = EventKind(quorum.ToldLost)
	// Waiting : a request waits: so many voters say so that no majority is left to grant it for now. Requests that don't mean to wait aren't told of.
	Waiting = EventKind(quorum.ToldWaiting)
	// Changed : a lease has another value, or another mode. After an upgrade it also has another token, and Was is the one before.
	Changed = EventKind(quorum.ToldChanged)
	// Gap : events may be missing here. Forget what you know; what there is follows, with Current, and then Synced.
	Gap = EventKind(quorum.ToldGap)
	// Synced : all that there was has been told, at the beginning or after a gap. What follows is told as it happens.
	Synced = EventKind(quorum.ToldSynced)

	firm = EventKind(quorum.ToldFirm) // see DoubleBarrier; not told to applications
)

func (k EventKind) String() string {
	switch k {
	case Granted:
		return "granted"
	case Released:
		return "released"
	case Lost:
		return "lost"
	case Waiting:
		return "waiting"
	case Changed:
		return "changed"
	case Gap:
		return "gap"
	case Synced:
		return "synced"
	}
	return "unknown event"
}

// Event is one thing that has happened to a key that is watched. Gap and Synced have none but Kind and At.
type Event struct {
	Kind EventKind
	Key  string
	Node string // of the lease or of the request that waits
	// Token is the first that the lease was given, as in [Holder]; zero for one that waits.
	Token uint64
	Was   uint64 // the token before an upgrade; zero otherwise
	Mode  Mode
	Slot  int    // which of the permits; zero for other modes
	Value []byte // as far as it is known; the reader must not change it
	// Version is that of the value, from 1; zero when none was given.
	Version uint64
	// Current says that it is so, and was before the watch began or the gap ended, rather than that it happens now.
	Current bool
	// At is about when it happened, or since when it is so, by this node's clock.
	At time.Time
}

// String tells the event in a few words.
func (e Event) String() string {
	switch e.Kind {
	case Gap, Synced:
		return e.Kind.String()
	case Waiting:
		return fmt.Sprintf("%q: %s waits", e.Key, e.Node)
	}
	return fmt.Sprintf("%q: %s by %s, token %d", e.Key, e.Kind, e.Node, e.Token)
}

// Watch is a view of a key, or of all keys with a prefix, that goes on until its context or the mesh ends.
type Watch struct {
	mesh   *Mesh
	key    string
	prefix bool
	firm   bool // it is to tell when a majority has said that a lease is held
	events chan Event

	nonce uint64 // this and tale are the loop's
	tale  *quorum.Tale

	mu    sync.Mutex
	queue []Event
	live  int           // how many of them aren't about what there was
	lacks lacking       // what stands in the way of further events
	wake  chan struct{} // capacity 1: there is something to do for the pump
	err   error
}

// lacking says whether a reader was too slow.
type lacking uint8

const (
	lacksNothing lacking = iota
	lacksEvents          // the queue was full; once it is empty, the loop is asked for the state
	lacksState           // the loop was asked
)

// Watch tells what happens to a key from now on, beginning with what there is now. It returns at once; a reader takes events from [Watch.Events]
// until ctx ends.
//
// A lease whose node is in touch with a majority of the voters is told when it is granted, and when it ends, each once, in the order of the tokens as far
// as leases exclude each other. When a node dies, its leases are told to be [Lost] as their TTL ends; when a single voter dies or restarts
// nothing is missed. When fewer than a majority of the voters have told without a break, and when the reader is so slow that 256 events wait, a [Gap] says
// that events may be missing, and the state follows. Nobody waits for a slow reader.
//
// What is told has been so, and may have changed since: to decide upon it, hold a lock. Errors: ErrKey, ErrBusy with [MaxWatches] open, ErrClosed, or ctx's.
func (m *Mesh) Watch(ctx context.Context, key string) (*Watch, error) {
	if err := checkKey("watch", key); err != nil {
		return nil, err
	}
	return m.watch(ctx, &Watch{key: key})
}

// WatchPrefix is [Mesh.Watch] for all keys that begin with prefix; with an empty one, for all keys. The order of events holds within each key. Where there are more than
// 65,536 leases and waiting requests at the beginning, or after a gap, those of the first keys by name are told; what happens to the others then is told as for all.
func (m *Mesh) WatchPrefix(ctx context.Context, prefix string) (*Watch, error) {
	if prefix != "" {
		if err := checkKey("watch", prefix); err != nil {
			return nil, err
		}
	}
	return m.watch(ctx, &Watch{key: prefix, prefix: true})
}

func (m *Mesh) watch(ctx context.Context, w *Watch) (*Watch, error) {
	w.mesh, w.events, w.wake = m, make(chan Event), make(chan struct{}, 1)
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "watch", Key: w.key, Reason: reason, Text: text, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", ended(ctx))
	}
	begun := make(chan error, 1)
	if err := m.loop.box.call(func(now vote.Now) { begun <- m.loop.watch(ctx, now, w) }); err != nil {
		return nil, fail(err, "", nil)
	}
	select {
	case err := <-begun:
		if err != nil {
			return nil, fail(err, fmt.Sprintf("%d watches are open", MaxWatches), nil)
		}
		return w, nil
	case <-m.loop.done:
		return nil, fail(ErrClosed, "", nil)
	}
}

// Events returns the channel of events. It is closed when the watch has ended; Err then says why.
func (w *Watch) Events() <-chan Event { return w.events }

// Err returns nil while the watch goes on, and then why it has ended: the context's error, or [ErrClosed].
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// watch begins a watch. The loop starts its goroutine, so that Close doesn't miss it.
func (l *loop) watch(ctx context.Context, now vote.Now, w *Watch) error {
	if len(l.watches) >= MaxWatches {
		return ErrBusy
	}
	w.tale = quorum.NewTale(l.node.Electorate())
	w.nonce = l.node.Watch(now, vote.Key(w.key), w.prefix)
	l.watches[w.nonce] = w
	l.mesh.work.Go(func() { w.pump(ctx) })
	return nil
}

// unwatch ends a watch.
func (l *loop) unwatch(now vote.Now, w *Watch) {
	l.node.Unwatch(now, w.nonce)
	delete(l.watches, w.nonce)
}

func (l *loop) hearNews(now vote.Now, e *quorum.Event) {
	if w := l.watches[e.Nonce]; w != nil {
		w.tale.Hear(now.Wall, e.Place, e.Gap, e.Sights)
		l.follow(now, w)
	}
}

func (l *loop) hearPicture(now vote.Now, e *quorum.Event) {
	w := l.pictures[e.Nonce]
	delete(l.pictures, e.Nonce)
	if w != nil && l.watches[w.nonce] == w {
		w.tale.Show(now.Wall, e.Shown)
		l.follow(now, w)
	}
}

// follow passes on what a tale has to tell, and has a look where it wants one.
func (l *loop) follow(now vote.Now, w *Watch) {
	if w.tale.WantsLook() {
		var nonce uint64
		if w.prefix {
			nonce = l.node.LookAll(now, vote.Key(w.key))
		} else {
			nonce = l.node.Look(now, vote.Key(w.key))
		}
		l.pictures[nonce] = w
	}
	l.told = w.tale.Drain(l.told[:0])
	w.put(l.told)
	clear(l.told)
	if cap(l.told) > roomyMap {
		l.told = nil
	}
}

// relook has a watch look at what there is once more.
func (l *loop) relook(now vote.Now, w *Watch) {
	if l.watches[w.nonce] == w {
		w.tale.Relook()
		l.follow(now, w)
	}
}

// put hands events to the reader, and never waits for it.
func (w *Watch) put(told []quorum.Told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range told {
		e := &told[i]
		state := e.Current || e.Kind == quorum.ToldSynced
		if e.Kind == quorum.ToldGap && len(w.queue) > watchQueue {
			w.queue, w.live = nil, 0 // the reader is to forget it, and states of which each is longer than a queue would pile up
		}
		switch {
		case e.Kind == quorum.ToldFirm && !w.firm:
		case w.lacks != lacksNothing: // the state that follows has it
		case w.live >= watchQueue && !state:
			w.lacks = lacksEvents
		default:
			w.queue = append(w.queue, event(e))
			if !state {
				w.live++
			}
		}
	}
	kick(w.wake)
}

// catchUp gives a reader that was too slow the state instead of what it has missed. The loop calls it.
func (w *Watch) catchUp(now vote.Now) {
	told := w.tale.State()
	told[0].At = now.Wall
	w.mu.Lock()
	w.lacks = lacksNothing
	w.mu.Unlock()
	w.put(told)
}

// take returns what waits for the reader.
func (w *Watch) take() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queue
	w.queue, w.live = nil, 0
	if len(queue) == 0 && w.lacks == lacksEvents {
		w.lacks = lacksState
		w.mesh.loop.box.post(false, w.catchUp)
	}
	return queue
}

// pump passes events to the reader, at the reader's pace, until the context or the mesh ends.
func (w *Watch) pump(ctx context.Context) {
	loop := w.mesh.loop
	defer close(w.events)
	defer loop.box.post(false, func(now vote.Now) { loop.unwatch(now, w) })
	end := func() {
		err := &Error{Op: "watch", Key: w.key, Reason: ErrClosed}
		if ctx.Err() != nil {
			err.Reason, err.Err = nil, ended(ctx)
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
			case <-loop.done:
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
		case <-loop.done:
			end()
			return
		}
	}
}

// event is what a tale tells, for users.
func event(e *quorum.Told) Event {
	s := &e.Sight
	ev := Event{
		Kind: EventKind(e.Kind), Key: string(s.Key), Node: string(s.Owner.Node), Token: uint64(s.Token), Was: uint64(e.Was), Mode: Mode(s.Mode), Slot: int(s.Slot),
		Value: s.Value, Version: s.Version, Current: e.Current, At: time.UnixMicro(int64(e.At)),
	}
	if ev.Kind == Waiting {
		ev.Token = 0
	}
	return ev
}
