package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// effects are what a call of a requester brings about: messages to send, connections to close,
// events for the shell, the report of a duplicate name, and counts. The shell takes the messages
// and the events after each call; no decision of a later call depends on them.
type effects struct {
	out       []vote.Outbound // the memory beyond the end is zero
	events    []Event
	nameTaken bool
	count     Counters // since the requester's creation
}

// Counters count the activity of a requester since its creation.
type Counters struct {
	Requests, Wins, FirstRound, Confirmations, Yields, Losses, Resyncs, Mismatches, HandOffs, Distrusted uint64
	// Of syncs and answers in pieces: how many there were, requests listed before they changed, and
	// messages that waited for the end of an answer.
	MadeInPieces, ReadInPieces, ListedAhead, Kept uint64
}

// emit adds an event about a request, or about none if n is zero. The caller fills in the other
// fields before the next event is added: an event is large, and is built in place.
func (x *effects) emit(kind EventKind, n vote.Number) *Event {
	x.events = append(x.events, Event{})
	e := &x.events[len(x.events)-1]
	e.Kind, e.Number = kind, n
	return e
}

// send adds an empty message, to be filled in before the next message is added. The list's memory
// beyond its end is zero.
func (x *effects) send(conn vote.Conn) *vote.Message {
	if n := len(x.out); n < cap(x.out) {
		x.out = x.out[:n+1]
	} else {
		x.out = append(x.out, vote.Outbound{})
	}
	o := &x.out[len(x.out)-1]
	o.Conn = conn
	return &o.Message
}

// urgent sends a message in the refresh lane.
func (x *effects) urgent(p *peer, m *vote.Message) { *x.send(p.conn) = *m }

// closes requests the close of a connection.
func (x *effects) closes(conn vote.Conn) {
	x.out = append(x.out, vote.Outbound{Conn: conn, Close: true})
}

// sendOrdered sends an ordered message about a request on the voter's current stream, and enters
// the change to the voter's digest in the expected digest. The caller fills in the other fields
// before the next message is sent.
func (x *effects) sendOrdered(p *peer, delta vote.Digest, kind vote.Kind, n vote.Number) *vote.Message {
	p.sent++
	if delta != (vote.Digest{}) {
		p.digest.addSent(p.sent, delta)
	}
	if p.digest.full() && p.answered {
		p.refreshAt = min(p.refreshAt, p.refreshed.Add(digestRefreshEvery))
	}
	var m *vote.Message
	if t := p.syncBuilder; t != nil {
		t.after = append(t.after, vote.Outbound{Conn: p.conn})
		m = &t.after[len(t.after)-1].Message
	} else {
		m = x.send(p.conn)
	}
	m.Kind, m.Stream, m.Number = kind, p.stream, n
	return m
}

// Drain appends the messages to send and the events to the given lists, and forgets them.
func (x *effects) Drain(out []vote.Outbound, ev []Event) ([]vote.Outbound, []Event) {
	out, ev = append(out, x.out...), append(ev, x.events...)
	clear(x.out)
	clear(x.events)
	x.out, x.events = x.out[:0], x.events[:0]
	return out, ev
}

// TakeMessages returns the messages to send, and forgets them. The given empty list, with its
// memory, takes their place; its memory must be zero.
func (x *effects) TakeMessages(empty []vote.Outbound) []vote.Outbound {
	out := x.out
	x.out = empty[:0]
	return out
}

// TakeEvents does the same for the events.
func (x *effects) TakeEvents(empty []Event) []Event {
	events := x.events
	x.events = empty[:0]
	return events
}

// Alarm adds an event with a text for the operator.
func (x *effects) Alarm(text string) { x.emit(EventAlarm, 0).Text = text }

// Notice adds an event with a warning for the operator.
func (x *effects) Notice(text string) { x.emit(EventNotice, 0).Text = text }

// NameTaken reports whether a voter has reported a duplicate name, another live process with this
// node's name, and resets the report.
func (x *effects) NameTaken() bool {
	t := x.nameTaken
	x.nameTaken = false
	return t
}

// Counters returns the counters of the requester's activity since its creation.
func (x *effects) Counters() Counters { return x.count }

// later delays the ordered message sent last to a voter, to go with the next, since no request
// waits for it.
func (x *effects) later(p *peer) {
	out := x.out
	if p.syncBuilder != nil {
		out = p.syncBuilder.after
	}
	out[len(out)-1].Later = true
}
