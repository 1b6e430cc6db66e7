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
// node receives the findings of both sides from its links. One goroutine runs the prober.
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

// run probes until ctx ends.
func (p *excludedProber) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.probe(ctx, append(p.all(), p.unknownPeers(ctx)...))
		p.f.sleep(ctx, probeEvery, nil)
	}
}

// probe meets the nodes at the given addresses.
func (p *excludedProber) probe(ctx context.Context, addrs []string) {
	slots := make(chan struct{}, probesAtOnce)
	var work sync.WaitGroup
	for _, addr := range addrs[:min(len(addrs), probesMost)] {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
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
	alive := map[string]bool{p.f.links.AdvertiseAddr(): true}
	for _, g := range p.f.group.Members() {
		if g.State == vote.Alive {
			alive[g.Addr] = true
		}
	}
	return slices.DeleteFunc(p.f.cfg.Peers.All(ctx), func(a string) bool { return alive[a] })
}

// sayGoodbye tells strangers that this node's votes no longer count, for as long as ctx and
// goodbyeTimeout allow.
func (p *excludedProber) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	p.probe(ctx, p.all())
}
