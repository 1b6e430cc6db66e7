package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// probeEvery is how often known nodes with another configuration or with this node's name are
	// probed, and how often configured peers without a known node are probed. Package mismatch
	// relies on this interval.
	probeEvery = time.Second

	// probesAtOnce is how many probes run at the same time.
	probesAtOnce = 16

	// goodbyeTimeout bounds how long a leaving node tries to tell excluded nodes of its leaving.
	goodbyeTimeout = time.Second
)

// excludedProber keeps a voter informed of nodes kept apart by gossip: nodes with another
// configuration, and other processes with this node's name. The prober only causes handshakes; the
// node receives the findings of both sides from its links. Two goroutines run the prober: one for
// nodes known to be kept apart, and one for configured peers where gossip knows no member.
type excludedProber struct {
	f *Finder

	mu    sync.Mutex
	nodes *excludedNodes
}

func newExcludedProber(f *Finder) *excludedProber {
	return &excludedProber{f: f, nodes: newExcludedNodes()}
}

// locked calls f with the excluded nodes, which no other goroutine uses meanwhile.
func (p *excludedProber) locked(f func(s *excludedNodes)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.nodes)
}

// add records the address of a node that gossip doesn't admit. It never blocks.
func (p *excludedProber) add(addr string) {
	if addr != "" {
		p.locked(func(s *excludedNodes) { s.add(addr) })
	}
}

// noteSighting records an encounter with an excluded node.
func (p *excludedProber) noteSighting(who *vote.Sighting) {
	if who.Addr != "" {
		p.locked(func(s *excludedNodes) { s.noteAnswer(who.Addr, who.Standing != vote.StandingNone) })
	}
}

// remove records that the node at an address is no excluded node any more.
func (p *excludedProber) remove(addr string) { p.locked(func(s *excludedNodes) { s.remove(addr) }) }

// run probes the excluded nodes, until ctx ends. A new round begins every probeEvery, or later if a
// round takes longer.
//
// The probes do not wait for a dial slot (takeTurn). Package mismatch lets this voter count only
// after a few rounds have shown that the other configuration has no majority, so dials of other
// meshes in this process, to addresses that do not answer, must not delay the probes. Few nodes are
// excluded, and probesAtOnce bounds their probes.
func (p *excludedProber) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := p.f.cfg.Clocks.Now().Slow
		var addrs []string
		p.locked(func(s *excludedNodes) { addrs = s.next() })
		p.probe(ctx, addrs, atOnce)
		p.f.sleep(ctx, max(0, probeEvery-p.f.cfg.Clocks.Now().Slow.Sub(began)), nil)
	}
}

// atOnce takes the place of takeTurn for a probe that does not wait for a dial slot.
func atOnce(context.Context) (func(), error) { return func() {}, nil }

// runUnknown probes the configured peers where gossip knows no live member, until ctx ends. These
// probes take turns with the dials: while many nodes start, every peer is unknown to gossip.
func (p *excludedProber) runUnknown(ctx context.Context) {
	for first := 0; ctx.Err() == nil; {
		addrs := p.unknownPeers(ctx)
		addrs, first = window(addrs, first, probesMost)
		p.probe(ctx, addrs, p.f.takeTurn)
		p.f.sleep(ctx, probeEvery, nil)
	}
}

// window returns at most so many of the addresses, from the first on, and begins again at the start
// after the last. It also returns where the next window begins.
func window(addrs []string, first, most int) (some []string, next int) {
	if len(addrs) <= most {
		return addrs, 0
	}
	first %= len(addrs)
	return slices.Concat(addrs[first:], addrs[:first])[:most], first + most
}

// probe meets the nodes at the given addresses. takeTurn is called before each probe.
func (p *excludedProber) probe(ctx context.Context, addrs []string, takeTurn func(context.Context) (func(), error)) {
	slots := make(chan struct{}, probesAtOnce)
	var work sync.WaitGroup
	for _, addr := range addrs {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			giveBack, err := takeTurn(ctx)
			if err != nil {
				return
			}
			defer giveBack()
			ctx, cancel := context.WithTimeout(ctx, probeEvery)
			defer cancel()
			who, err := p.f.links.Probe(ctx, addr) // the links report what they have met
			var refused *transport.RefusedError
			p.locked(func(s *excludedNodes) {
				switch {
				case err == nil && who.Node != "" && who.Node != p.f.cfg.Self.Node:
					s.remove(addr) // even if the node calls its address otherwise
				case errors.As(err, &refused) && (refused.Foreign || refused.Reason == vote.ReasonSecret):
					s.foreign(addr)
				default:
					s.probed(addr, err == nil || refused != nil)
				}
			})
		})
	}
	work.Wait()
}

// unknownPeers returns the addresses of configured peers at which gossip knows no live member. A
// node there may have been kept apart by a network partition, or by gossip itself, and there is no
// other source of information about such a node.
func (p *excludedProber) unknownPeers(ctx context.Context) []string {
	met := map[string]bool{p.f.links.AdvertiseAddr(): true}
	p.locked(func(s *excludedNodes) {
		for a := range s.m {
			met[a] = true // run probes it
		}
	})
	members := p.f.group.Members()
	p.f.noteOwn(members)
	for _, g := range members {
		if g.State == vote.Alive {
			met[g.Addr] = true
		}
	}
	return slices.DeleteFunc(p.f.cfg.Peers.All(ctx), func(a string) bool { return met[a] })
}

// sayGoodbye tells excluded nodes that this node's votes no longer count, for as long as ctx and
// goodbyeTimeout allow.
func (p *excludedProber) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	var addrs []string
	p.locked(func(s *excludedNodes) { addrs = s.inOrder() })
	p.probe(ctx, addrs, atOnce)
}
