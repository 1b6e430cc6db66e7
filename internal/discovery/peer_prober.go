package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/backoff"
	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// peerPauseMin and peerPauseMax bound the pause between two rounds of probes. Rounds are made
	// only while some voter can't be found.
	peerPauseMin = 100 * time.Millisecond
	peerPauseMax = 5 * time.Second

	// probeTimeout is the timeout for a peer's answer to a probe.
	probeTimeout = 3 * time.Second

	// peerProbesAtOnce is how many addresses are probed at the same time, and maxProbed how many in
	// one round; there are never more names at the same time.
	peerProbesAtOnce = 16
	maxProbed        = 4096

	// newcomerFor is how long after its start a process that no voter accepts takes itself for the
	// later of two processes with the same name. A starting process finds the other within seconds,
	// if the other can be found at all; a process that learns of the other later was most likely
	// first, and the voters keep the other out.
	newcomerFor = 10 * time.Second

	// duplicateProbeEvery is how often another process with this node's name is probed;
	// duplicateMisses is how many probes in a row the process must leave unanswered to count as
	// gone.
	duplicateProbeEvery = time.Second
	duplicateMisses     = 2

	// maxDuplicatesLogged bounds the number of processes with a duplicate name that are logged only
	// once each. A larger number means that a process restarts in a loop.
	maxDuplicatesLogged = 64
)

// peerProber probes the configured addresses. The probes find three things unknown to gossip: where
// the voters are before gossip has met them, that other nodes refuse this node (then gossip stays
// apart as well), and that another process has this node's name. One goroutine runs the prober.
type peerProber struct {
	f          *Finder
	wake       chan struct{}      // capacity 1: a link to a voter is down
	duplicates chan member.Member // capacity 1: a process with this node's name, reported by gossip
	pause      backoff.Backoff
	probeLimit int               // limit on the addresses of the last round; zero at first
	warned     map[string]string // by address: the last refusal logged

	loggedDuplicates map[vote.Incarnation]bool // processes with this node's name already logged
	duplicateAddr    string                    // address of the process to which this node gives way
	misses           int                       // unanswered probes of that process in a row
}

// probeResult is the result of probing one address.
type probeResult struct {
	addr string
	who  vote.SessionID
	err  error
}

func newPeerProber(f *Finder) *peerProber {
	return &peerProber{
		f: f, wake: make(chan struct{}, 1), duplicates: make(chan member.Member, 1),
		pause:  backoff.Backoff{Least: peerPauseMin, Most: peerPauseMax},
		warned: make(map[string]string), loggedDuplicates: make(map[vote.Incarnation]bool),
	}
}

// reportDuplicate receives gossip's report of another process with this node's name. It never
// blocks.
func (p *peerProber) reportDuplicate(m member.Member) {
	select {
	case p.duplicates <- m:
		wakeup.Send(p.wake)
	default:
	}
}

// run probes until ctx ends.
func (p *peerProber) run(ctx context.Context) {
	// The first round is made even if no voter is sought: it finds another process with this node's
	// name.
	p.round(ctx)
	for ctx.Err() == nil {
		switch {
		case p.duplicateAddr != "":
			p.f.sleep(ctx, duplicateProbeEvery, nil)
			p.checkDuplicate(ctx)
		case p.seeking():
			p.f.sleep(ctx, p.pause.Pause(), nil)
			p.round(ctx)
		default:
			p.pause.Reset()
			p.probeLimit = 0
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
		}
		select {
		case m := <-p.duplicates:
			p.handleDuplicate(m.Incarnation, m.Addr)
		default:
		}
	}
}

// seeking reports whether some voter is neither linked nor known to gossip, or whether neither an
// electorate nor enough other nodes are known.
func (p *peerProber) seeking() bool {
	if p.f.lacksElectorate.Load() && !p.f.isAccepted() {
		return true
	}
	return slices.ContainsFunc(p.f.allDialers(), func(d *dialer) bool { return !d.linked() && !p.f.book.inGossip(d.voter) })
}

// round probes the configured addresses once, as many as sample allows, and acts on the results.
func (p *peerProber) round(ctx context.Context) {
	found := p.f.cfg.Peers.All(ctx)
	results := p.probeAll(ctx, p.sample(found))
	if ctx.Err() != nil {
		return
	}
	welcome := make(map[vote.NodeID]bool) // the nodes that accept this node
	answers := make(map[string]answer)
	accepting := 0 // addresses, as those that refuse are counted
	for _, r := range results {
		answers[r.addr] = noAnswer
		if r.err == nil {
			welcome[r.who.Node], answers[r.addr] = true, accepts
			accepting++
		}
	}
	var refused *refusal
	var silent, refusing, unreached []string
	for _, r := range results {
		var no *transport.RefusedError
		switch {
		case errors.Is(r.err, transport.ErrSelf): // as in each group of addresses with this node's
		case errors.Is(r.err, transport.ErrNoAnswer):
			silent = append(silent, r.addr)
			unreached = append(unreached, unreachedError(r.addr, r.err, probeTimeout).Error())
		case r.err == nil:
			delete(p.warned, r.addr)
			if p.isDuplicate(r) {
				p.handleDuplicate(r.who.Incarnation, r.addr)
			}
			p.addressFound(r.who.Node, r.addr)
		case errors.As(r.err, &no):
			p.warn(r.addr, no)
			refusing = append(refusing, fmt.Sprintf("%s at %s refuses this node: %s", peerName(no.Peer), r.addr, no.Text))
			// The voter's dialer receives and reports the refusal, too, unless the peer belongs to
			// another mesh and only has the voter's name.
			if !welcome[no.Peer] {
				p.addressFound(no.Peer, r.addr)
			}
			refused = &refusal{no.Reason, fmt.Sprintf(
				"its address is unknown, since every peer that answered refuses this node; %s at %s: %s", peerName(no.Peer), r.addr, no.Text), r.addr}
		default:
			unreached = append(unreached, unreachedError(r.addr, r.err, probeTimeout).Error())
		}
	}
	unheard := p.f.book.setUnanswered(silent)
	failing := p.f.cfg.Peers.Failing()
	p.f.book.setFailing(failing)
	slices.Sort(refusing) // the rounds are in random orders
	slices.Sort(unreached)
	p.f.book.setFruitless(append(refusing, unreached...))
	if unheard && len(silent) > 0 {
		p.f.cfg.Log.Warn("peers can be connected to, but don't answer; will keep trying. Do packets of 1,100 bytes get through?",
			"addrs", silent, "error", transport.ErrNoAnswer)
	}
	accepted := len(welcome) >= p.f.needed() || p.f.outnumbers(accepting, len(refusing))
	if p.f.mayLive.Load() {
		maps.DeleteFunc(answers, func(_ string, a answer) bool { return a == noAnswer }) // the mesh may be alive
	}
	if p.f.book.noteRound(accepted, refused, answers, found, failing) || unheard {
		for _, d := range p.f.allDialers() {
			wakeup.Send(d.wake)
		}
	}
}

