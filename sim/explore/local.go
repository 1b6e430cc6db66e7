package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/explore/internal/deep"
)

// A node behaves the same whenever it is in the same state and receives the same input, whatever
// the rest of the world is doing. There are far fewer states of a node than states of the world. So
// each state of a node is kept once, under a number; the outcome of each input is computed once,
// by a copy of the genuine node, and looked up from then on.

// local is one state of one node. A local is immutable: the next state is computed on a copy of the
// host.
type local struct {
	host  *host                  // nil while not needed; see locals.copy
	after occurrence             // the first path to this state
	main  uint64                 // hash of the state not tied to a voter
	cols  [maxVoters]uint64      // and of the state about each voter
	users [maxKeys]user          // of a client
	votes [maxKeys][]backingVote // of a voter; see Options.Validity
	quiet vote.Instant           // and the end of the voter's startup quarantine, at least
}

type inputKind uint8

const (
	onStart inputKind = iota
	onDeliver
	onTick
	onLock
	onTry
	onRelease
	onUpgrade
	onShare
	onLink
	onUnlink
)

// input is what a node receives. Inputs are comparable.
type input struct {
	kind        inputKind
	key         uint8
	node        uint8
	incarnation uint8 // of the sender or linked peer; of the node itself when it starts
	peer        uint8
	tick        uint8
	conn        vote.Conn
	msg         uint32
}

// outcome is a node's reaction to an input.
type outcome struct {
	next       uint32
	sends      []send
	granted    [maxKeys]grant
	lastResort bool   // the voter used its clock for lack of memory
	wrong      string // a panic or an alarm
	yields     bool
	lost       bool
	failed     bool
}

// grant is a lease's first token; zero when there is none.
type grant struct {
	token vote.Token
	up    bool // of an upgrade
}

// send is a message from a node (or a connection that the node has closed).
type send struct {
	conn   vote.Conn
	msg    uint32
	closed bool
}

type occurrence struct {
	local uint32
	on    input
}

// locals holds all knowledge about single nodes.
type locals struct {
	x       *explorer
	all     []local // by number; 0 is a node that is down
	numbers map[[16]byte]uint32
	known   map[occurrence]*outcome
}

func newLocals(x *explorer) *locals {
	return &locals{x: x, all: make([]local, 1), numbers: map[[16]byte]uint32{}, known: map[occurrence]*outcome{}}
}

// on returns the outcome of an input for a node in a state.
func (l *locals) on(state uint32, o input) *outcome {
	key := occurrence{state, o}
	if out := l.known[key]; out != nil {
		return out
	}
	h, out := l.x.act(l.copy(state), o)
	out.next = l.intern(h, key)
	l.known[key] = out
	return out
}

// copy returns a copy of a node in a state. If no host in this state is kept, copy repeats the
// inputs that led to the state.
func (l *locals) copy(state uint32) *host {
	at := &l.all[state]
	switch {
	case state == 0:
		return nil
	case at.host == nil:
		h, _ := l.x.act(l.copy(at.after.local), at.after.on)
		return h
	}
	return deep.Copy(at.host)
}

// keep frees all hosts but those of the marked states.
func (l *locals) keep(marked []bool) {
	for n := range l.all {
		if n >= len(marked) || !marked[n] {
			l.all[n].host = nil
		}
	}
}

// intern returns the number of a node's state.
func (l *locals) intern(h *host, after occurrence) uint32 {
	if h == nil {
		return 0
	}
	node := int(after.on.node)
	e := l.x.encode(h, node, after.on.tick)
	st := local{host: h, after: after, users: h.users, main: digest(e.main)}
	l.x.recordVotes(h, &st)
	key := make([]byte, 0, 8*(maxVoters+1))
	key = append(key, byte(node))
	for i := range l.x.o.Voters {
		key = binary.AppendUvarint(key, uint64(len(e.cols[i])))
		key = append(key, e.cols[i]...)
		st.cols[i] = digest(e.cols[i])
	}
	key = append(key, e.main...)
	if l.x.o.raw {
		all := newEncoder(l.x, node)
		all.raw = true
		all.value(reflect.ValueOf(h).Elem())
		key = append(key[:1], all.main...)
	}
	sum := sha256.Sum256(key)
	id := [16]byte(sum[:])
	n, ok := l.numbers[id]
	if !ok {
		n = uint32(len(l.all))
		l.all = append(l.all, st)
		l.numbers[id] = n
	}
	return n
}

// encode writes all state that can matter to a node.
func (x *explorer) encode(h *host, node int, tick uint8) *encoder {
	e := newEncoder(x, node)
	e.now = x.now(node, tick).Fast
	e.value(reflect.ValueOf(h).Elem())
	return e
}

func digest(b []byte) uint64 {
	h := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(h[:])
}
