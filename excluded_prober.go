package lockmesh

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/member"
)

const (
	// probeEvery is how often known nodes with another configuration or with this node's name are
	// probed, and how often configured peers without a known node are probed. Package mismatch
	// relies on this interval.
	probeEvery = time.Second

	// resolveEvery is how often the names of configured peers are looked up.
	resolveEvery = 5 * time.Second

	// probesAtOnce is how many probes run at the same time; probesMost is how many addresses are
	// probed in one round.
	probesAtOnce = 16
	probesMost   = 64

	// maxExcluded bounds the number of strangers' addresses kept.
	maxExcluded = 256

	// goodbyeTimeout bounds how long a leaving node tries to tell strangers of its leaving.
	goodbyeTimeout = time.Second
)

// excludedProber keeps a voter informed of nodes kept apart by gossip: nodes with another configuration,
// and other processes with this node's name. The prober only has the nodes met; [Mesh.met] passes
// the findings of both sides to the loop. One goroutine runs the prober.
type excludedProber struct {
	m *Mesh

	mu       sync.Mutex
	excluded map[string]time.Time // addresses to probe, and when they became known

	resolved time.Time // when names were last looked up
	peers    []string  // the addresses of the configured peers
}

func newExcludedProber(m *Mesh) *excludedProber {
	return &excludedProber{m: m, excluded: make(map[string]time.Time)}
}

// addExcluded records the address of a node that gossip doesn't admit. It never blocks.
func (p *excludedProber) addExcluded(addr string) {
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

// removeExcluded records that the node at an address is no stranger any more.
func (p *excludedProber) removeExcluded(addr string) {
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
		p.m.sleep(ctx, probeEvery, nil)
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
			_, _ = p.m.links.Greet(ctx, addr) // Mesh.met receives the result
		})
	}
	work.Wait()
}

// unknownPeers returns the addresses of configured peers at which gossip knows no live member. A
// node there may have been kept apart by a network partition, or by gossip itself, and there is no
// other source of information about such a node.
func (p *excludedProber) unknownPeers(ctx context.Context) []string {
	alive := map[string]bool{p.m.links.AdvertiseAddr(): true}
	for _, g := range p.m.group.Members() {
		if g.State == member.Alive {
			alive[g.Addr] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(p.addresses(ctx)), func(a string) bool { return alive[a] })
}

// addresses returns the addresses of the configured peers, looking up their names from time to
// time. Errors of the lookup are reported by the greeter.
func (p *excludedProber) addresses(ctx context.Context) []string {
	if !p.resolved.IsZero() && time.Since(p.resolved) < resolveEvery {
		return p.peers
	}
	p.resolved = time.Now()
	var all []string
	for _, peer := range p.m.peers() {
		host, port, err := net.SplitHostPort(peer)
		if err != nil {
			continue // refused by Validate
		}
		if _, err := netip.ParseAddr(host); err == nil {
			all = append(all, peer)
			continue
		}
		lookUp, cancel := context.WithTimeout(ctx, probeTimeout)
		ips, _ := net.DefaultResolver.LookupNetIP(lookUp, "ip", host)
		cancel()
		for _, ip := range ips[:min(len(ips), addrsPerPeer)] {
			all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	slices.Sort(all)
	p.peers = slices.Compact(all)
	return p.peers
}

// sendGoodbyes tells strangers that this node's votes no longer count, for as long as ctx and
// goodbyeTimeout allow.
func (p *excludedProber) sendGoodbyes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	p.probe(ctx, p.all())
}
