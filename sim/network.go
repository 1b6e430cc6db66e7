package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
	"github.com/lockmesh/lockmesh/transport"
)

// Net says how long messages travel. Each ordered pair of hosts draws a base delay between Least
// and Most. A message takes the base delay and up to Jitter percent of it more, and, Spikes times
// out of a thousand, up to ten times as long.
type Net struct {
	Least, Most time.Duration // default 200 µs and 1 ms
	Jitter      int           // percent of the base; default 50, and -1 for none
	Spikes      int           // of a thousand messages

	// Delay, if set, replaces the draws above: it returns how long a message travels from one host
	// to another, by their places (voters first). draw is a random number; for equal arguments,
	// Delay must return equal results. Most then only bounds what the checks allow, such as how
	// long [World.Settle] waits.
	Delay func(from, to int, draw uint64) time.Duration
}

// Times of connection management, which production has, too.
const (
	dialTimeout  = 3 * time.Second // after which a dial without an answer has failed
	synAgain     = time.Second     // after which TCP repeats an unanswered dial
	redialAtOnce = time.Millisecond
	redialLeast  = 50 * time.Millisecond  // the first pause before a redial; later pauses double
	redialMost   = time.Second            // the longest pause
	steadyAfter  = time.Second            // a shorter connection counts as a failed dial
	resendMost   = 200 * time.Millisecond // held-up frames are resent this soon after a cut heals
	noticeMost   = 100 * time.Millisecond // gossip reports a returning node this soon, or never
)

// brisk returns how long a time of connection management lasts in this world.
func (nw *network) brisk(d time.Duration) time.Duration {
	if f := nw.w.opt.Dynamic; f == nil || !f.Brisk {
		return d
	}
	return max(time.Duration(int64(d)*int64(nw.w.opt.MaxTTL)/int64(usualTTL)), time.Millisecond)
}

// usualTTL is the maximum TTL for which the times of connection management are meant: the library's
// default.
const usualTTL = 10 * time.Second

// network is the part of the world between the hosts.
type network struct {
	w        *World
	bases    [][]time.Duration // base delays, by sender and receiver
	slow     [][]time.Duration // delays added by faults
	rng      [][]rand.PCG      // random sources of the packets on each way
	cut      [][]int           // how many faults cut the way; messages on a cut way wait
	links    []*link           // links that either side still believes open, oldest first
	lastN    uint64
	route    []int // by place in World.voters: the host that answers to the name
	spare    [][]byte
	received vote.Message
	forge    map[*host]func(*vote.Message) // alters a broken host's messages on their way out
}

// link is a connection, from the dial on. Side 0 is the dialing host, side 1 the dialed host.
type link struct {
	n      uint64
	voter  int
	since  Moment // when it came up
	state  linkState
	opened bool // a stream was opened on the link
	ends   [2]end
	lanes  [2][2]lane // by sending side, then ordered and urgent
	stall  [2]int     // how many faults hold up the side's messages
	queued [2]queued  // by sending side
	// full overflows the send queue of a side if the queue is full, and reports whether it did; nil
	// as a rule.
	full     [2]func() bool
	delivery delivery
}

type linkState uint8

const (
	linkDialing linkState = iota
	linkUp
	linkFailed
)

// delivery is what the network does with the messages of a link.
type delivery uint8

const (
	delivers delivery = iota
	// Nothing sent from now on arrives. A machine that has forgotten the connection answers
	// messages with a reset.
	breaks
	blackholes // nothing arrives, and no machine answers with a reset
)

// end is a side's view of a link.
type end struct {
	host *host
	p    *process // nil on a dialed side without an answer so far
	conn vote.Conn
	open bool // the process believes that the link is up
}

// connection finds a link's end; its index in process.conns is the process's own number for the
// link.
type connection struct {
	l    *link
	side uint8
}

// dial is the state of a process's connection to a voter.
type dial struct {
	l      *link // being dialed or up; nil if there is neither
	fails  int
	wanted bool // with dynamic membership: unwanted voters aren't dialed
}

