package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// greetLeast and greetMost bound the pause between two rounds of greetings, which are made only while some voter can't be found.
	greetLeast = 100 * time.Millisecond
	greetMost  = 5 * time.Second

	// greetTime is how long a peer may take to answer a greeting, and its name to be looked up.
	greetTime = 3 * time.Second

	// greetAtOnce is how many addresses are greeted at the same time, and addrsPerPeer how many one name may stand for.
	greetAtOnce  = 16
	addrsPerPeer = 16

	// newcomerFor is how long after its start a process that no voter talks with takes itself for the later one of two that have
	// one name. A start finds the other within seconds, if it can be found; whoever learns of it later was most likely there first,
	// and the voters keep the other out.
	newcomerFor = 10 * time.Second

	// namesakeEvery is how often another process with our name is looked after, and namesakeMisses how many of these in a row it
	// must miss to be gone.
	namesakeEvery  = time.Second
	namesakeMisses = 2

	// accusedMax bounds for how many other processes with our name the log is told once. More than that means that something
	// restarts in a loop.
	accusedMax = 64
)

// greeter asks the configured addresses who is there. It finds what gossip can't tell: where the voters are as long as gossip
// hasn't met them, that this node is refused (then gossip stays apart as well), and that another process has its name. One
// goroutine runs it.
type greeter struct {
	m        *Mesh
	wake     chan struct{}      // capacity 1: a link to a voter is down
	suspects chan member.Member // capacity 1: another process with our name, as gossip has met it
	pause    backoff
	warned   map[string]string // by address: the refusal that was logged last
	lost     map[string]bool   // peers whose names couldn't be looked up at the last try

	accused map[vote.Life]bool // other processes with our name of which the log has been told
	rival   string             // the address of another process with our name, while we give way to it
	misses  int                // how often in a row it hasn't answered
}

// greeting is what came of greeting one address.
type greeting struct {
	addr string
	who  vote.SessionID
	err  error
}

func newGreeter(m *Mesh) *greeter {
	return &greeter{
		m: m, wake: make(chan struct{}, 1), suspects: make(chan member.Member, 1),
		pause:  backoff{least: greetLeast, most: greetMost},
		warned: make(map[string]string), lost: make(map[string]bool), accused: make(map[vote.Life]bool),
	}
}

// suspect takes gossip's word of another process with our name. It never blocks.
func (g *greeter) suspect(m member.Member) {
	select {
	case g.suspects <- m:
		kick(g.wake)
	default:
	}
}

// run works until ctx ends.
func (g *greeter) run(ctx context.Context) {
	g.round(ctx) // the first is made even if no voter is sought: it finds another process with our name
	for ctx.Err() == nil {
		switch {
		case g.rival != "":
			g.m.sleep(ctx, namesakeEvery, nil)
			g.look(ctx)
		case g.seeking():
			g.m.sleep(ctx, g.pause.pause(), nil)
			g.round(ctx)
		default:
			g.pause.reset()
			select {
			case <-g.wake:
			case <-ctx.Done():
			}
		}
		select {
		case m := <-g.suspects:
			g.meet(m.Life, m.Addr)
		default:
		}
	}
}

// seeking reports whether some voter is neither linked nor known to gossip.
func (g *greeter) seeking() bool {
	return slices.ContainsFunc(g.m.dialers.all(), func(d *dialer) bool { return !d.linked() && !g.m.book.inGossip(d.voter) })
}

// round greets every configured address once, and draws the conclusions.
func (g *greeter) round(ctx context.Context) {
	results := g.greetAll(ctx, g.addresses(ctx))
	if ctx.Err() != nil {
		return
	}
	accepted := 0
	welcome := make(map[vote.NodeID]bool) // who takes this node in
	for _, r := range results {
		if r.err == nil {
			welcome[r.who.Node] = true
		}
	}
	var refused *refusal
	for _, r := range results {
		var no *transport.RefusedError
		switch {
		case r.err == nil:
			accepted++
			delete(g.warned, r.addr)
			if g.isNamesake(r) {
				g.meet(r.who.Life, r.addr)
			}
			g.found(r.who.Node, r.addr)
		case errors.As(r.err, &no):
			g.warn(r.addr, no)
			// The voter's own dialer hears the refusal, too, and reports it; unless a stranger of another mesh is only called like the voter.
			if !welcome[no.Peer] {
				g.found(no.Peer, r.addr)
			}
			refused = &refusal{no.Reason, fmt.Sprintf(
				"its address is unknown, since every peer that answered refuses this node; %s at %s: %s", peerName(no.Peer), r.addr, no.Text)}
		}
	}
	if accepted > 0 {
		refused = nil
	}
	if (accepted > 0 || refused != nil) && g.m.book.shun(refused) {
		for _, d := range g.m.dialers.all() {
			kick(d.wake)
		}
	}
}

