package transport

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

const (
	// firstMessageTimeout bounds the wait for the whole first message of an incoming connection
	// (the ClientHello of TLS, or the first 8 bytes in plain text) while few places are left: see
	// scarce. A dialer sends the first message at once, so one second covers a lost packet. While
	// many nodes start on a busy machine, a dialer may get no processor for seconds; so while there
	// is room, a connection may take its time up to handshakeTimeout.
	firstMessageTimeout = time.Second

	// finalRead bounds a last read after the timeout: on a busy machine the message may have
	// arrived long before, and still be in the socket's buffer.
	finalRead = 10 * time.Millisecond

	// The rooms of strangers, peers from addresses of no known member, hold connections before
	// their first message (waiting), and between the first message and the end of the handshake
	// (handshaking). Each room has a limit in all and a limit for each source. Together with
	// earlyBytes the limits bound the memory that strangers can make this node use: 4 MB, and some
	// for TLS.
	waitingStrangers, waitingStrangersEach         = 128, 32
	handshakingStrangers, handshakingStrangersEach = 64, 16

	// The rooms reserved for addresses of members, from which whole fleets restart at once. Behind
	// address translation one address may have many nodes, and strangers beside them.
	waitingKnown, waitingKnownEach         = 256, 128
	handshakingKnown, handshakingKnownEach = 256, 128

	// gossipStreamsMost and gossipStreamsEach bound the streams from which memberlist reads at
	// once, each for five seconds at most. memberlist's own limit of concurrent exchanges is 128.
	gossipStreamsMost, gossipStreamsEach = 128, 64

	// unfinishedFor is how long a handshake, once begun, is protected from eviction: a round trip
	// around the world. If all places are taken by younger connections, a newcomer waits. So many
	// nodes that restart at once don't evict each other.
	unfinishedFor = 250 * time.Millisecond

	// fullPause is the pause before the next accept after the eviction of a connection younger
	// than fullAge. Without the pause, evicted peers that dial again at once could take up all
	// our time. Meanwhile the connections of other peers wait in the system's backlog, and their
	// first message has arrived by the time they are accepted.
	fullPause = time.Millisecond
	fullAge   = 100 * time.Millisecond

	// knownMost bounds how many addresses of members are remembered, more than a mesh has nodes;
	// the oldest is forgotten.
	knownMost = 4096

	// logAfter is how long the first log line about strangers waits for further events, and
	// logEvery the least time between two log lines.
	logAfter = time.Second
	logEvery = time.Minute
	// loggedSources is how many sources a log line names, and countedSources how many sources are
	// counted individually.
	loggedSources, countedSources = 3, 256
)

// handshakesAtOnce is for how many connections at once TLS is computed up to our answer, the work
// that a stranger can cause at no expense. The limit leaves half of the processors to everything
// else.
func handshakesAtOnce() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// admission accounts for incoming connections that have proved nothing yet. Strangers can hold only
// a few places, for a bounded time, and the oldest connections are evicted for newcomers. Separate
// places are reserved for addresses of members. All methods are safe for concurrent use.
type admission struct {
	proofs chan struct{} // a semaphore of the connections for which TLS is being computed

	mu          sync.Mutex
	waiting     [2]room       // of strangers, and of known addresses: before the first message
	handshaking [2]room       // likewise, after the first message
	gossip      room          // streams owned by memberlist
	freed       chan struct{} // closed and replaced when a connection leaves a handshaking room
	known       map[netip.Addr]uint64
	asOf        uint64 // a sequence number, incremented at each note in known

	stats AdmissionStats
	log   strangerLog
}

// AdmissionStats counts the incoming connections that proved nothing. All fields but Open only
// ever rise.
type AdmissionStats struct {
	Open       int    // connections currently before the end of their handshake
	Silent     uint64 // closed because their first message was late
	Unfinished uint64 // closed because their handshake didn't end in time
	Evicted    uint64 // evicted to make room for newer connections
}

func newAdmission(logger *slog.Logger) *admission {
	d := &admission{
		proofs: make(chan struct{}, handshakesAtOnce()), freed: make(chan struct{}), known: make(map[netip.Addr]uint64),
		waiting:     [2]room{{most: waitingStrangers, perSource: waitingStrangersEach}, {most: waitingKnown, perSource: waitingKnownEach}},
		handshaking: [2]room{{most: handshakingStrangers, perSource: handshakingStrangersEach}, {most: handshakingKnown, perSource: handshakingKnownEach}},
		gossip:      room{most: gossipStreamsMost, perSource: gossipStreamsEach},
	}
	d.log = strangerLog{logger: logger, by: make(map[netip.Addr]uint64)}
	return d
}

