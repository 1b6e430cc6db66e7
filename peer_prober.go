package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// peerPauseMin and peerPauseMax bound the pause between two rounds of probes. Rounds are made only
	// while some voter can't be found.
	peerPauseMin = 100 * time.Millisecond
	peerPauseMax = 5 * time.Second

	// probeTimeout is the timeout for a peer's answer to a probe, and for looking up the peer's name.
	probeTimeout = 3 * time.Second

	// peerProbesAtOnce is how many addresses are probed at the same time; addrsPerPeer is how many
	// addresses of a host name are used.
	peerProbesAtOnce = 16
	addrsPerPeer     = 16

	// newcomerFor is how long after its start a process that no voter accepts takes itself for the
	// later of two processes with the same name. A starting process finds the other within seconds,
	// if the other can be found at all; a process that learns of the other later was most likely
	// first, and the voters keep the other out.
	newcomerFor = 10 * time.Second

	// duplicateProbeEvery is how often another process with this node's name is probed; duplicateMisses is
	// how many probes in a row the process must leave unanswered to count as gone.
	duplicateProbeEvery = time.Second
	duplicateMisses     = 2

	// maxDuplicatesLogged bounds the number of processes with a duplicate name that are logged only once
	// each. A larger number means that a process restarts in a loop.
	maxDuplicatesLogged = 64
)

// peerProber probes the configured addresses. The probes find three things unknown to gossip: where
// the voters are before gossip has met them, that other nodes refuse this node (then gossip stays
// apart as well), and that another process has this node's name. One goroutine runs the greeter.
type peerProber struct {
	m          *Mesh
	wake       chan struct{}      // capacity 1: a link to a voter is down
	duplicates chan member.Member // capacity 1: a process with this node's name, reported by gossip
	pause      backoff
	probeLimit int               // limit on the addresses of the last round; zero at first
	warned     map[string]string // by address: the last refusal logged
	unresolved map[string]bool   // peers with names not found at the last lookup

	loggedDuplicates map[vote.Incarnation]bool // processes with this node's name already logged
	duplicateAddr    string                    // address of the process to which this node gives way
	misses           int                       // unanswered probes of rival in a row
}

// probeResult is the result of probing one address.
type probeResult struct {
	addr string
	who  vote.SessionID
	err  error
}

func newPeerProber(m *Mesh) *peerProber {
	return &peerProber{
		m: m, wake: make(chan struct{}, 1), duplicates: make(chan member.Member, 1),
		pause:  backoff{least: peerPauseMin, most: peerPauseMax},
		warned: make(map[string]string), unresolved: make(map[string]bool), loggedDuplicates: make(map[vote.Incarnation]bool),
	}
}

// reportDuplicate receives gossip's report of another process with this node's name. It never blocks.
func (g *peerProber) reportDuplicate(m member.Member) {
	select {
	case g.duplicates <- m:
		kick(g.wake)
	default:
	}
}

// run probes until ctx ends.
func (g *peerProber) run(ctx context.Context) {
	// The first round is made even if no voter is sought: it finds another process with this node's
	// name.
	g.round(ctx)
	for ctx.Err() == nil {
		switch {
		case g.duplicateAddr != "":
			g.m.sleep(ctx, duplicateProbeEvery, nil)
			g.checkDuplicate(ctx)
		case g.seeking():
			g.m.sleep(ctx, g.pause.pause(), nil)
			g.round(ctx)
		default:
			g.pause.reset()
			g.probeLimit = 0
			select {
			case <-g.wake:
			case <-ctx.Done():
			}
		}
		select {
		case m := <-g.duplicates:
			g.handleDuplicate(m.Life, m.Addr)
		default:
		}
	}
}

// seeking reports whether some voter is neither linked nor known to gossip.
func (g *peerProber) seeking() bool {
	return slices.ContainsFunc(g.m.dialers.all(), func(d *dialer) bool { return !d.linked() && !g.m.addressBook.inGossip(d.voter) })
}

