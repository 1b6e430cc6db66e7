package discovery

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// probeEvery is how often known nodes with another configuration or with this node's name are
	// probed, and how often configured peers without a known node are probed. Package mismatch
	// relies on this interval.
	probeEvery = time.Second

	// probesAtOnce is how many probes run at the same time; probesMost is how many addresses are
	// probed in one round.
	probesAtOnce = 16
	probesMost   = 64

	// maxExcluded bounds the number of strangers' addresses kept.
	maxExcluded = 256

	// goodbyeTimeout bounds how long a leaving node tries to tell strangers of its leaving.
	goodbyeTimeout = time.Second
)

// excludedProber keeps a voter informed of nodes kept apart by gossip: nodes with another
// configuration, and other processes with this node's name. The prober only causes handshakes; the
// node receives the findings of both sides from its links. Two goroutines run the prober: one for
// nodes known to be kept apart, and one for configured peers where gossip knows no member.
type excludedProber struct {
	f *Finder

	mu       sync.Mutex
	excluded map[string]time.Time // addresses to probe, and when they became known
}

func newExcludedProber(f *Finder) *excludedProber {
	return &excludedProber{f: f, excluded: make(map[string]time.Time)}
}

// add records the address of a node that gossip doesn't admit. It never blocks.
func (p *excludedProber) add(addr string) {
	if addr == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.excluded[addr]; ok {
		return
	}
	if len(p.excluded) >= maxExcluded {
		oldest := ""
		for a, at := range p.excluded {
			if oldest == "" || cmp.Or(at.Compare(p.excluded[oldest]), cmp.Compare(a, oldest)) < 0 {
				oldest = a
			}
		}
		delete(p.excluded, oldest)
	}
	p.excluded[addr] = time.Now()
}

// remove records that the node at an address is no stranger any more.
func (p *excludedProber) remove(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.excluded, addr)
}

func (p *excludedProber) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]string, 0, len(p.excluded))
	for a := range p.excluded {
		all = append(all, a)
	}
	slices.Sort(all)
	return all
}

// run probes the nodes known to be kept apart, until ctx ends.
func (p *excludedProber) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.probeExcluded(ctx)
		p.f.sleep(ctx, probeEvery, nil)
	}
}

// runUnknown probes the configured peers where gossip knows no live member, until ctx ends. These
// probes take turns with the dials: while many nodes start, every peer is unknown to gossip.
func (p *excludedProber) runUnknown(ctx context.Context) {
	for ctx.Err() == nil {
		p.probe(ctx, p.unknownPeers(ctx), p.f.takeTurn)
		p.f.sleep(ctx, probeEvery, nil)
	}
}

// probeExcluded probes the nodes known to be kept apart. These probes take no turn: package
// mismatch has a voter count although another configuration is there if, for a few times
// probeEvery, the other configuration had no majority by what this node knows. The knowledge must
// not become old because other meshes of the process dial addresses that don't answer. Such nodes
// are few, and probesAtOnce bounds their probes.
func (p *excludedProber) probeExcluded(ctx context.Context) {
	p.probe(ctx, p.all(), func(context.Context) (func(), error) { return func() {}, nil })
}

// probe meets the nodes at the given addresses. takeTurn is called before each probe.
func (p *excludedProber) probe(ctx context.Context, addrs []string, takeTurn func(context.Context) (func(), error)) {
	slots := make(chan struct{}, probesAtOnce)
	var work sync.WaitGroup
	for _, addr := range addrs[:min(len(addrs), probesMost)] {
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
			_, _ = p.f.links.Greet(ctx, addr) // the links report the result
		})
	}
	work.Wait()
}

// unknownPeers returns the addresses of configured peers at which gossip knows no live member. A
// node there may have been kept apart by a network partition, or by gossip itself, and there is no
// other source of information about such a node.
func (p *excludedProber) unknownPeers(ctx context.Context) []string {
	met := map[string]bool{p.f.links.AdvertiseAddr(): true}
	for _, a := range p.all() {
		met[a] = true // probed by probeExcluded
	}
	for _, g := range p.f.group.Members() {
		if g.State == vote.Alive {
			met[g.Addr] = true
		}
	}
	return slices.DeleteFunc(p.f.cfg.Peers.All(ctx), func(a string) bool { return met[a] })
}

// sayGoodbye tells strangers that this node's votes no longer count, for as long as ctx and
// goodbyeTimeout allow.
func (p *excludedProber) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	p.probeExcluded(ctx)
}
