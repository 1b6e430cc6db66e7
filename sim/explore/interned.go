package explore

import (
	"reflect"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// words stores every message, and every sequence of messages under way on a lane, once, under a
// number.
type words struct {
	x        *explorer
	messages []vote.Message
	numbers  map[string]uint32
	lanes    []lane // 0 is the empty lane
	longer   map[lane]uint32
}

// lane is a sequence of messages in one direction of a connection: all but the last, and the last.
type lane struct {
	before uint32 // the number of the lane without the last message
	last   uint32
}

func newWords(x *explorer) *words {
	return &words{x: x, messages: make([]vote.Message, 1), numbers: map[string]uint32{}, lanes: make([]lane, 1), longer: map[lane]uint32{}}
}

// number returns a message's number, which is never zero.
func (w *words) number(m *vote.Message) uint32 {
	tidy(m)
	e := newEncoder(w.x, 0)
	e.value(reflect.ValueOf(m).Elem())
	n, ok := w.numbers[string(e.main)]
	if !ok {
		n = uint32(len(w.messages))
		kept := *m
		kept.Entries = slices.Clone(m.Entries)
		w.messages = append(w.messages, kept)
		w.numbers[string(e.main)] = n
	}
	return n
}

// message returns a copy of a message.
func (w *words) message(n uint32) vote.Message {
	m := w.messages[n]
	m.Entries = slices.Clone(m.Entries)
	return m
}

// push returns the lane with one more message.
func (w *words) push(l, m uint32) uint32 {
	key := lane{l, m}
	n, ok := w.longer[key]
	if !ok {
		n = uint32(len(w.lanes))
		w.lanes = append(w.lanes, key)
		w.longer[key] = n
	}
	return n
}

// pop returns the first message of a nonempty lane, and the lane without this message.
func (w *words) pop(l uint32) (m, rest uint32) {
	at := w.lanes[l]
	if at.before == 0 {
		return at.last, 0
	}
	m, rest = w.pop(at.before)
	return m, w.push(rest, at.last)
}

// tidy makes messages equal if they differ only in irrelevant values: the rest of a voter's startup
// quarantine, since a quarantined voter is asked at every tick; the voter's wall clock, since the
// requester would compute the offset to its own clock (see untidy); and the voter's slow clock,
// since no decision depends on the slow clock.
func tidy(m *vote.Message) {
	m.Quiet = min(m.Quiet, 1)
	if m.Kind == vote.KindAck || m.Kind == vote.KindAnswer {
		m.Wall, m.Clock = 0, 0
	}
}

// untidy restores the voter's wall clock, as if the offset had been estimated without an error.
// Stamps depend on the wall clock, and nothing else does.
func untidy(m *vote.Message, now vote.Now, speaker vote.Micros) {
	if m.Kind == vote.KindAck || m.Kind == vote.KindAnswer {
		trip := now.Fast.Sub(m.Sent)
		m.Wall = speaker - vote.Micros(max(trip, 1)/time.Microsecond)/2
	}
}
