package elect

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/explore/internal/deep"
)

// host is a node with its machine.
type host struct {
	Node    int
	Machine Machine
	Saving  *vote.DiskState // the save under way
}

// local is one state of one host. A local is immutable: the next state is computed on a copy of the
// host.
type local struct {
	host      *host
	known     vote.Electorate
	value     uint16 // the number of known
	stored    uint64 // the version
	saving    uint32 // the disk after the save under way; 0 without a save
	number    uint64 // of the newest ballot known
	ballot    vote.Ballot
	accepting bool
}

// input is what a machine in a state receives.
type input struct {
	local uint32
	kind  kind
	peer  uint8
	gen   uint8
	arg   uint32
}

type kind uint8

// The inputs of a machine.
const (
	starts   kind = iota // arg is the disk, gen the number of the incarnation
	links                // a connection to a peer comes up, in place of an old connection
	asked                // a question comes over a connection dialed by a peer; arg is the message
	answered             // an answer comes over the connection to a peer
	polled
	reported
	learns // arg is an electorate that was decided
	proposes
	saved
	fails
	idles
	drains
	waits
)

// outcome is a machine's reaction to an input.
type outcome struct {
	local uint32
	sent  []sent
	wrong string
}

// sent is a message from a machine.
type sent struct {
	to     uint8
	answer bool // the connection was dialed by the receiver
	gen    uint8
	msg    uint32
}

// conn returns the number of a connection at one end: the peer, whether the peer dialed, and the
// connection's generation.
func conn(peer int, theirs bool, gen uint8) vote.Conn {
	c := vote.Conn(1 + 2*peer + 2*maxNodes*int(gen))
	if theirs {
		c++
	}
	return c
}

func ends(c vote.Conn) (peer uint8, theirs bool, gen uint8) {
	n := int(c - 1)
	return uint8(n % (2 * maxNodes) / 2), n%2 == 1, uint8(n / (2 * maxNodes))
}

func session(i int) vote.SessionID { return vote.SessionID{Node: nodeName(i)} }

// happens returns the outcome of an input.
func (x *explorer) happens(o input, i int) (out *outcome) {
	if o.kind == starts {
		o.peer = uint8(i)
	}
	if out := x.outcomes[o]; out != nil {
		return out
	}
	out = &outcome{}
	x.outcomes[o] = out
	defer func() {
		if r := recover(); r != nil {
			out.wrong = "it panics: " + text(r)
		}
	}()
	var h *host
	if o.kind == starts {
		h = &host{Node: i}
	} else {
		h = deep.Copy(x.locals[o.local].host)
	}
	x.act(h, o, out)
	x.finish(h, out)
	return out
}

// live applies an input to a living host, and panics if the outcome differs from the lookup.
func (x *explorer) live(i int, o input, looked *outcome) {
	h, out := x.living[i], &outcome{}
	x.act(h, o, out)
	x.finish(h, out)
	if out.local != looked.local || !slices.Equal(out.sent, looked.sent) || out.wrong != looked.wrong {
		panic(fmt.Sprintf("%s does %v when it lives through %v, and %v when that is looked up", nodeName(i), out, o, looked))
	}
	x.living[i] = deep.Copy(h) // a state that may just have got a number must not change
}

func (x *explorer) act(h *host, o input, out *outcome) {
	m := h.Machine
	if o.kind == starts {
		cfg := electorate.Config{Self: session(h.Node), MaxTTL: ttl}
		cfg.Self.Incarnation = x.o.incarnation(h.Node, int(o.gen))
		now := vote.Now{Fast: epoch, Slow: epoch}
		h.Machine = x.o.Build(cfg, x.disks[o.arg], now)
		// Gossip sees all nodes as alive, up or not, and no directories: so gossip has no node
		// voted out, nor in.
		var all []electorate.Seen
		for i := range x.nodes {
			all = append(all, electorate.Seen{Name: nodeName(i), State: vote.Alive})
		}
		h.Machine.Core().Gossip(now, all)
		return
	}
	after := time.Duration(0)
	switch o.kind {
	case idles:
		after = idle
	case drains:
		after = electorate.Drain(ttl)
	case waits:
		after = electorate.FailAfter(ttl)
	}
	t := at(m).Add(after)
	now := vote.Now{Fast: t, Slow: t}
	peer := int(o.peer)
	switch o.kind {
	case links:
		m.Unlink(now, conn(peer, false, o.gen-1))
		m.Link(now, conn(peer, false, o.gen), session(peer))
	case asked, polled:
		m.Receive(now, conn(peer, true, o.gen), session(peer), &x.messages[o.arg])
	case answered:
		m.Receive(now, conn(peer, false, o.gen), session(peer), &x.messages[o.arg])
	case reported:
		report := x.messages[o.arg]
		report.Nonce = field(coreOf(m), "nonce").Uint()
		m.Receive(now, conn(peer, false, o.gen), session(peer), &report)
	case learns:
		tell := vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: x.values[o.arg]}}
		m.Receive(now, conn(peer, false, o.gen), session(peer), &tell)
	case proposes:
		if err := m.Propose(now, x.proposals[o.arg].target); err != nil {
			out.wrong = impossible
		}
	case saved, fails:
		failed := ""
		if o.kind == fails {
			failed = "no space left on device"
		}
		s := h.Saving
		h.Saving = nil
		m.Saved(now, s.Writes, failed)
	case idles, drains, waits:
		m.Tick(now)
	}
}