// noteMember notes the address of a member.
func (d *admission) noteMember(a netip.Addr) {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsUnspecified() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asOf++
	d.known[a] = d.asOf
	if len(d.known) <= knownMost {
		return
	}
	oldest, asOf := a, d.asOf
	for b, n := range d.known {
		if n < asOf {
			oldest, asOf = b, n
		}
	}
	delete(d.known, oldest)
}

func class(known bool) int {
	if known {
		return 1
	}
	return 0
}

// admit admits a connection; leave closes the connection if a newer one evicts it. full reports
// that admission evicted a connection younger than fullAge, with hardly any time to send its
// first message.
func (d *admission) admit(from netip.Addr, leave func()) (v *visitor, full bool) {
	from = from.Unmap().WithZone("")
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.known[from]
	v = &visitor{source: from, known: known, leave: leave}
	if !known {
		v.source = sourceOf(from)
	}
	r := &d.waiting[class(known)]
	if out := r.inTheWay(v.source); out != nil {
		full = now.Sub(out.since) < fullAge
		d.evict(out)
	}
	r.add(v, now)
	return v, full
}

// scarce reports whether more than half of the places open to a visitor are taken, of all places or
// of those of its source. Silent visitors then have to leave after firstMessageTimeout. So
// strangers can hold only half of the places for longer, and the other half is soon free again.
func (d *admission) scarce(v *visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := v.in
	return r == nil || 2*len(r.visitors) > r.most || 2*r.bySource[v.source] > r.perSource
}

// evict evicts a visitor; mu is held.
func (d *admission) evict(out *visitor) {
	out.remove()
	out.leave()
	d.stats.Evicted++
	d.logEvent(out.source, &d.log.evicted)
}

// beginHandshake moves a visitor that has sent its first message to the handshaking room, as soon
// as a place is free. False means that ctx has ended first, or that the visitor was evicted.
func (d *admission) beginHandshake(ctx context.Context, v *visitor) bool {
	for {
		wait, freed, ok := d.tryHandshake(v)
		if freed == nil {
			return ok
		}
		t := time.NewTimer(wait)
		select {
		case <-freed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// tryHandshake returns the longest time to wait and the channel to wait on; or, if freed is nil,
// whether the visitor may proceed.
func (d *admission) tryHandshake(v *visitor) (wait time.Duration, freed chan struct{}, ok bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == nil {
		return 0, nil, false
	}
	r := &d.handshaking[class(v.known)]
	if out := r.inTheWay(v.source); out != nil {
		if age := now.Sub(out.since); age < unfinishedFor {
			return unfinishedFor - age, d.freed, false
		}
		d.evict(out)
	}
	v.remove()
	r.add(v, now)
	return 0, nil, true
}

// remove removes a visitor from the account.
func (d *admission) remove(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == &d.handshaking[0] || v.in == &d.handshaking[1] {
		close(d.freed)
		d.freed = make(chan struct{})
	}
	v.remove()
}

// addStream adds a gossip stream to the account.
func (d *admission) addStream(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if out := d.gossip.inTheWay(v.source); out != nil {
		d.evict(out)
	}
	d.gossip.add(v, time.Now())
}

// countSilent and countUnfinished count connections that ran out of time; evicted connections are
// counted already.
func (d *admission) countSilent(v *visitor) { d.countLate(v, &d.stats.Silent, &d.log.silent) }
func (d *admission) countUnfinished(v *visitor) {
	d.countLate(v, &d.stats.Unfinished, &d.log.unfinished)
}

func (d *admission) countLate(v *visitor, count, told *uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == nil {
		return
	}
	*count++
	d.logEvent(v.source, told)
}

// counts returns the counters.
func (d *admission) counts() AdmissionStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	for i := range d.waiting {
		s.Open += len(d.waiting[i].visitors) + len(d.handshaking[i].visitors)
	}
	return s
}

// close stops the timer and logs the remaining counts.
func (d *admission) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log.timer != nil {
		d.log.timer.Stop()
	}
	d.log.write()
	d.log.over = true
}
