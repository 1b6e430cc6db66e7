package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
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
func (w *World) brisk(d time.Duration) time.Duration {
	if f := w.opt.Following; f == nil || !f.Brisk {
		return d
	}
	return max(time.Duration(int64(d)*int64(w.opt.MaxTTL)/int64(usualTTL)), time.Millisecond)
}

// usualTTL is the maximum TTL for which the times of connection management are meant: the library's
// default.
const usualTTL = 10 * time.Second

// network is the part of the world between the hosts.
type network struct {
	bases [][]time.Duration // base delays, by sender and receiver
	slow  [][]time.Duration // delays added by faults
	luck  [][]rand.PCG      // random sources of the packets on each way
	cut   [][]int           // how many faults cut the way; messages on a cut way wait
	links []*link           // links that either side still believes open, oldest first
	lastN uint64
	route []int // by place in World.voters: the host that answers to the name
	spare [][]byte
	heard vote.Message
	forge map[*host]func(*vote.Message) // alters a broken host's messages on their way out
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
	full [2]func() bool
	fate fate
}

type linkState uint8

const (
	linkDialing linkState = iota
	linkUp
	linkFailed
)

// fate is what the network does with the messages of a link.
type fate uint8

const (
	fateStands fate = iota
	// Nothing sent from now on arrives. A machine that has forgotten the connection answers
	// messages with a reset.
	fateBroken
	fateSilent // nothing arrives, and no machine answers with a reset
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

func (w *World) setUpNetwork() {
	n := w.opt.Net
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
	w.opt.Net = n
	for _, from := range w.hosts {
		bases, luck := make([]time.Duration, len(w.hosts)), make([]rand.PCG, len(w.hosts))
		for j, to := range w.hosts {
			luck[j] = *w.chance("way", from.alias, to.alias)
			bases[j] = n.Least + within(rand.New(&luck[j]), n.Most-n.Least+1)
		}
		w.bases = append(w.bases, bases)
		w.luck = append(w.luck, luck)
		w.slow = append(w.slow, make([]time.Duration, len(w.hosts)))
		w.cut = append(w.cut, make([]int, len(w.hosts)))
	}
	for i := range w.voters {
		w.route = append(w.route, i)
	}
}

// latency draws how long a packet travels.
func (w *World) latency(from, to *host) time.Duration {
	base := w.bases[from.i][to.i] + w.slow[from.i][to.i]
	r := w.luck[from.i][to.i].Uint64()
	if f := w.opt.Net.Delay; f != nil {
		return f(from.i, to.i, r) + w.slow[from.i][to.i]
	}
	d := base + base*time.Duration(r>>40%uint64(w.opt.Net.Jitter+1))/100
	if int(r%1000) < w.opt.Net.Spikes {
		d += base * time.Duration(r>>20%10)
	}
	return d
}

// isOpen reports whether packets pass from one host to another.
func (w *World) isOpen(from, to *host) bool { return w.cut[from.i][to.i] == 0 }

// voterPlace returns a voter's place in World.voters, or -1.
func (w *World) voterPlace(name vote.NodeID) int { return slices.Index(w.voters, name) }

// dial starts a connection to a voter, unless there is a connection already, or none is wanted.
func (w *World) dial(p *process, voter int) {
	d := &p.dials[voter]
	if d.l != nil || w.voters[voter] == p.host.name || !w.listed(p, voter) || w.opt.Following != nil && !d.wanted {
		return
	}
	w.lastN++
	l := &link{n: w.lastN, voter: voter}
	l.ends[0] = end{host: p.host, p: p}
	l.ends[1] = end{host: w.hosts[w.route[voter]]}
	d.l = l
	if m := w.misled[[2]*host{p.host, l.ends[1].host}]; m != nil && !m.refused {
		m.did(true)
		w.push(event{at: w.now.add(2 * w.latency(p.host, l.ends[1].host)), kind: eventDialFail, p: p, l: l, n: dialMisled})
		return
	}
	w.push(event{at: w.now.add(w.latency(p.host, l.ends[1].host)), kind: eventSyn, l: l})
	w.push(event{at: w.now.add(w.brisk(dialTimeout)), kind: eventDialTimeout, p: p, l: l})
}

// accept handles a dial that reaches the voter's machine. The handshake tells each process which
// session the other has.
func (w *World) accept(e event) {
	l := e.l
	from, to := l.ends[0].host, l.ends[1].host
	if l.state != linkDialing || l.ends[1].p != nil {
		return
	}
	if !w.isOpen(from, to) && e.n == 0 {
		e.at = w.now.add(w.brisk(synAgain))
		w.push(e)
		return
	}
	back := w.now.add(w.latency(to, from))
	switch p := to.p; {
	case p == nil:
		if w.isOpen(to, from) {
			w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l})
		}
	case w.misled[[2]*host{from, to}] != nil && w.misled[[2]*host{from, to}].refused:
		w.misled[[2]*host{from, to}].did(true)
		if w.isOpen(to, from) {
			w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l, n: dialRefused})
		}
	case to.hung != pauseNone:
		e.n = 1 // the dial waits in the machine for the process
		p.backlog = append(p.backlog, e)
	case w.lists != nil && w.isOpen(to, from) && !w.meet(l.ends[0].p, p):
		w.push(event{at: back, kind: eventDialFail, p: l.ends[0].p, l: l, n: dialRefused})
	default:
		w.join(l, 1, p)
		w.links = append(w.links, l)
		if w.isOpen(to, from) {
			w.push(event{at: back, kind: eventUp, p: l.ends[0].p, l: l})
		} else {
			w.learnWithin(l, 1, 2*w.opt.MaxTTL, to.luck)
		}
	}
}

