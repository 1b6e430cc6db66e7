package member

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookAgain is the interval of comparing the configured peers with the members. The comparison
	// costs no I/O.
	lookAgain = time.Second
	// aliasRetry is the interval between tries of an address that belongs to no member, while
	// another address of the same peer belongs to a member, or while the last try succeeded. Such
	// an address is an alias of a member, or of this node, or the unused address family of the two.
	aliasRetry = 30 * time.Second
	// Peers accept a process that returned with another address only after declaring the old
	// address dead, which takes up to 11 probe intervals. So after a sign that peers remember the
	// old address, the joiner joins all peers again announceTimes times, announceProbes probe
	// intervals apart.
	announceTimes  = 8
	announceProbes = 2
	// joinGrace is how long a peer may be missing before the log mentions the peer: the nodes of a
	// mesh don't all start at the same moment.
	joinGrace = 5 * time.Second
	// changedAgain is the interval of looking up a peer that stands for many nodes, while all its
	// addresses are members.
	changedAgain = 30 * time.Second
	// lookUpsAtOnce is how many peers are looked up at the same time.
	lookUpsAtOnce = 32
	// connectsAtOnce is how many streams to peers are opened at the same time, or wait for their
	// join. The other end gives a stream up after streamMax.
	connectsAtOnce = 16
	// searchAgain is the longest interval of looking up such a peer while this node knows no other
	// live node.
	searchAgain = 2 * time.Second
)

// A joiner makes every configured peer a member, and keeps doing so as long as the joiner runs.
// memberlist forgets dead members after 30 s and never joins again, so only the joiner heals a
// partition that lasts longer.
//
// One goroutine calls run and owns all fields but the channel announce. Other goroutines look peers
// up, and end before the owner goes on.
type joiner struct {
	peers []*peer
	// connect opens a stream to an address, join exchanges members with the process there through
	// that stream, and discard closes the stream instead. connect and join are bounded in time, and
	// connect may be called by several goroutines.
	connect func(netip.AddrPort) error
	join    func(netip.AddrPort) error
	discard func(netip.AddrPort)
	present func() map[netip.AddrPort]bool
	own     netip.AddrPort // this node's address, never joined
	jitter  func() float64
	log     *slog.Logger
	timing  Timing

	announce     chan struct{} // capacity 1: join the peers again, members or not
	announces    int           // how many more times to join all peers
	announceNext time.Time
}

// peer is a configured address and its state.
type peer struct {
	Peer
	addrs  []netip.AddrPort // from the last successful look-up
	looked time.Time        // when that was

	there bool // at the last comparison all its addresses were members
	pause time.Duration
	next  time.Time // of the next try
	// reached is whether the peer was reached once. Messages about a later failure are left to the
	// users of the peer.
	reached  bool
	failing  time.Time // since when no try has succeeded; zero when the last try did
	missing  bool      // the log says that the peer is missing
	unjoined rateLimit // complaints about failed joins
}

func newPeers(of []Peer) []*peer {
	peers := make([]*peer, 0, len(of))
	for _, p := range of {
		peers = append(peers, &peer{Peer: p})
	}
	return peers
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
		present := j.present()
		var due []*peer
		for _, p := range j.peers {
			if wait := j.look(p, present); wait > 0 {
				pause = min(pause, wait)
			} else {
				due = append(due, p)
			}
		}
		j.tryAll(ctx, due, j.present)
		for _, p := range due {
			pause = min(pause, max(0, time.Until(p.next)))
		}
		timer.Reset(pause)
	}
}

// announceAll joins all peers, members or not, when due. It returns the time until the next call is
// needed.
func (j *joiner) announceAll(ctx context.Context) time.Duration {
	if j.announces == 0 {
		return lookAgain
	}
	if d := time.Until(j.announceNext); d > 0 {
		return d
	}
	j.announces--
	j.tryAll(ctx, j.peers, func() map[netip.AddrPort]bool { return nil })
	j.announceNext = time.Now().Add(announceProbes * j.timing.Probe)
	return announceProbes * j.timing.Probe
}

// look returns the time until the next look at a peer; zero if the peer is missing from the live
// members, or may be, and its next try is due.
func (j *joiner) look(p *peer, present map[netip.AddrPort]bool) time.Duration {
	again := changedAgain
	if p.Changes && j.alone(present) {
		again = j.searchAgain()
		if p.pause > again { // as of a time when this node knew another
			p.pause, p.next = again, time.Now().Add(j.spread(again))
		}
	}
	there := len(p.addrs) > 0 && countPresent(p.addrs, present) == len(p.addrs)
	if there && (!p.Changes || time.Since(p.looked) < again) {
		p.there, p.pause = true, 0
		return lookAgain
	}
	if p.there && !there { // the peer has just disappeared
		p.there = false
		p.next = time.Now().Add(j.spread(j.timing.RetryMin))
	}
	return max(0, time.Until(p.next))
}

// try is one try of a peer: a look-up, and a join of each address that isn't a member.
type try struct {
	peer  *peer
	addrs []netip.AddrPort
	err   error // of the look-up

	joined bool // an address was joined, or a join of another address made it a member
	errs   []error
}