// lane carries messages of a side in order. The urgent lane may overtake the ordered lane, never
// the other way round.
type lane struct {
	frames [][]byte // a nil frame: the sender has closed the connection
	first  int
	last   Moment // when the newest frame arrives
	hung   int    // how many frames have reached a cut or a stall and wait for its end
}

const ordered, urgent = 0, 1

func (a *lane) push(f []byte) { a.frames = append(a.frames, f) }

func (a *lane) pop() ([]byte, bool) {
	if a.first == len(a.frames) {
		return nil, false
	}
	f := a.frames[a.first]
	a.frames[a.first] = nil
	a.first++
	if a.first == len(a.frames) {
		a.frames, a.first = a.frames[:0], 0
	}
	return f, true
}

// keep drops all but the first n frames.
func (a *lane) keep(n int) { a.frames = a.frames[:a.first+n] }

func (a *lane) len() int { return len(a.frames) - a.first }

func (nw *network) setUpNetwork() {
	n := nw.w.opt.Net
	if n.Least == 0 {
		n.Least = 200 * time.Microsecond
	}
	if n.Most == 0 {
		n.Most = max(time.Millisecond, n.Least)
	}
	switch {
	case n.Jitter == 0:
		n.Jitter = 50
	case n.Jitter < 0:
		n.Jitter = 0
	}
	nw.w.opt.Net = n
	for _, from := range nw.w.hosts {
		bases, rng := make([]time.Duration, len(nw.w.hosts)), make([]rand.PCG, len(nw.w.hosts))
		for j, to := range nw.w.hosts {
			rng[j] = *nw.w.chance("way", from.alias, to.alias)
			bases[j] = n.Least + fault.Within(rand.New(&rng[j]), n.Most-n.Least+1)
		}
		nw.bases = append(nw.bases, bases)
		nw.rng = append(nw.rng, rng)
		nw.slow = append(nw.slow, make([]time.Duration, len(nw.w.hosts)))
		nw.cut = append(nw.cut, make([]int, len(nw.w.hosts)))
	}
	for i := range nw.w.voters {
		nw.route = append(nw.route, i)
	}
}

// latency draws how long a packet travels.
func (nw *network) latency(from, to *host) time.Duration {
	base := nw.bases[from.i][to.i] + nw.slow[from.i][to.i]
	r := nw.rng[from.i][to.i].Uint64()
	if f := nw.w.opt.Net.Delay; f != nil {
		return f(from.i, to.i, r) + nw.slow[from.i][to.i]
	}
	d := base + base*time.Duration(r>>40%uint64(nw.w.opt.Net.Jitter+1))/100
	if int(r%1000) < nw.w.opt.Net.Spikes {
		d += base * time.Duration(r>>20%10)
	}
	return d
}

// isOpen reports whether packets pass from one host to another.
func (nw *network) isOpen(from, to *host) bool { return nw.cut[from.i][to.i] == 0 }

// voterPlace returns a voter's place in World.voters, or -1.
func (nw *network) voterPlace(name vote.NodeID) int { return slices.Index(nw.w.voters, name) }

// dial starts a connection to a voter, unless there is a connection already, or none is wanted.
func (nw *network) dial(p *process, voter int) {
	d := &p.dials[voter]
	if d.l != nil || nw.w.voters[voter] == p.host.name || !nw.w.listed(p, voter) || nw.w.opt.Dynamic != nil && !d.wanted {
		return
	}
	nw.lastN++
	l := &link{n: nw.lastN, voter: voter}
	l.ends[0] = end{host: p.host, p: p}
	l.ends[1] = end{host: nw.w.hosts[nw.route[voter]]}
	d.l = l
	if m := nw.w.faults.misdialed[[2]*host{p.host, l.ends[1].host}]; m != nil && !m.refused {
		m.did(true)
		nw.w.push(event{at: nw.w.now.Add(2 * nw.latency(p.host, l.ends[1].host)), kind: eventDialFail, p: p, l: l, n: dialMisled})
		return
	}
	nw.w.push(event{at: nw.w.now.Add(nw.latency(p.host, l.ends[1].host)), kind: eventSyn, l: l})
	nw.w.push(event{at: nw.w.now.Add(nw.brisk(dialTimeout)), kind: eventDialTimeout, p: p, l: l})
}

