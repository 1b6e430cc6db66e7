package discovery

import (
	"context"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
)

// MaxPeers is the largest number of configured addresses.
const MaxPeers = 256

// Host is the node served by a [Finder]. Goroutines of the finder call the methods.
type Host interface {
	// DialFailed reports why a node can't be dialed, once for each change. It doesn't block.
	DialFailed(Failure)
	// SetDuplicateName reports that this process gives way to an older process with the same name,
	// and why; empty once the other process is gone. It doesn't block.
	SetDuplicateName(text string)
	// Accepted reports whether a voter other than this node accepts this process. It waits for the
	// node's answer; a node that has ended is accepted by none.
	Accepted() bool
	// Members receives the members known to gossip, and waits until the node has processed them. It
	// returns false once the node has ended.
	Members([]member.Member) bool
}

// Peers are the configured addresses of other nodes. Package peers looks them up.
type Peers interface {
	// All returns the addresses, host:port, sorted and without duplicates. ctx bounds the call.
	All(ctx context.Context) []string
	// Failing returns what is wrong with the entries that have no address.
	Failing() []string
}

// Config says what a [Finder] needs to know of its node.
type Config struct {
	Host  Host
	Self  vote.SessionID
	Terms vote.Terms // the node's part of the mesh's configuration
	// Dynamic says that any node may become a voter. It holds for a converting node, too, for which
	// Terms.Dynamic isn't set.
	Dynamic bool
	Peers   Peers // where to look for other nodes
	Clocks  clock.Clocks
	Log     *slog.Logger
	Turns   world.Turns // bounds the dials under way; nil is no bound
	// Voter says that the node votes or may become a voter. Only then are excluded nodes probed.
	Voter bool
}

// Finder finds and dials the nodes to which one node wants links. The methods may be called from
// any goroutine after Connect; none of them blocks, except as documented.
type Finder struct {
	cfg             Config
	ctx             context.Context // ends when the node stops
	links           world.Links
	group           member.Group
	book            *addressBook
	peers           *peerProber
	excluded        *excludedProber
	feed            *membershipFeed // nil unless membership is dynamic
	work            sync.WaitGroup  // the finder's goroutines
	lacksElectorate atomic.Bool     // the node knows no electorate
	barred          atomic.Bool     // and the register lets no mesh be born
	mayLive         atomic.Bool     // since the mesh named by the register may be alive

	mu      sync.Mutex
	dialers map[vote.NodeID]*dialer // by the name of the wanted node
	// alive has the other live members, with their addresses, and at the members by address.
	alive map[vote.NodeID]string
	at    map[string]vote.NodeID
	// own is the address of this node as known to gossip: an IP address even if the node advertises
	// a name.
	own string
}

// Failure is the reason why a wanted node can't be dialed.
type Failure struct {
	Node   vote.NodeID
	Reason vote.Reason // ReasonNone: the node can't be reached, or its address is unknown
	Text   string
	dialer *dialer
}

// Current reports whether the dialer that failed still has its task: the node may have been
// unwanted since.
func (f *Failure) Current() bool { return f.dialer.f.dialerOf(f.Node) == f.dialer }

// New returns the finder of a node that stops with ctx. Nothing is dialed yet.
func New(ctx context.Context, cfg Config) *Finder {
	f := &Finder{cfg: cfg, ctx: ctx, alive: make(map[vote.NodeID]string), at: make(map[string]vote.NodeID)}
	if cfg.Dynamic {
		f.book = newAddressBook(nil) // any node may become a voter
		f.feed = &membershipFeed{f: f, wake: make(chan struct{}, 1)}
	} else {
		f.book = newAddressBook(cfg.Terms.Voters)
	}
	f.peers = newPeerProber(f)
	f.excluded = newExcludedProber(f)
	return f
}

// Connect gives the finder the node's links. The node calls it before gossip starts; until then
// only LinkUp may be called.
func (f *Finder) Connect(links world.Links) { f.links = links }

// Run starts the finder's goroutines, which end with the node's context: see Wait. Gossip may have
// reported members before.
func (f *Finder) Run(group member.Group) {
	f.group = group
	f.noteOwn(group.Members())
	if f.feed != nil {
		f.work.Go(func() { f.feed.run(f.ctx) })
	}
	f.work.Go(func() { f.peers.run(f.ctx) })
	if f.cfg.Voter {
		f.work.Go(func() { f.excluded.run(f.ctx) })
		f.work.Go(func() { f.excluded.runUnknown(f.ctx) })
	}
}

// Wait waits until all goroutines of the finder have ended, after the end of the node's context. No
// call of Want may be under way.
func (f *Finder) Wait() { f.work.Wait() }

// Joined reports whether gossip knows another live node.
func (f *Finder) Joined() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.alive) > 0
}

// Known reports whether gossip knows a live node at an address, or the address is this node's own.
func (f *Finder) Known(addr netip.AddrPort) bool {
	text := addr.String()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[text] != "" || text == f.own || text == f.links.AdvertiseAddr()
}