// join gives a process its end of a link.
func (w *World) join(l *link, side uint8, p *process) {
	l.ends[side] = end{host: p.host, p: p, conn: vote.Conn(len(p.conns)), open: true}
	p.conns = append(p.conns, connection{l, side})
}

// up completes a dial with success.
func (w *World) up(p *process, l *link) {
	far := &l.ends[1]
	if l.state != linkDialing {
		return
	}
	if !far.open || far.p.dead {
		w.dialFailed(p, l, "connection reset")
		return
	}
	l.state = linkUp
	l.since = w.now
	w.join(l, 0, p)
	w.fig.Connections++
	w.note(p.host, "is connected to %v", far.p.id)
	p.m.Link(p.read(w.now), l.ends[0].conn, far.p.id)
	w.settle(p)
}

// How a dial may fail, for eventDialFail.
const (
	dialReset = iota
	dialMisled
	dialRefused
)

var dialTexts = [...]string{"connection refused", "another node answers at its address", "the maximum TTL is 1 s there and 2 s here"}

// dialFailed ends a dial without success and schedules the next.
func (w *World) dialFailed(p *process, l *link, why string) {
	if l.state != linkDialing {
		return
	}
	l.state = linkFailed
	if l.ends[1].open {
		w.learnWithin(l, 1, 2*w.opt.MaxTTL, l.ends[1].host.luck)
	}
	d := &p.dials[l.voter]
	d.l = nil
	d.fails++
	w.redial(p, l.voter)
	if why == dialTexts[dialRefused] {
		p.m.Refused(p.read(w.now), w.voters[l.voter], vote.ReasonTerms, why)
	} else {
		p.m.DialFailed(p.read(w.now), w.voters[l.voter], why)
	}
	w.settle(p)
}

// redial schedules the next dial: at once after a steady connection has ended, and the later the
// more dials have failed.
func (w *World) redial(p *process, voter int) {
	pause := within(p.host.luck, redialAtOnce)
	if fails := p.dials[voter].fails; fails > 0 {
		most := w.brisk(min(redialLeast<<min(fails-1, 10), redialMost))
		pause = most/2 + within(p.host.luck, most/2)
	}
	w.push(event{at: w.now.add(pause), kind: eventDial, p: p, n: uint64(voter)})
}

// herald lets gossip report a node's return to the other hosts, so that they dial the node at once.
// Gossip may fail to notice.
func (w *World) herald(h *host) {
	voter := w.voterPlace(h.name)
	if voter < 0 {
		return
	}
	for _, o := range w.hosts {
		if o.p != nil && o != h && w.misled[[2]*host{o, h}] == nil && o.luck.IntN(2) == 0 && w.isOpen(h, o) {
			w.push(event{at: w.now.add(within(o.luck, noticeMost)), kind: eventDial, p: o.p, n: uint64(voter)})
		}
	}
}

