package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/explore/internal/deep"
)

// A node does the same whenever it is in the same state and hears the same, whatever the rest of the world is doing. There are far
// fewer states of one node than states of the world. So each is kept once, under a number; what it does on each occasion is worked
// out once, by a copy of the genuine node, and looked up from then on.

// local is one state of one node. Nothing changes in it: whoever wants the next state copies the host.
type local struct {
	host  *host             // nil while nobody needs it; see locals.copy
	after occurrence        // how it came to be first
	main  uint64            // hash of what isn't about one voter
	cols  [maxVoters]uint64 // and of what is
	users [maxKeys]user     // of a client
	votes [maxKeys][]bond   // of a voter; see Options.Cover
	quiet vote.Instant      // and until when it promises nothing, at least
}

type occasionKind uint8

const (
	onStart occasionKind = iota
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

// occasion is what happens to a node. It can be compared.
type occasion struct {
	kind occasionKind
	key  uint8
	node uint8
	life uint8 // of whoever speaks or is linked; of the node itself when it starts
	peer uint8
	tick uint8
	conn vote.Conn
	msg  uint32
}

// outcome is what a node does on an occasion.
type outcome struct {
	next       uint32
	sends      []send
	granted    [maxKeys]grant
	lastResort bool   // the voter took its clock for want of memory
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

// send is a message that a node wants sent (or a connection that it has ended).
type send struct {
	conn   vote.Conn
	msg    uint32
	closed bool
}

type occurrence struct {
	local uint32
	on    occasion
}

// locals holds all that is known of nodes by themselves.
type locals struct {
	x       *explorer
	all     []local // by number; 0 is a node that is down
	numbers map[[16]byte]uint32
	known   map[occurrence]*outcome
}

func newLocals(x *explorer) *locals {
	return &locals{x: x, all: make([]local, 1), numbers: map[[16]byte]uint32{}, known: map[occurrence]*outcome{}}
}

// on returns what a node in a state does on an occasion.
func (l *locals) on(state uint32, o occasion) *outcome {
	key := occurrence{state, o}
	if out := l.known[key]; out != nil {
		return out
	}
	h, out := l.x.act(l.copy(state), o)
	out.next = l.intern(h, key)
	l.known[key] = out
	return out
}

// copy returns a copy of a node in a state. If no host in this state is kept, it lives through what led to it once more.
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

// keep lets go of all hosts but those of the states that are marked.
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
	l.x.look(h, &st)
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

// encode writes all that can matter to a node.
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