// noteOwn records this node's address as known to gossip.
func (f *Finder) noteOwn(members []member.Member) {
	for i := range members {
		if m := &members[i]; m.Name == f.cfg.Self.Node && m.Incarnation == f.cfg.Self.Incarnation {
			f.mu.Lock()
			f.own = m.Addr
			f.mu.Unlock()
		}
	}
}

// needed is how many other nodes show, by accepting this node, that this node isn't the one with a
// wrong secret or name of the mesh. A single node does, but for a birth by count: two processes
// with the same wrong secret accept each other, and are still too few to be born. No number is
// enough while the register lets no mesh be born, or for a node without a vote: a whole rollout may
// have the same wrong secret. See outnumbers, too.
func (f *Finder) needed() int {
	switch {
	case f.barred.Load():
		return math.MaxInt
	case f.lacksElectorate.Load():
		return max(f.cfg.Terms.Birth.Expect-1, 1)
	}
	return 1
}

// outnumbers reports whether so many addresses accept this node, and so few refuse it, that this
// node isn't the one with a wrong secret, though the register lets no mesh be born: the mesh of the
// register may have lost its majority, and its survivors and new processes wait together. While the
// mesh may be alive, the few addresses that refuse may be the right ones.
func (f *Finder) outnumbers(accepting, refusing int) bool {
	return f.cfg.Voter && f.barred.Load() && !f.mayLive.Load() && accepting > refusing
}

// isAccepted reports whether gossip knows as many other live nodes as needed.
func (f *Finder) isAccepted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.alive) >= f.needed()
}

// SetLacksElectorate says whether the node knows no electorate yet. Such a node may want no link,
// and looks for other nodes until gossip knows as many as needed. Barred says that the node can't
// be born, as far as is known, and mayLive that the mesh named by the register may be alive.
func (f *Finder) SetLacksElectorate(lacks, barred, mayLive bool) {
	f.mayLive.Store(mayLive)
	isNews := f.barred.Swap(barred) != barred
	if f.lacksElectorate.Swap(lacks) != lacks || isNews {
		wakeup.Send(f.peers.wake)
	}
}

// Trouble says why the configured peers lead to no other node: which have no address and, while
// gossip knows too few other nodes, which don't answer or refuse this node. Empty if there is
// nothing to say.
func (f *Finder) Trouble() string {
	var texts []string
	if failing := f.cfg.Peers.Failing(); len(failing) > 0 {
		texts = append(texts, someOf(failing))
	}
	if !f.isAccepted() {
		if text := f.book.fruitlessProbes(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// IsRefused reports whether nodes found by the configured peers refuse this node, and too few
// others accept it: one, or before a birth by count as many as the birth needs. While the register
// lets no mesh be born, more must accept than refuse, and no number is enough while the mesh named
// by the register may be alive, or for a node without a vote. The refusal stands until enough nodes
// accept this node or gossip has met them, until the node that refuses accepts this node or answers
// no more, or until no configured peer leads to that node.
func (f *Finder) IsRefused() bool { return !f.isAccepted() && f.book.isRefused() }

// noteAlive records which other members are alive.
func (f *Finder) noteAlive(m *member.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.alive[m.Name]; f.at[old] == m.Name {
		delete(f.at, old)
	}
	if m.State == vote.Alive && m.Name != f.cfg.Self.Node {
		f.alive[m.Name], f.at[m.Addr] = m.Addr, m.Name
		if len(f.alive) >= f.needed() {
			f.book.setRefusal(nil) // gossip asks for the same secret and mesh
		}
	} else {
		delete(f.alive, m.Name)
		if len(f.alive) < f.needed() {
			wakeup.Send(f.peers.wake)
		}
	}
}

// Gossip takes in news of a member.
func (f *Finder) Gossip(e member.Event) {
	f.noteAlive(&e.Member)
	f.book.addMember(e.Member)
	if at, err := netip.ParseAddrPort(e.Member.Addr); err == nil {
		f.links.Know(at.Addr())
	}
	switch e.Kind {
	case member.Joined, member.Updated:
		if d := f.dialerOf(e.Member.Name); d != nil {
			wakeup.Send(d.wake)
		}
	case member.NameConflict:
		f.peers.reportDuplicate(e.Member)
		f.excluded.add(e.Member.Addr)
	}
	if f.feed != nil {
		wakeup.Send(f.feed.wake)
	}
}

// Excluded takes in gossip's report of a node not admitted to the group.
func (f *Finder) Excluded(who member.Member) { f.excluded.add(who.Addr) }

// Met takes in an encounter with another node of the mesh, in a handshake begun by either side.
func (f *Finder) Met(s *vote.Sighting) {
	if s.Terms.Equal(&f.cfg.Terms) && s.Peer.Node != f.cfg.Self.Node {
		f.excluded.remove(s.Addr)
	} else {
		f.excluded.noteSighting(s)
	}
}

// SayGoodbye tells excluded nodes that this node's votes no longer count. It waits for their
// answers, for as long as ctx allows and a second at most.
func (f *Finder) SayGoodbye(ctx context.Context) { f.excluded.sayGoodbye(ctx) }

// sleep waits until d has passed, wake receives a value or ctx ends.
func (f *Finder) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	clock.Sleep(ctx, f.cfg.Clocks, d, wake)
}