// step is a result of a try: a stream to addr is open, or can't be opened, or, without an address,
// the try is over.
type step struct {
	of   *try
	addr netip.AddrPort
	err  error
}

// tryAll looks peers up and opens streams to their missing addresses, several at the same time, and
// joins each address as soon as its stream is open: so a few silent addresses delay no other.
// present returns the addresses to leave out, as of now. The goroutines end with the call.
func (j *joiner) tryAll(ctx context.Context, peers []*peer, present func() map[netip.AddrPort]bool) {
	next := make(chan *peer, len(peers))
	for _, p := range peers {
		next <- p
	}
	close(next)
	steps := make(chan step)
	turns := make(chan struct{}, connectsAtOnce)
	var work sync.WaitGroup
	for range min(len(peers), lookUpsAtOnce) {
		work.Go(func() {
			for p := range next {
				j.begin(ctx, p, present, turns, steps)
			}
		})
	}
	go func() {
		work.Wait()
		close(steps)
	}()
	known := present()
	for s := range steps {
		if s.addr.IsValid() {
			<-turns
		}
		switch {
		case !s.addr.IsValid():
			j.end(ctx, s.of, known)
		case s.err != nil:
			s.of.errs = append(s.of.errs, s.err)
		case ctx.Err() != nil:
			j.discard(s.addr)
		case known[s.addr]: // since the stream was asked for
			s.of.joined = true
			j.discard(s.addr)
		default:
			if err := j.join(s.addr); err != nil {
				s.of.errs = append(s.of.errs, err)
				continue
			}
			s.of.joined = true
			known = present()
		}
	}
}

// begin looks a peer up, and opens a stream to each address that isn't present.
func (j *joiner) begin(ctx context.Context, p *peer, present func() map[netip.AddrPort]bool, turns chan struct{}, steps chan<- step) {
	t := &try{peer: p}
	t.addrs, t.err = p.LookUp(ctx)
	var work sync.WaitGroup
	for _, a := range t.addrs {
		turns <- struct{}{}
		if a == j.own || ctx.Err() != nil || present()[a] {
			<-turns
			continue
		}
		work.Go(func() {
			steps <- step{t, a, j.connect(a)}
		})
	}
	work.Wait()
	steps <- step{of: t}
}

// end notes what a try has found, and sets the time of the next. A peer was reached if one of its
// addresses was joined or is present. This node's own address counts only for a peer that stands
// for one node: a name for many nodes always has the address.
func (j *joiner) end(ctx context.Context, t *try, present map[netip.AddrPort]bool) {
	if ctx.Err() != nil {
		return
	}
	p, limit := t.peer, j.timing.RetryMax
	if t.err == nil {
		p.addrs, p.looked = t.addrs, time.Now()
		reached := t.joined || slices.ContainsFunc(p.addrs, func(a netip.AddrPort) bool {
			return a == j.own && !p.Changes || a != j.own && present[a]
		})
		if reached {
			limit = max(limit, aliasRetry)
		}
		j.note(p, reached, t.errs)
	}
	if p.Changes && j.alone(j.present()) {
		limit = j.searchAgain()
	}
	p.pause = min(max(2*p.pause, j.timing.RetryMin), limit)
	p.next = time.Now().Add(j.spread(p.pause))
}

// alone reports whether no other live member is known.
func (j *joiner) alone(present map[netip.AddrPort]bool) bool {
	return len(present) == 0 || len(present) == 1 && present[j.own]
}

// searchAgain is the constant, or RetryMin if the application wants longer pauses.
func (j *joiner) searchAgain() time.Duration { return max(searchAgain, j.timing.RetryMin) }

// note logs that a peer is missing, and that a missing peer is reached.
func (j *joiner) note(p *peer, reached bool, errs []error) {
	switch {
	case reached:
		if p.missing {
			j.log.Info("a peer is reachable now", "peer", p.Text)
		}
		p.reached, p.missing, p.failing, p.unjoined = true, false, time.Time{}, rateLimit{}
	case len(errs) > 0:
		now := time.Now()
		if p.failing.IsZero() {
			p.failing = now
		}
		if !p.reached && now.Sub(p.failing) >= joinGrace && p.unjoined.due(now) {
			p.missing = true
			j.log.Info("a peer can't be joined yet; will keep trying", "peer", p.Text, "error", oneLine(errors.Join(errs...)))
		}
	}
}

// spread shortens a pause by up to a half, so that nodes don't all retry at the same moment after
// losing a peer together.
func (j *joiner) spread(d time.Duration) time.Duration {
	return d - time.Duration(j.jitter()*float64(d)/2)
}

// oneLine returns an error's text on a single line, without memberlist's list formatting.
func oneLine(err error) string {
	text := strings.NewReplacer("1 error occurred:", "", "\n\t* ", "; ", "\n", " ").Replace(err.Error())
	return strings.Trim(strings.Join(strings.Fields(text), " "), "; ")
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
