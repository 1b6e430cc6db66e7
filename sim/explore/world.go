package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The directions and lanes of a connection.
const (
	toVoterUrgent = iota
	toVoter
	toClientUrgent
	toClient
	lanesPerConn
)

// conn is a connection that a client dialed to a voter. When a connection breaks, one side knows
// first; until the other side knows, this other side still receives the messages under way.
type conn struct {
	client, voter    bool  // whether this side is up
	id               uint8 // distinguishes the two connections of a pair
	incarnation      uint8 // the client's incarnation
	voterIncarnation uint8
	late             uint8 // the lanes that run late, as bits
	noticeLate       bool  // the side still up doesn't know yet that the other is gone
	lanes            [lanesPerConn]uint32
}

// question holds the messages between a restarted voter and a voter queried for tokens.
type question struct {
	asked, answers         uint32
	askedLate, answersLate bool
}

// state is one state of the world. States are comparable.
type state struct {
	nodes        [maxNodes]uint32
	incarnations [maxNodes]uint8
	// The newest connection, and an old connection considered open only by the voter.
	conns      [maxClients][maxVoters][2]conn
	unlinkable [maxClients][maxVoters]bool // the pair can't connect, for as long as the adversary likes
	asks       [maxVoters][maxVoters]question

	tick    uint8
	locks   [maxClients]uint8 // the rest of each limit
	ticks   uint8
	breaks  uint8
	crashes uint8
	late    uint8

	tokens [maxKeys]tokens
}

// explorer is a run.
type explorer struct {
	o       Options
	clients int
	sharing bool                        // two clients may hold a key at once
	names   []vote.NodeID               // voters first
	crashes [maxNodes]bool              // the nodes that may crash
	breaks  [maxClients][maxVoters]bool // the connections that may break
	perms   [][]uint8                   // the ways to exchange voters
	// ranked orders prompt steps by ranks, since there are several perms.
	ranked  bool
	words   *words
	locals  *locals
	report  Report
	calm    map[uint64]bool       // states, limits aside, from which all requests are served
	watch   func(input, *outcome) // set by a test to observe the inputs of nodes
	reached func(*state)          // set by a test to observe all states
}

func newExplorer(o Options) (*explorer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	x := &explorer{o: o, clients: len(o.Locks), sharing: o.sharing(), calm: map[uint64]bool{}}
	for i := range o.Voters {
		x.names = append(x.names, vote.NodeID(rune('a'+i)))
	}
	if o.SeparateClients {
		for i := range x.clients {
			x.names = append(x.names, vote.NodeID(rune('x'+i)))
		}
	}
	for n, name := range x.names {
		x.crashes[n] = o.Crash == nil || slices.Contains(o.Crash, string(name))
	}
	for c := range x.clients {
		for v := range o.Voters {
			x.breaks[c][v] = o.Break == nil || slices.Contains(o.Break, string(x.names[x.node(c)]+"-"+x.names[v]))
		}
	}
	if err := x.known(); err != nil {
		return nil, err
	}
	x.perms = x.symmetries()
	x.ranked = len(x.perms) > 1
	x.words = newWords(x)
	x.locals = newLocals(x)
	return x, nil
}

// known checks the nodes and connections named in the options for existence.
func (x *explorer) known() error {
	for _, name := range x.o.Crash {
		if x.index(vote.NodeID(name)) < 0 {
			return fmt.Errorf("no node is called %s", name)
		}
	}
	for _, pair := range x.o.Break {
		from, to, _ := strings.Cut(pair, "-")
		if c := x.index(vote.NodeID(from)); c < 0 || x.client(c) < 0 || x.place(vote.NodeID(to)) < 0 || from == to {
			return fmt.Errorf("no connection is called %s", pair)
		}
	}
	return nil
}

// place returns a voter's place; -1 if the name is no voter's.
func (x *explorer) place(name vote.NodeID) int { return slices.Index(x.names[:x.o.Voters], name) }

func (x *explorer) index(name vote.NodeID) int { return slices.Index(x.names, name) }

// client returns the index of the client on a node; -1 if there is none.
func (x *explorer) client(node int) int {
	if x.o.SeparateClients {
		return max(node-x.o.Voters, -1)
	}
	if node < x.clients {
		return node
	}
	return -1
}