// accept handles a dial that reaches the voter's machine. The handshake tells each process which
// session the other has.
func (nw *network) accept(e event) {
	l := e.l
	from, to := l.ends[0].host, l.ends[1].host
	if l.state != linkDialing || l.ends[1].p != nil {
		return
	}
	if !nw.isOpen(from, to) && e.n == 0 {
		e.at = nw.w.now.Add(nw.brisk(synAgain))
		nw.w.push(e)
		return
	}
	back := nw.w.now.Add(nw.latency(to, from))
	switch p := to.p; {
	case p == nil:
		if nw.isOpen(to, from) {
			nw.w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l})
		}
	case nw.w.faults.misdialed[[2]*host{from, to}] != nil && nw.w.faults.misdialed[[2]*host{from, to}].refused:
		nw.w.faults.misdialed[[2]*host{from, to}].did(true)
		if nw.isOpen(to, from) {
			nw.w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l, n: dialRefused})
		}
	case to.hung != pauseNone:
		e.n = 1 // the dial waits in the machine for the process
		p.backlog = append(p.backlog, e)
	case (nw.w.conversion.converts() || nw.w.misconfigured.mayExist()) && !nw.w.conversion.greets(l.ends[0].p, p):
		if nw.isOpen(to, from) {
			nw.w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l, n: dialRefused})
		}
	case nw.w.lists != nil && nw.isOpen(to, from) && !nw.w.meet(l.ends[0].p, p):
		nw.w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l, n: dialRefused})
	default:
		nw.join(l, 1, p)
		nw.links = append(nw.links, l)
		nw.w.conversion.tellsKind(l, 1)
		if nw.isOpen(to, from) {
			nw.w.push(event{at: back, kind: eventUp, p: l.ends[0].p, l: l})
		} else {
			nw.learnWithin(l, 1, 2*nw.w.opt.MaxTTL, to.rng)
		}
	}
}

// join gives a process its end of a link.
func (nw *network) join(l *link, side uint8, p *process) {
	l.ends[side] = end{host: p.host, p: p, conn: vote.Conn(len(p.conns)), open: true}
	p.conns = append(p.conns, connection{l, side})
}

// up completes a dial with success.
func (nw *network) up(p *process, l *link) {
	far := &l.ends[1]
	if l.state != linkDialing {
		return
	}
	if !far.open || far.p.dead {
		nw.dialFailed(p, l, "connection reset")
		return
	}
	l.state = linkUp
	l.since = nw.w.now
	nw.join(l, 0, p)
	nw.w.fig.Connections++
	nw.w.note(p.host, "is connected to %v", far.p.id)
	nw.w.conversion.tellsKind(l, 0)
	if !l.ends[0].open {
		return // the process takes no fixed node any more
	}
	p.m.Link(p.read(nw.w.now), l.ends[0].conn, far.p.id)
	nw.w.settle(p)
}

// How a dial may fail, for eventDialFail.
const (
	dialReset = iota
	dialMisled
	dialRefused
)

var dialTexts = [...]string{"connection refused", "another node answers at its address", "the maximum TTL is 1 s there and 2 s here"}

// dialFailed ends a dial without success and schedules the next.
func (nw *network) dialFailed(p *process, l *link, why string) {
	if l.state != linkDialing {
		return
	}
	l.state = linkFailed
	if l.ends[1].open {
		nw.learnWithin(l, 1, 2*nw.w.opt.MaxTTL, l.ends[1].host.rng)
	}
	d := &p.dials[l.voter]
	d.l = nil
	d.fails++
	nw.redial(p, l.voter)
	if why == dialTexts[dialRefused] {
		p.m.Refused(p.read(nw.w.now), nw.w.voters[l.voter], vote.ReasonTerms, why)
	} else {
		p.m.DialFailed(p.read(nw.w.now), nw.w.voters[l.voter], why)
	}
	nw.w.settle(p)
}

