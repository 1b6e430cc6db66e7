package member

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"
)

const (
	// lookAgain is how often the configured peers are compared with the members. It costs no I/O.
	lookAgain = time.Second
	// aliasRetry is how often an address is tried that isn't a member's while another address of the same peer is one, or while
	// the last try succeeded. Such an address is an alias of a member, or of this node, or the unused one of two protocols.
	aliasRetry = 30 * time.Second
	// Peers take a process in that came back with another address only when they have given the old one up, which takes up to 11
	// probe intervals. So after a sign that they remember it we join them again announceTimes, announceProbes intervals apart.
	announceTimes  = 8
	announceProbes = 2
	// resolveMax bounds one look-up of a name.
	resolveMax = 5 * time.Second
	// addrsMax is how many addresses of one name are tried: more than that is a misconfigured name.
	addrsMax = 16
)

// errNoAddress is the answer of a resolver that finds a name without addresses.
var errNoAddress = errors.New("the name has no address")

// A joiner makes sure that every configured peer is a member, for as long as it runs. memberlist forgets dead members after 30 s
// and never joins again, so a partition that lasts longer heals only by this.
//
// One goroutine runs it and owns all but the channel announce.
type joiner struct {
	peers   []*peer
	resolve func(context.Context, string) ([]netip.Addr, error)
	join    func(netip.AddrPort) error // exchanges members with whoever is at the address; bounded in time
	present func() map[netip.AddrPort]bool
	own     netip.AddrPort // this node's address, which needs no joining
	jitter  func() float64
	log     *slog.Logger
	timing  Timing

	announce     chan struct{} // capacity 1: peers should be told of us again, members or not
	announces    int           // how many more times to do so
	announceNext time.Time
}

// peer is one configured address and what came of it.
type peer struct {
	text  string // as configured
	host  string
	port  uint16
	addrs []netip.AddrPort // from the last look-up that succeeded

	there    bool // at the last look all its addresses were members
	pause    time.Duration
	next     time.Time // of the next try
	missing  bool      // the last try failed
	unknown  pace      // complaints that its name can't be resolved
	unjoined pace      // complaints that it can't be joined
}

func newPeers(texts []string) ([]*peer, error) {
	peers := make([]*peer, 0, len(texts))
	for _, text := range texts {
		host, port, err := splitPeer(text)
		if err != nil {
			return nil, err
		}
		peers = append(peers, &peer{text: text, host: host, port: port})
	}
	return peers, nil
}

// run works until ctx ends.
func (j *joiner) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.announce:
			j.announces, j.announceNext = announceTimes, time.Now().Add(announceProbes*j.timing.Probe)
		case <-timer.C:
		}
		pause := j.announceAll(ctx)
		for _, p := range j.peers {
			pause = min(pause, j.look(ctx, p))
		}
		timer.Reset(pause)
	}
}

// announceAll joins all peers, members or not, when that is due. It returns how long it isn't.
func (j *joiner) announceAll(ctx context.Context) time.Duration {
	if j.announces == 0 {
		return lookAgain
	}
	if d := time.Until(j.announceNext); d > 0 {
		return d
	}
	j.announces--
	for _, p := range j.peers {
		j.try(ctx, p, nil)
	}
	j.announceNext = time.Now().Add(announceProbes * j.timing.Probe)
	return announceProbes * j.timing.Probe
}

// look tries a peer if it is missing and its time has come. It returns how long nothing needs to be done about it.
func (j *joiner) look(ctx context.Context, p *peer) time.Duration {
	present := j.present()
	there := len(p.addrs) > 0 && countPresent(p.addrs, present) == len(p.addrs)
	if there {
		p.there, p.pause = true, 0
		return lookAgain
	}
	if p.there { // it has just gone
		p.there = false
		p.next = time.Now().Add(j.spread(j.timing.RetryMin))
	}
	if d := time.Until(p.next); d > 0 {
		return d
	}
	j.try(ctx, p, present)
	return max(0, time.Until(p.next))
}

// try looks the peer up, joins each of its addresses that isn't present, and sets the time of the next try.
func (j *joiner) try(ctx context.Context, p *peer, present map[netip.AddrPort]bool) {
	if ctx.Err() != nil {
		return
	}
	limit := j.timing.RetryMax
	addrs, err := j.lookUp(ctx, p)
	if err != nil {
		p.missing = true
		if ctx.Err() == nil && p.unknown.due(time.Now()) {
			j.log.Warn("a peer's name can't be resolved; will keep trying", "peer", p.text, "error", err)
		}
	} else {
		p.addrs = addrs
		if j.joinAll(ctx, p, present) {
			limit = max(limit, aliasRetry)
		}
	}
	p.pause = min(max(2*p.pause, j.timing.RetryMin), limit)
	p.next = time.Now().Add(j.spread(p.pause))
}

// joinAll joins the addresses of p that aren't present. It reports whether p was reached at one address at least.
func (j *joiner) joinAll(ctx context.Context, p *peer, present map[netip.AddrPort]bool) bool {
	reached := false
	var errs []error
	for _, a := range p.addrs {
		if present[a] || a == j.own {
			reached = true
			continue
		}
		if ctx.Err() != nil {
			return reached
		}
		if err := j.join(a); err != nil {
			errs = append(errs, err)
		} else {
			reached = true
		}
	}
	switch {
	case reached:
		if p.missing {
			j.log.Info("a peer is reachable now", "peer", p.text)
		}
		p.missing, p.unknown, p.unjoined = false, pace{}, pace{}
	case ctx.Err() == nil:
		p.missing = true
		if p.unjoined.due(time.Now()) {
			j.log.Info("a peer can't be joined yet; will keep trying", "peer", p.text, "error", errors.Join(errs...))
		}
	}
	return reached
}

// lookUp returns the addresses of a peer.
func (j *joiner) lookUp(ctx context.Context, p *peer) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(p.host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), p.port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveMax)
	defer cancel()
	ips, err := j.resolve(ctx, p.host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, errNoAddress
	}
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips[:min(len(ips), addrsMax)] {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), p.port))
	}
	return addrs, nil
}

// spread shortens a pause by up to a half, so that nodes that lost a peer together don't come back together.
func (j *joiner) spread(d time.Duration) time.Duration {
	return d - time.Duration(j.jitter()*float64(d)/2)
}

func countPresent(addrs []netip.AddrPort, present map[netip.AddrPort]bool) int {
	n := 0
	for _, a := range addrs {
		if present[a] {
			n++
		}
	}
	return n
}