// send sends a message. Every message passes through the codec, as on a wire.
func (w *World) send(p *process, o *vote.Outbound) {
	w.sent(p, &o.Message)
	if o.Conn == vote.LocalConn || int(o.Conn) >= len(p.conns) || p.conns[o.Conn].l == nil {
		return // the connection is gone
	}
	c := p.conns[o.Conn]
	l := c.l
	var buf []byte
	if n := len(w.spare); n > 0 {
		buf = w.spare[n-1][:0]
		w.spare = w.spare[:n-1]
	}
	if forge := w.forge[p.host]; forge != nil {
		forge(&o.Message)
	}
	f, err := transport.Append(buf, &o.Message)
	if err != nil {
		w.violate(checkCodec, "%s can't send %+v: %v", p.host.name, o.Message, err)
		return
	}
	w.fig.Messages++
	if o.Message.Kind == vote.KindOpen {
		if l.opened {
			w.mark(MarkMismatch)
		}
		l.opened = true
	}
	w.observeSent(l, c.side, &o.Message)
	if l.fate != fateStands {
		w.spare = append(w.spare, f)
		w.reset(l, c.side)
		return
	}
	which := ordered
	if o.Message.Kind.Urgent() {
		which = urgent
	} else if full := l.full[c.side]; full != nil && full() {
		w.spare = append(w.spare, f)
		return
	}
	w.springs(p.host, o.Message.Kind, true)
	if o.Later && which == ordered && w.opt.Linger > 0 {
		w.linger(p, l, c.side, f)
		return
	}
	w.carry(l, c.side)
	w.dispatch(l, c.side, uint8(which), f)
}

// dispatch puts a frame into a lane and schedules its arrival.
func (w *World) dispatch(l *link, side, which uint8, f []byte) {
	lanes := &l.lanes[side]
	a := &lanes[which]
	at := max(w.now.add(w.latency(l.ends[side].host, l.ends[1-side].host)), a.last)
	if which == ordered {
		at = max(at, lanes[urgent].last)
	}
	a.last = at
	a.push(f)
	if w.pic != nil {
		w.pic.dispatched(w, f)
	}
	w.push(event{at: at, kind: eventArrive, p: l.ends[1-side].p, l: l, side: side, lane: which})
}

// reset tells the sender on a broken link about the break, if the other machine answers and has
// forgotten the connection.
func (w *World) reset(l *link, side uint8) {
	a, b := l.ends[side].host, l.ends[1-side].host
	if l.fate == fateBroken && !l.ends[1-side].open && w.isOpen(a, b) && w.isOpen(b, a) {
		w.push(event{at: w.now.add(w.latency(a, b) + w.latency(b, a)), kind: eventLearn, p: l.ends[side].p, l: l, side: side})
	}
}

// hang reports whether an arriving frame is held up by a cut or a stall. The frame is sent again
// when the way is free.
func (w *World) hang(l *link, side, which uint8) bool {
	if l.stall[side] == 0 && w.cut[l.ends[side].host.i][l.ends[1-side].host.i] == 0 {
		return false
	}
	l.lanes[side][which].hung++
	return true
}

// unhang sends all held-up frames of a link again.
func (w *World) unhang(l *link, side uint8) {
	from, to := l.ends[side].host, l.ends[1-side].host
	if l.stall[side] > 0 || w.cut[from.i][to.i] > 0 {
		return
	}
	// Senders retry at growing intervals.
	at := w.now.add(w.latency(from, to) + within(from.luck, w.brisk(resendMost)))
	for _, which := range []uint8{urgent, ordered} {
		a := &l.lanes[side][which]
		for ; a.hung > 0; a.hung-- {
			w.push(event{at: at, kind: eventArrive, p: l.ends[1-side].p, l: l, side: side, lane: which})
		}
		a.last = max(a.last, at)
	}
}

// receive delivers the front of a lane to the receiving process.
func (w *World) receive(l *link, side, which uint8) {
	f, ok := l.lanes[side][which].pop()
	to := &l.ends[1-side]
	switch {
	case !ok || !to.open:
		if f != nil {
			w.spare = append(w.spare, f)
		}
		if ok && f != nil && !to.open && l.ends[side].open {
			w.reset(l, side)
			if l.fate == fateStands && l.state == linkUp {
				l.fate = fateBroken
			}
		}
		return
	case f == nil:
		w.learn(l, 1-side)
		return
	}
	m := &w.heard
	if err := transport.Decode(f, m); err != nil {
		w.violate(checkCodec, "%s can't read what %s sent: %v", to.host.name, l.ends[side].host.name, err)
		return
	}
	for i := 0; i+8 <= len(f); i += 8 {
		w.mix(uint64(f[i]) | uint64(f[i+1])<<8 | uint64(f[i+2])<<16 | uint64(f[i+3])<<24 |
			uint64(f[i+4])<<32 | uint64(f[i+5])<<40 | uint64(f[i+6])<<48 | uint64(f[i+7])<<56)
	}
	w.mix(uint64(len(f))<<8 | uint64(f[len(f)-1]))
	if w.pic != nil {
		w.pic.arrived(w, l.ends[side].host, to.host, f, m)
	}
	w.spare = append(w.spare, f)
	w.deliver(to.p, to.conn, l.ends[side].p, m)
}