func peerName(n vote.NodeID) string {
	if n == "" {
		return "the peer"
	}
	return string(n)
}

// addressFound records a voter's address, and has the voter dialed if the address is new.
func (p *peerProber) addressFound(name vote.NodeID, addr string) {
	if p.f.book.addProbed(name, addr) {
		if d := p.f.dialerOf(name); d != nil {
			wakeup.Send(d.wake)
		}
	}
}

// warn logs a refusal once for each change.
func (p *peerProber) warn(addr string, no *transport.RefusedError) {
	if p.warned[addr] == no.Error() {
		return
	}
	if len(p.warned) >= maxProbed {
		clear(p.warned) // names with ever-changing addresses
	}
	p.warned[addr] = no.Error()
	p.f.cfg.Log.Warn("a peer refuses this node", "addr", addr, "peer", no.Peer, "reason", no.Reason.String(), "text", no.Text)
}

// probesFirst is how many addresses a first round probes. Each further round probes twice as many,
// as long as some voter can't be found. One answer is enough for gossip to find the rest, so a
// hundred nodes with each other's addresses that start at the same time don't need ten thousand
// handshakes.
const probesFirst = 8

// sample returns a random selection of the addresses, of the size of this round.
func (p *peerProber) sample(addrs []string) []string {
	p.probeLimit = min(max(2*p.probeLimit, probesFirst), maxProbed)
	if len(addrs) <= p.probeLimit {
		return addrs
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs[:p.probeLimit]
}

// probeAll probes the addresses, a few at a time, and returns the results in the same order. Its
// goroutines end with the call.
func (p *peerProber) probeAll(ctx context.Context, addrs []string) []probeResult {
	results := make([]probeResult, len(addrs))
	slots := make(chan struct{}, peerProbesAtOnce)
	var work sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		work.Go(func() {
			results[i] = p.probe(ctx, addr)
			<-slots
		})
	}
	work.Wait()
	return results
}

func (p *peerProber) probe(ctx context.Context, addr string) probeResult {
	giveBack, err := p.f.takeTurn(ctx)
	if err != nil {
		return probeResult{addr: addr, err: err}
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	who, err := p.f.links.Probe(ctx, addr)
	return probeResult{addr, who, err}
}

func (p *peerProber) isDuplicate(r probeResult) bool {
	return r.who.Node == p.f.cfg.Self.Node && r.who.Incarnation != p.f.cfg.Self.Incarnation
}

// handleDuplicate handles another process with this node's name: if this process came later, all
// calls are refused while the other process answers.
func (p *peerProber) handleDuplicate(other vote.Incarnation, addr string) {
	late := p.duplicateAddr == "" && p.cameLater()
	if len(p.loggedDuplicates) >= maxDuplicatesLogged {
		clear(p.loggedDuplicates)
	}
	if !p.loggedDuplicates[other] {
		p.loggedDuplicates[other] = true
		p.f.cfg.Log.Error("another live process has this node's name: stop one of the two, or rename it",
			"name", p.f.cfg.Self.Node, "addr", addr,
			"other_incarnation", fmt.Sprintf("%x", uint64(other)), "withdraws", late)
	}
	if late {
		p.duplicateAddr, p.misses = addr, 0
		p.f.cfg.Host.SetDuplicateName(fmt.Sprintf(
			"another, older live process at %s is called %q too; stop one of the two, or rename it",
			addr, p.f.cfg.Self.Node))
	}
}

// cameLater guesses whether this process is the later of two with the same name. The answer is no
// if some other voter accepts this process: voters turn the later process away. A process not
// accepted by any voter yet counts as the later process while it is young.
func (p *peerProber) cameLater() bool {
	if p.f.cfg.Clocks.Now().Slow.Sub(clock.Start) >= newcomerFor {
		return false
	}
	return !p.f.cfg.Host.Accepted()
}

// checkDuplicate checks whether the other process with this node's name is still alive.
func (p *peerProber) checkDuplicate(ctx context.Context) {
	r := p.probe(ctx, p.duplicateAddr)
	switch {
	case ctx.Err() != nil:
	case p.isDuplicate(r):
		p.misses = 0
	default:
		if p.misses++; p.misses >= duplicateMisses {
			p.f.cfg.Log.Info("the other process with this node's name is gone", "name", p.f.cfg.Self.Node, "addr", p.duplicateAddr)
			p.duplicateAddr = ""
			p.f.cfg.Host.SetDuplicateName("")
		}
	}
}