// redial schedules the next dial: at once after a steady connection has ended, and the later the
// more dials have failed.
func (nw *network) redial(p *process, voter int) {
	pause := fault.Within(p.host.rng, redialAtOnce)
	if fails := p.dials[voter].fails; fails > 0 {
		most := nw.brisk(min(redialLeast<<min(fails-1, 10), redialMost))
		pause = most/2 + fault.Within(p.host.rng, most/2)
	}
	nw.w.push(event{at: nw.w.now.Add(pause), kind: eventDial, p: p, n: uint64(voter)})
}

// announce lets gossip report a node's return to the other hosts, so that they dial the node at
// once. Gossip may fail to notice.
func (nw *network) announce(h *host) {
	voter := nw.voterPlace(h.name)
	if voter < 0 {
		return
	}
	for _, o := range nw.w.hosts {
		if o.p != nil && o != h && nw.w.faults.misdialed[[2]*host{o, h}] == nil && o.rng.IntN(2) == 0 && nw.isOpen(h, o) {
			nw.w.push(event{at: nw.w.now.Add(fault.Within(o.rng, noticeMost)), kind: eventDial, p: o.p, n: uint64(voter)})
		}
	}
}

// send sends a message. Every message passes through the codec, as on a wire.
func (nw *network) send(p *process, o *vote.Outbound) {
	nw.w.promises.sent(p, &o.Message)
	if o.Conn == vote.LocalConn || int(o.Conn) >= len(p.conns) || p.conns[o.Conn].l == nil {
		return // the connection is gone
	}
	c := p.conns[o.Conn]
	l := c.l
	var buf []byte
	if n := len(nw.spare); n > 0 {
		buf = nw.spare[n-1][:0]
		nw.spare = nw.spare[:n-1]
	}
	if forge := nw.forge[p.host]; forge != nil {
		forge(&o.Message)
	}
	f, err := transport.Append(buf, &o.Message)
	if err != nil {
		nw.w.judge.violate(checkCodec, "%s can't send %+v: %v", p.host.name, o.Message, err)
		return
	}
	nw.w.fig.Messages++
	if o.Message.Kind == vote.KindOpen {
		if l.opened {
			nw.w.marks.mark(markMismatch)
		}
		l.opened = true
	}
	nw.w.observeSent(l, c.side, &o.Message)
	if l.delivery != delivers {
		nw.spare = append(nw.spare, f)
		nw.reset(l, c.side)
		return
	}
	which := ordered
	if o.Message.Kind.Urgent() {
		which = urgent
	} else if full := l.full[c.side]; full != nil && full() {
		nw.spare = append(nw.spare, f)
		return
	}
	nw.w.faults.springs(p.host, o.Message.Kind, true)
	if o.Later && which == ordered && nw.w.opt.Coalesce > 0 {
		nw.coalesce(p, l, c.side, f)
		return
	}
	nw.carry(l, c.side)
	nw.dispatch(l, c.side, uint8(which), f)
}

// dispatch puts a frame into a lane and schedules its arrival.
func (nw *network) dispatch(l *link, side, which uint8, f []byte) {
	lanes := &l.lanes[side]
	a := &lanes[which]
	at := max(nw.w.now.Add(nw.latency(l.ends[side].host, l.ends[1-side].host)), a.last)
	if which == ordered {
		at = max(at, lanes[urgent].last)
	}
	a.last = at
	a.push(f)
	nw.w.pic.Dispatched(nw.w.Now(), f)
	nw.w.push(event{at: at, kind: eventArrive, p: l.ends[1-side].p, l: l, side: side, lane: which})
}

// reset tells the sender on a broken link about the break, if the other machine answers and has
// forgotten the connection.
func (nw *network) reset(l *link, side uint8) {
	a, b := l.ends[side].host, l.ends[1-side].host
	if l.delivery == breaks && !l.ends[1-side].open && nw.isOpen(a, b) && nw.isOpen(b, a) {
		nw.w.push(event{at: nw.w.now.Add(nw.latency(a, b) + nw.latency(b, a)), kind: eventLearn, p: l.ends[side].p, l: l, side: side})
	}
}