// node returns the index of the node on which a client runs.
func (x *explorer) node(client int) int {
	if x.o.SeparateClients {
		return x.o.Voters + client
	}
	return client
}

func (x *explorer) session(node, nth uint8) vote.SessionID {
	return vote.SessionID{Node: x.names[node], Incarnation: x.incarnation(int(node), nth)}
}

// incarnation returns an incarnation number for a node. Incarnations are random in production.
// Where keys are shared, incarnations scatter slots and tokens that should not collide, so clients
// must differ in their incarnations; with these numbers the second and the third client begin with
// the same slot.
func (x *explorer) incarnation(node int, nth uint8) vote.Incarnation {
	if c := x.client(node); c >= 0 && x.sharing {
		return vote.Incarnation(100*(c+1)) + vote.Incarnation(nth)
	}
	return vote.Incarnation(nth)
}

// now returns a node's clocks. All clocks run at one rate and are read at ticks only.
func (x *explorer) now(node int, tick uint8) vote.Now {
	at := epoch.Add(time.Duration(tick) * Tick)
	wall := wall0 + vote.Micros(tick)*tickLen
	if off, ok := x.o.Wall[string(x.names[node])]; ok {
		wall += vote.Micros(off / time.Microsecond)
	}
	return vote.Now{Fast: at, Slow: at, Wall: wall}
}

// Numbers of connections, in the nodes at their ends. A number contains the dialing side, the peer,
// and the index among the pair's connections.
const (
	dialed       vote.Conn = 1 // by this node, as a client
	accepted     vote.Conn = 2 // from a client
	dialedByIdle vote.Conn = 3 // by this voter, which isn't a client, to query tokens
	idleAccepted vote.Conn = 4
)

func connNumber(kind vote.Conn, peer int, id uint8) vote.Conn {
	return kind*1000 + vote.Conn(peer+1)*10 + vote.Conn(id)
}

func dials(c vote.Conn) vote.Conn     { return c / 1000 }
func peerIn(c vote.Conn) int          { return int(c/10%100) - 1 }
func idIn(c vote.Conn) uint8          { return uint8(c % 10) }
func anonymous(c vote.Conn) vote.Conn { return c - c/10%100*10 } // the peer is recorded elsewhere

// linkIdle connects a voter without a client to the other voters at all times. Only the voter's
// token queries and their answers travel; they may run late, and so be lost.
func (x *explorer) linkIdle(h *host, now vote.Now, node int) {
	if x.client(node) >= 0 {
		return
	}
	for w := range x.o.Voters {
		if w != node && node < x.o.Voters {
			h.m.Link(now, connNumber(dialedByIdle, w, 0), x.session(uint8(w), 1))
		}
	}
}

func isDuplicate(alarm string) bool { return strings.HasPrefix(alarm, "two processes") }

// symmetries returns the permutations of voters that keep clients in place.
func (x *explorer) symmetries() [][]uint8 {
	identity := make([]uint8, x.o.Voters)
	for i := range identity {
		identity[i] = uint8(i)
	}
	if x.o.plain {
		return [][]uint8{identity}
	}
	var all [][]uint8
	var permute func(p []uint8, from int)
	permute = func(p []uint8, from int) {
		if from == len(p) {
			all = append(all, slices.Clone(p))
			return
		}
		for i := from; i < len(p); i++ {
			if i != from && !x.alike(p[i], p[from]) {
				continue
			}
			p[i], p[from] = p[from], p[i]
			permute(p, from+1)
			p[i], p[from] = p[from], p[i]
		}
	}
	permute(identity, 0)
	return all
}

// alike reports whether two voters differ in nothing but their names.
func (x *explorer) alike(v, w uint8) bool {
	for c := range x.clients {
		if x.client(int(v)) == c || x.client(int(w)) == c || x.breaks[c][v] != x.breaks[c][w] {
			return false
		}
	}
	return x.crashes[v] == x.crashes[w] && x.o.Wall[string(x.names[v])] == x.o.Wall[string(x.names[w])]
}

// moves reports whether a node is an exchangeable voter.
func (x *explorer) moves(name vote.NodeID) bool {
	v := x.place(name)
	return v >= 0 && slices.ContainsFunc(x.perms, func(p []uint8) bool { return int(p[v]) != v })
}