// deliver gives a message to a process.
func (w *World) deliver(p *process, conn vote.Conn, from *process, m *vote.Message) {
	w.fig.Delivered++
	if w.trace != nil {
		w.trace.message(w.now, from.host, p.host, m)
	}
	if w.springs(p.host, m.Kind, false) {
		return
	}
	w.deliveredTo(p, from.id, m)
	p.m.Deliver(p.read(w.now), conn, from.id, m)
	w.settle(p)
}

// learn tells a process that a link is gone.
func (w *World) learn(l *link, side uint8) {
	e := &l.ends[side]
	if !e.open {
		return
	}
	if l.fate == fateStands {
		l.fate = fateBroken
	}
	p := w.forget(l, side)
	w.disturb()
	if side == 0 {
		p.marksOfUnlink()
	}
	w.note(p.host, "loses the connection to %s", l.ends[1-side].host.name)
	p.m.Unlink(p.read(w.now), e.conn)
	w.settle(p)
}

// forget closes an end of a link.
func (w *World) forget(l *link, side uint8) *process {
	e := &l.ends[side]
	p := e.p
	e.open = false
	w.unsaid(l, side)
	p.conns[e.conn] = connection{}
	if side == 0 && !p.dead {
		d := &p.dials[l.voter]
		d.l = nil
		if d.fails++; w.now >= l.since.add(w.brisk(steadyAfter)) {
			d.fails = 0
		}
		w.redial(p, l.voter)
	}
	if !l.ends[1-side].open {
		w.links = slices.DeleteFunc(w.links, func(m *link) bool { return m == l })
	}
	return p
}

// close ends a connection at its process's request. Messages already sent go on, and then the other
// side learns about the end.
func (w *World) close(p *process, conn vote.Conn) {
	if conn == vote.LocalConn || int(conn) >= len(p.conns) || p.conns[conn].l == nil {
		return
	}
	c := p.conns[conn]
	w.fig.Closes++
	w.mark(MarkClosed)
	w.disturb()
	w.note(p.host, "closes the connection to %s", c.l.ends[1-c.side].host.name)
	w.carry(c.l, c.side)
	if c.l.fate == fateStands {
		w.dispatch(c.l, c.side, ordered, nil)
	}
	w.forget(c.l, c.side)
	if c.side == 0 {
		p.marksOfUnlink()
	}
	p.m.Unlink(p.read(w.now), conn)
}

func (w *World) learnWithin(l *link, side uint8, d time.Duration, r *rand.Rand) {
	w.push(event{at: w.now.add(within(r, d)), kind: eventLearn, p: l.ends[side].p, l: l, side: side})
}

// breakLink breaks a connection somewhere on its way. A part of the messages under way still
// arrives; each side learns about the break at a time of its own.
func (w *World) breakLink(l *link, r *rand.Rand) {
	l.fate = fateBroken
	w.pic.broke(w, l)
	w.fig.Breaks++
	w.disturb()
	for side := range uint8(2) {
		for i := range l.lanes[side] {
			if a := &l.lanes[side][i]; a.len() > 0 {
				a.keep(r.IntN(a.len() + 1))
			}
		}
		if l.ends[side].open {
			switch r.IntN(4) {
			case 0, 1:
				w.learnWithin(l, side, 50*time.Millisecond, r)
			case 2:
				w.learnWithin(l, side, 3*w.opt.MaxTTL, r)
			default: // when the side sends something, or notices by itself
			}
		}
	}
}

// setCut adds to (or takes from) the number of cuts of the way between two hosts.
func (w *World) setCut(from, to *host, by int) {
	w.disturb()
	w.cut[from.i][to.i] += by
	w.pic.cutting(w, from, to, w.cut[from.i][to.i])
	if w.cut[from.i][to.i] > 0 {
		return
	}
	for _, l := range w.links {
		for side := range uint8(2) {
			if l.ends[side].host == from && l.ends[1-side].host == to {
				w.unhang(l, side)
			}
		}
	}
}

// setSlow changes the delay that faults add to the way between two hosts.
func (w *World) setSlow(from, to *host, by time.Duration) {
	w.disturb()
	w.slow[from.i][to.i] += by
}

// setStall holds up, or releases, the messages of a link's side.
func (w *World) setStall(l *link, side uint8, by int) {
	w.disturb()
	l.stall[side] += by
	w.pic.stalling(w, l, side, l.stall[side])
	w.unhang(l, side)
}

func (l *link) String() string {
	return fmt.Sprintf("connection %d from %s to %s", l.n, l.ends[0].host.name, l.ends[1].host.name)
}