// hang reports whether an arriving frame is held up by a cut or a stall. The frame is sent again
// when the way is free.
func (nw *network) hang(l *link, side, which uint8) bool {
	if l.stall[side] == 0 && nw.cut[l.ends[side].host.i][l.ends[1-side].host.i] == 0 {
		return false
	}
	l.lanes[side][which].hung++
	return true
}

// unhang sends all held-up frames of a link again.
func (nw *network) unhang(l *link, side uint8) {
	from, to := l.ends[side].host, l.ends[1-side].host
	if l.stall[side] > 0 || nw.cut[from.i][to.i] > 0 {
		return
	}
	// Senders retry at growing intervals.
	at := nw.w.now.Add(nw.latency(from, to) + fault.Within(from.rng, nw.brisk(resendMost)))
	for _, which := range []uint8{urgent, ordered} {
		a := &l.lanes[side][which]
		for ; a.hung > 0; a.hung-- {
			nw.w.push(event{at: at, kind: eventArrive, p: l.ends[1-side].p, l: l, side: side, lane: which})
		}
		a.last = max(a.last, at)
	}
}

// receive delivers the front of a lane to the receiving process.
func (nw *network) receive(l *link, side, which uint8) {
	f, ok := l.lanes[side][which].pop()
	to := &l.ends[1-side]
	switch {
	case !ok || !to.open:
		if f != nil {
			nw.spare = append(nw.spare, f)
		}
		if ok && f != nil && !to.open && l.ends[side].open {
			nw.reset(l, side)
			if l.delivery == delivers && l.state == linkUp {
				l.delivery = breaks
			}
		}
		return
	case f == nil:
		nw.learn(l, 1-side)
		return
	}
	m := &nw.received
	if err := transport.Decode(f, m); err != nil {
		nw.w.judge.violate(checkCodec, "%s can't read what %s sent: %v", to.host.name, l.ends[side].host.name, err)
		return
	}
	for i := 0; i+8 <= len(f); i += 8 {
		nw.w.mix(uint64(f[i]) | uint64(f[i+1])<<8 | uint64(f[i+2])<<16 | uint64(f[i+3])<<24 |
			uint64(f[i+4])<<32 | uint64(f[i+5])<<40 | uint64(f[i+6])<<48 | uint64(f[i+7])<<56)
	}
	nw.w.mix(uint64(len(f))<<8 | uint64(f[len(f)-1]))
	if nw.w.pic != nil {
		nw.w.pic.Arrived(nw.w.Now(), l.ends[side].host.i, to.host.i, f, m.Kind, func() string { return string(appendMessage(nil, m)) })
	}
	nw.spare = append(nw.spare, f)
	nw.deliver(to.p, to.conn, l.ends[side].p, m)
}

// deliver gives a message to a process.
func (nw *network) deliver(p *process, conn vote.Conn, from *process, m *vote.Message) {
	nw.w.fig.Delivered++
	if nw.w.trace != nil {
		nw.w.trace.message(nw.w.now, from.host, p.host, m)
	}
	if nw.w.faults.springs(p.host, m.Kind, false) {
		return
	}
	nw.w.promises.deliveredTo(p, from.id, m)
	p.m.Deliver(p.read(nw.w.now), conn, from.id, m)
	nw.w.settle(p)
}

// learn tells a process that a link is gone.
func (nw *network) learn(l *link, side uint8) {
	e := &l.ends[side]
	if !e.open {
		return
	}
	if l.delivery == delivers {
		l.delivery = breaks
	}
	p := nw.forget(l, side)
	nw.w.order.disturb()
	if side == 0 {
		p.marksOfUnlink()
	}
	nw.w.note(p.host, "loses the connection to %s", l.ends[1-side].host.name)
	p.m.Unlink(p.read(nw.w.now), e.conn)
	nw.w.settle(p)
}