func peerName(n vote.NodeID) string {
	if n == "" {
		return "the one"
	}
	return string(n)
}

// found notes where a voter is, and has it dialed if that is news.
func (g *greeter) found(name vote.NodeID, addr string) {
	if g.m.book.met(name, addr) {
		if d := g.m.dialers.of(name); d != nil {
			kick(d.wake)
		}
	}
}

// warn logs a refusal once for each change.
func (g *greeter) warn(addr string, no *transport.RefusedError) {
	if g.warned[addr] == no.Error() {
		return
	}
	if len(g.warned) >= MaxPeers*addrsPerPeer {
		clear(g.warned) // names that stand for ever other addresses
	}
	g.warned[addr] = no.Error()
	g.m.log.Warn("a peer refuses this node", "addr", addr, "peer", no.Peer, "reason", no.Reason, "text", no.Text)
}

// addresses looks up what the configured peers stand for.
func (g *greeter) addresses(ctx context.Context) []string {
	var all []string
	for _, p := range g.m.peers() {
		host, port, err := net.SplitHostPort(p)
		if err != nil {
			continue // Validate has refused it
		}
		if _, err := netip.ParseAddr(host); err == nil {
			all = append(all, p)
			continue
		}
		lookUp, cancel := context.WithTimeout(ctx, greetTime)
		ips, err := net.DefaultResolver.LookupNetIP(lookUp, "ip", host)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !g.lost[p] {
			g.m.log.Warn("a peer's name can't be looked up; will keep trying", "peer", p, "error", err)
		}
		g.lost[p] = err != nil
		for _, ip := range ips[:min(len(ips), addrsPerPeer)] {
			all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// greetAll greets the addresses, a few at a time, and returns what came of it in their order. Its goroutines end with it.
func (g *greeter) greetAll(ctx context.Context, addrs []string) []greeting {
	results := make([]greeting, len(addrs))
	slots := make(chan struct{}, greetAtOnce)
	var work sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		work.Go(func() {
			results[i] = g.greet(ctx, addr)
			<-slots
		})
	}
	work.Wait()
	return results
}

func (g *greeter) greet(ctx context.Context, addr string) greeting {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	who, err := g.m.links.Greet(ctx, addr)
	return greeting{addr, who, err}
}

func (g *greeter) isNamesake(r greeting) bool {
	return r.who.Node == g.m.self.Node && r.who.Life != g.m.self.Life
}

// meet has every call refused while another process with our name answers, if we are the one that came later.
func (g *greeter) meet(other vote.Life, addr string) {
	late := g.rival == "" && g.cameLater()
	if len(g.accused) >= accusedMax {
		clear(g.accused)
	}
	if !g.accused[other] {
		g.accused[other] = true
		g.m.log.Error("another live process has this node's name: stop one of the two, or rename it",
			"name", g.m.self.Node, "addr", addr, "other_life", lifeText(other), "gives_way", late)
	}
	if late {
		g.rival, g.misses = addr, 0
		g.refuse(fmt.Sprintf("another live process at %s is called %q too, and was there before; stop one of the two, or rename it",
			addr, g.m.self.Node))
	}
}

// cameLater guesses whether this process is the later one of two that have its name. It isn't if some other voter talks with it:
// voters turn the later one away. A process that no voter talks with yet is taken for the later one while it is young.
func (g *greeter) cameLater() bool {
	if g.m.clocks.now().Slow.Sub(firstInstant) >= newcomerFor {
		return false
	}
	accepted := make(chan bool, 1)
	g.m.loop.box.post(false, func(now vote.Now) {
		accepted <- slices.ContainsFunc(g.m.loop.node.Voters(now), func(v quorum.VoterState) bool {
			return v.Name != g.m.self.Node && (v.State == quorum.Reachable || v.State == quorum.Quiet)
		})
	})
	select {
	case ok := <-accepted:
		return !ok
	case <-g.m.loop.done:
		return true
	}
}

// look finds out whether the other process with our name is still there.
func (g *greeter) look(ctx context.Context) {
	r := g.greet(ctx, g.rival)
	switch {
	case ctx.Err() != nil:
	case g.isNamesake(r):
		g.misses = 0
	default:
		if g.misses++; g.misses >= namesakeMisses {
			g.m.log.Warn("the other process with this node's name is gone", "name", g.m.self.Node, "addr", g.rival)
			g.rival = ""
			g.refuse("")
		}
	}
}

func (g *greeter) refuse(text string) {
	g.m.loop.box.post(false, func(now vote.Now) { g.m.loop.setNamesake(now, text) })
}