// impossible marks a step that can't happen in a state after all.
const impossible = "impossible"

// finish delivers a host's messages to itself at once, as in production, sorts the other messages,
// and numbers the host's state.
func (x *explorer) finish(h *host, out *outcome) {
	m := h.Machine
	if m.Core().Known().Version >= finalVersion {
		x.part(m)
	}
	// The time since an electorate was adopted is compared with FailAfter alone. All drains and
	// idles together are shorter, so only a wait reaches FailAfter; until then the time may as well
	// be zero.
	if adopted := deep.Part[vote.Instant](m.Core(), "adopted"); at(m).Sub(*adopted) < electorate.FailAfter(ttl) {
		*adopted = at(m)
	}
	said := m.Drain(nil)
	for len(said) > 0 {
		o := said[0]
		said = said[1:]
		msg := o.Message
		switch {
		case o.Close: // rules.go depends on such connections not occurring
			out.wrong = "it gives up a connection, after so few polls"
		case o.Conn == vote.LocalConn:
			t := at(m)
			m.Receive(vote.Now{Fast: t, Slow: t}, vote.LocalConn, session(h.Node), &msg)
			said = append(said, m.Drain(nil)...)
		case msg.Kind == vote.KindPoll || msg.Kind == vote.KindElectorate: // steps of their own
		case msg.Version > finalVersion: // the next change
		default:
			if msg.Kind == vote.KindReport {
				e := *msg.Consensus
				e.Writes = 0     // old copies aren't explored
				e.Contacts = nil // votes out aren't either; see rules.go
				msg.Consensus = &e
			}
			to, theirs, gen := ends(o.Conn)
			out.sent = append(out.sent, sent{to, theirs, gen, x.message(msg)})
		}
	}
	for _, s := range m.Saves() {
		if h.Saving != nil {
			out.wrong = "it saves while a save is under way"
		}
		h.Saving = &s
	}
	for _, a := range m.Alarms() {
		if !slices.Contains([]string{"the state directory can't be written"}, a[:min(len(a), 36)]) {
			out.wrong = "it raises an alarm: " + a
		}
	}
	out.local = x.local(h)
}

// part ends all connections of a machine that applies the final electorate. With reports of other
// nodes the machine would propose the next change, and the next change isn't explored.
func (x *explorer) part(m Machine) {
	t := at(m)
	for i := range x.nodes {
		for gen := range uint8(2 * (maxCrashes + 2)) {
			m.Core().Unlink(vote.Now{Fast: t, Slow: t}, conn(i, false, gen))
		}
	}
}

// local numbers the state of a host.
func (x *explorer) local(h *host) uint32 {
	core := coreOf(h.Machine)
	e := encoder{core: core, now: at(h.Machine)}
	e.value(reflect.ValueOf(h).Elem())
	key := sha256.Sum256(e.buf)
	if n, ok := x.localOf[key]; ok {
		return n
	}
	m := h.Machine.Core()
	l := local{host: h, known: *m.Known(), value: x.value(*m.Known()), stored: m.Stored().Version, number: field(core, "number").Uint()}
	if h.Saving != nil {
		l.saving = x.disk(*h.Saving)
	}
	if r := field(core, "race"); !r.IsNil() {
		a := field(r.Elem(), "ballot")
		l.ballot = vote.Ballot{Counter: field(a, "Counter").Uint(), By: vote.Incarnation(field(a, "By").Uint())}
		l.accepting = field(r.Elem(), "accepting").Bool()
	}
	n := uint32(len(x.locals))
	x.locals = append(x.locals, l)
	x.localOf[key] = n
	return n
}

func (x *explorer) disk(s vote.DiskState) uint32 {
	s.Writes = 0
	return number(&x.disks, x.diskOf, s)
}

func (x *explorer) value(e vote.Electorate) uint16 { return uint16(number(&x.values, x.valueOf, e)) }

func (x *explorer) message(m vote.Message) uint32 { return number(&x.messages, x.messageOf, m) }

// number returns the number of a value, from 1 on.
func number[T any](all *[]T, of map[string]uint32, v T) uint32 {
	key := string(encoded(v))
	n, ok := of[key]
	if !ok {
		if len(*all) == 0 {
			*all = make([]T, 1)
		}
		n = uint32(len(*all))
		*all = append(*all, v)
		of[key] = n
	}
	return n
}