// forget closes an end of a link.
func (nw *network) forget(l *link, side uint8) *process {
	e := &l.ends[side]
	p := e.p
	e.open = false
	nw.dropQueued(l, side)
	p.conns[e.conn] = connection{}
	if side == 0 && !p.dead {
		d := &p.dials[l.voter]
		d.l = nil
		if d.fails++; nw.w.now >= l.since.Add(nw.brisk(steadyAfter)) {
			d.fails = 0
		}
		nw.redial(p, l.voter)
	}
	if !l.ends[1-side].open {
		nw.links = slices.DeleteFunc(nw.links, func(m *link) bool { return m == l })
	}
	return p
}

// close ends a connection at its process's request. Messages already sent go on, and then the other
// side learns about the end.
func (nw *network) close(p *process, conn vote.Conn) {
	if conn == vote.LocalConn || int(conn) >= len(p.conns) || p.conns[conn].l == nil {
		return
	}
	c := p.conns[conn]
	nw.w.fig.Closes++
	nw.w.marks.mark(markClosed)
	nw.w.order.disturb()
	nw.w.note(p.host, "closes the connection to %s", c.l.ends[1-c.side].host.name)
	nw.carry(c.l, c.side)
	if c.l.delivery == delivers {
		nw.dispatch(c.l, c.side, ordered, nil)
	}
	nw.forget(c.l, c.side)
	if c.side == 0 {
		p.marksOfUnlink()
	}
	p.m.Unlink(p.read(nw.w.now), conn)
}

func (nw *network) learnWithin(l *link, side uint8, d time.Duration, r *rand.Rand) {
	nw.w.push(event{at: nw.w.now.Add(fault.Within(r, d)), kind: eventLearn, p: l.ends[side].p, l: l, side: side})
}

// breakLink breaks a connection somewhere on its way. A part of the messages under way still
// arrives; each side learns about the break at a time of its own.
func (nw *network) breakLink(l *link, r *rand.Rand) {
	l.delivery = breaks
	nw.w.pic.Broke(nw.w.Now(), l.hosts())
	nw.w.fig.Breaks++
	nw.w.order.disturb()
	for side := range uint8(2) {
		for i := range l.lanes[side] {
			if a := &l.lanes[side][i]; a.len() > 0 {
				a.keep(r.IntN(a.len() + 1))
			}
		}
		if l.ends[side].open {
			switch r.IntN(4) {
			case 0, 1:
				nw.learnWithin(l, side, 50*time.Millisecond, r)
			case 2:
				nw.learnWithin(l, side, 3*nw.w.opt.MaxTTL, r)
			default: // when the side sends something, or notices by itself
			}
		}
	}
}

// setCut adds to (or takes from) the number of cuts of the way between two hosts.
func (nw *network) setCut(from, to *host, by int) {
	nw.w.order.disturb()
	nw.cut[from.i][to.i] += by
	nw.w.pic.Cutting(nw.w.Now(), from.i, to.i, nw.cut[from.i][to.i])
	if nw.cut[from.i][to.i] > 0 {
		return
	}
	for _, l := range nw.links {
		for side := range uint8(2) {
			if l.ends[side].host == from && l.ends[1-side].host == to {
				nw.unhang(l, side)
			}
		}
	}
}

// setSlow changes the delay that faults add to the way between two hosts.
func (nw *network) setSlow(from, to *host, by time.Duration) {
	nw.w.order.disturb()
	nw.slow[from.i][to.i] += by
}

// setStall holds up, or releases, the messages of a link's side.
func (nw *network) setStall(l *link, side uint8, by int) {
	nw.w.order.disturb()
	l.stall[side] += by
	nw.w.pic.Stalling(nw.w.Now(), l.n, l.hosts(), side, l.stall[side])
	nw.unhang(l, side)
}

func (l *link) String() string {
	return fmt.Sprintf("connection %d from %s to %s", l.n, l.ends[0].host.name, l.ends[1].host.name)
}