// round probes the configured addresses once, at most as many as some allows, and acts on the
// results.
func (g *peerProber) round(ctx context.Context) {
	results := g.probeAll(ctx, g.sample(g.addresses(ctx)))
	if ctx.Err() != nil {
		return
	}
	accepted := 0
	welcome := make(map[vote.NodeID]bool) // the nodes that accept this node
	for _, r := range results {
		if r.err == nil {
			welcome[r.who.Node] = true
		}
	}
	var refused *refusal
	var silent []string
	for _, r := range results {
		var no *transport.RefusedError
		switch {
		case errors.Is(r.err, transport.ErrNoAnswer):
			silent = append(silent, r.addr)
		case r.err == nil:
			accepted++
			delete(g.warned, r.addr)
			if g.isDuplicate(r) {
				g.handleDuplicate(r.who.Incarnation, r.addr)
			}
			g.addressFound(r.who.Node, r.addr)
		case errors.As(r.err, &no):
			g.warn(r.addr, no)
			// The voter's dialer receives and reports the refusal, too, unless the peer belongs to
			// another mesh and only has the voter's name.
			if !welcome[no.Peer] {
				g.addressFound(no.Peer, r.addr)
			}
			refused = &refusal{no.Reason, fmt.Sprintf(
				"its address is unknown, since every peer that answered refuses this node; %s at %s: %s", peerName(no.Peer), r.addr, no.Text)}
		}
	}
	if accepted > 0 {
		refused = nil
	}
	unheard := g.m.addressBook.setUnanswered(silent)
	if unheard && len(silent) > 0 {
		g.m.log.Warn("peers can be connected to, but don't answer; will keep trying. Do packets of 1,100 bytes get through?",
			"addrs", silent, "error", transport.ErrNoAnswer)
	}
	if (accepted > 0 || refused != nil) && g.m.addressBook.setRefusal(refused) || unheard {
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

// addressFound records a voter's address, and has the voter dialed if the address is new.
func (g *peerProber) addressFound(name vote.NodeID, addr string) {
	if g.m.addressBook.addProbed(name, addr) {
		if d := g.m.dialers.of(name); d != nil {
			kick(d.wake)
		}
	}
}

// warn logs a refusal once for each change.
func (g *peerProber) warn(addr string, no *transport.RefusedError) {
	if g.warned[addr] == no.Error() {
		return
	}
	if len(g.warned) >= MaxPeers*addrsPerPeer {
		clear(g.warned) // names with ever-changing addresses
	}
	g.warned[addr] = no.Error()
	g.m.log.Warn("a peer refuses this node", "addr", addr, "peer", no.Peer, "reason", no.Reason, "text", no.Text)
}

// addresses returns the addresses of the configured peers, looking up their names.
func (g *peerProber) addresses(ctx context.Context) []string {
	var all []string
	for _, p := range g.m.peers() {
		host, port, err := net.SplitHostPort(p)
		if err != nil {
			continue // refused by Validate
		}
		if _, err := netip.ParseAddr(host); err == nil {
			all = append(all, p)
			continue
		}
		lookUp, cancel := context.WithTimeout(ctx, probeTimeout)
		ips, err := net.DefaultResolver.LookupNetIP(lookUp, "ip", host)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !g.unresolved[p] {
			g.m.log.Warn("a peer's name can't be looked up; will keep trying", "peer", p, "error", err)
		}
		g.unresolved[p] = err != nil
		for _, ip := range ips[:min(len(ips), addrsPerPeer)] {
			all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// probesFirst is how many addresses a first round probes. Each further round probes twice as many,
// as long as some voter can't be found. One answer is enough for gossip to find the rest, so a
// hundred nodes with each other's addresses that start at the same time don't need ten thousand
// handshakes.
const probesFirst = 8

// sample returns a random selection of the addresses, of the size of this round.
func (g *peerProber) sample(addrs []string) []string {
	g.probeLimit = min(max(2*g.probeLimit, probesFirst), MaxPeers*addrsPerPeer)
	if len(addrs) <= g.probeLimit {
		return addrs
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs[:g.probeLimit]
}

// probeAll probes the addresses, a few at a time, and returns the results in the same order. Its
// goroutines end with the call.
func (g *peerProber) probeAll(ctx context.Context, addrs []string) []probeResult {
	results := make([]probeResult, len(addrs))
	slots := make(chan struct{}, peerProbesAtOnce)
	var work sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		work.Go(func() {
			results[i] = g.probe(ctx, addr)
			<-slots
		})
	}
	work.Wait()
	return results
}

func (g *peerProber) probe(ctx context.Context, addr string) probeResult {
	defer g.m.dialSlots.acquire(ctx)()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	who, err := g.m.links.Greet(ctx, addr)
	return probeResult{addr, who, err}
}

func (g *peerProber) isDuplicate(r probeResult) bool {
	return r.who.Node == g.m.self.Node && r.who.Incarnation != g.m.self.Incarnation
}

// handleDuplicate handles another process with this node's name: if this process came later, all calls are
// refused while the other process answers.
func (g *peerProber) handleDuplicate(other vote.Incarnation, addr string) {
	late := g.duplicateAddr == "" && g.cameLater()
	if len(g.loggedDuplicates) >= maxDuplicatesLogged {
		clear(g.loggedDuplicates)
	}
	if !g.loggedDuplicates[other] {
		g.loggedDuplicates[other] = true
		g.m.log.Error("another live process has this node's name: stop one of the two, or rename it",
			"name", g.m.self.Node, "addr", addr, "other_life", incarnationText(other), "gives_way", late)
	}
	if late {
		g.duplicateAddr, g.misses = addr, 0
		g.setDuplicateName(fmt.Sprintf("another live process at %s is called %q too, and was there before; stop one of the two, or rename it",
			addr, g.m.self.Node))
	}
}

// cameLater guesses whether this process is the later of two with the same name. The answer is no
// if some other voter accepts this process: voters turn the later process away. A process not
// accepted by any voter yet counts as the later process while it is young.
func (g *peerProber) cameLater() bool {
	if g.m.clocks.Now().Slow.Sub(clock.Start) >= newcomerFor {
		return false
	}
	accepted := make(chan bool, 1)
	g.m.loop.box.post(false, func(now vote.Now) {
		accepted <- slices.ContainsFunc(g.m.loop.node.Voters(now), func(v quorum.VoterState) bool {
			return v.Name != g.m.self.Node && (v.State == quorum.Reachable || v.State == quorum.Quiet || v.State == quorum.Silent)
		})
	})
	select {
	case ok := <-accepted:
		return !ok
	case <-g.m.loop.done:
		return true
	}
}

// checkDuplicate checks whether the other process with this node's name is still alive.
func (g *peerProber) checkDuplicate(ctx context.Context) {
	r := g.probe(ctx, g.duplicateAddr)
	switch {
	case ctx.Err() != nil:
	case g.isDuplicate(r):
		g.misses = 0
	default:
		if g.misses++; g.misses >= duplicateMisses {
			g.m.log.Warn("the other process with this node's name is gone", "name", g.m.self.Node, "addr", g.duplicateAddr)
			g.duplicateAddr = ""
			g.setDuplicateName("")
		}
	}
}

func (g *peerProber) setDuplicateName(text string) {
	g.m.loop.box.post(false, func(now vote.Now) { g.m.loop.setDuplicateName(now, text) })
}
