package transport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// firstWordTime is how long an incoming connection may take to send its whole first message
	// (the ClientHello of TLS, or the first 8 bytes in plain text) while places are scarce: see
	// scarce. A dialer sends the first message at once, so one second covers a lost packet. While
	// many nodes start on a busy machine, a dialer may get no processor for seconds; so while there
	// is room, a connection may take its time up to handshakeTimeout.
	firstWordTime = time.Second

	// lastLook is how long the node still reads after the time for the first message. A node that
	// hardly gets a processor may come to read only then, and the message has arrived long before.
	lastLook = 10 * time.Millisecond

	// The rooms of strangers, peers from addresses of no known member, hold connections before
	// their first message (lobby), and between the first message and the end of the handshake
	// (proving). Each room has a limit in all and a limit for each source. Together with earlyBytes
	// the limits bound the memory that strangers can make this node use: 4 MB, and some for TLS.
	lobbyStrangers, lobbyStrangersEach     = 128, 32
	provingStrangers, provingStrangersEach = 64, 16

	// The rooms reserved for addresses of members, from which whole fleets restart at once. Behind
	// address translation one address may have many nodes, and strangers beside them.
	lobbyKnown, lobbyKnownEach     = 256, 128
	provingKnown, provingKnownEach = 256, 128

	// gossipStreamsMost and gossipStreamsEach bound the streams from which memberlist reads at
	// once, each for five seconds at most. memberlist's own limit of concurrent exchanges is 128.
	gossipStreamsMost, gossipStreamsEach = 128, 64

	// unfinishedFor is how long a handshake, once begun, is protected from eviction: a round trip
	// around the world. If all places are taken by younger connections, a newcomer waits. So many
	// nodes that restart at once don't evict each other.
	unfinishedFor = 250 * time.Millisecond

	// crowdedPause is the pause before the next accept after the eviction of a connection younger
	// than crowdedAge. Without the pause, evicted peers that dial again at once could take up all
	// our time. Meanwhile the connections of other peers wait in the system's backlog, and their
	// first message has arrived by the time they are accepted.
	crowdedPause = time.Millisecond
	crowdedAge   = 100 * time.Millisecond

	// knownMost bounds how many addresses of members are remembered, more than a mesh has nodes;
	// the oldest is forgotten.
	knownMost = 4096

	// tellFirst is how long the first log line about strangers waits for further events, and
	// tellEvery the least time between two log lines.
	tellFirst = time.Second
	tellEvery = time.Minute
	// tellSources is how many sources a log line names, and countSources how many sources are
	// counted individually.
	tellSources, countSources = 3, 256
)

// provingAtOnce is for how many connections at once TLS is computed up to our answer, the work that
// a stranger can cause at no expense. The limit leaves half of the processors to everything else.
func provingAtOnce() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// door accounts for incoming connections that have proved nothing yet. Strangers can hold only a
// few places, for a bounded time, and the oldest connections are evicted for newcomers. Separate
// places are reserved for addresses of members. All methods are safe for concurrent use.
type door struct {
	proofs chan struct{} // a semaphore of the connections for which TLS is being computed

	mu      sync.Mutex
	lobby   [2]room       // of strangers, and of known addresses: before the first message
	proving [2]room       // likewise, after the first message
	gossip  room          // streams owned by memberlist
	freed   chan struct{} // closed and replaced when a connection leaves a proving room
	known   map[netip.Addr]uint64
	asOf    uint64 // a sequence number, incremented at each note in known

	stats DoorStats
	tale  tale
}

// DoorStats counts the fates of incoming connections that proved nothing. All fields but Open only
// ever rise.
type DoorStats struct {
	Open       int    // connections currently before the end of their handshake
	Silent     uint64 // closed because their first message was late
	Unfinished uint64 // closed because their handshake didn't end in time
	GaveWay    uint64 // evicted to make room for newer connections
}

func newDoor(logger *slog.Logger) *door {
	d := &door{
		proofs: make(chan struct{}, provingAtOnce()), freed: make(chan struct{}), known: make(map[netip.Addr]uint64),
		lobby:   [2]room{{most: lobbyStrangers, perSource: lobbyStrangersEach}, {most: lobbyKnown, perSource: lobbyKnownEach}},
		proving: [2]room{{most: provingStrangers, perSource: provingStrangersEach}, {most: provingKnown, perSource: provingKnownEach}},
		gossip:  room{most: gossipStreamsMost, perSource: gossipStreamsEach},
	}
	d.tale = tale{logger: logger, by: make(map[netip.Addr]uint64)}
	return d
}

// know notes the address of a member.
func (d *door) know(a netip.Addr) {
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

// enter admits a connection; leave closes the connection if a newer one evicts it. crowded reports
// that admission evicted a connection younger than crowdedAge, with hardly any time to send its
// first message.
func (d *door) enter(from netip.Addr, leave func()) (v *visitor, crowded bool) {
	from = from.Unmap().WithZone("")
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.known[from]
	v = &visitor{source: from, known: known, leave: leave}
	if !known {
		v.source = sourceOf(from)
	}
	r := &d.lobby[class(known)]
	if out := r.inTheWay(v.source); out != nil {
		crowded = now.Sub(out.since) < crowdedAge
		d.giveWay(out)
	}
	r.add(v, now)
	return v, crowded
}

// scarce reports whether more than half of the places open to a visitor are taken, of all places or
// of those of its source. Silent visitors then have to leave after firstWordTime. So strangers can
// hold only half of the places for longer, and the other half is soon free again.
func (d *door) scarce(v *visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := v.in
	return r == nil || 2*len(r.visitors) > r.most || 2*r.bySource[v.source] > r.perSource
}

// giveWay evicts a visitor; mu is held.
func (d *door) giveWay(out *visitor) {
	out.remove()
	out.leave()
	d.stats.GaveWay++
	d.note(out.source, &d.tale.gaveWay)
}

// prove moves a visitor that has sent its first message on to the proving room, as soon as a place
// is free. False means that ctx has ended first, or that the visitor was evicted.
func (d *door) prove(ctx context.Context, v *visitor) bool {
	for {
		wait, freed, ok := d.tryProve(v)
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

// tryProve returns the longest time to wait and the channel to wait on; or, if freed is nil,
// whether the visitor may proceed.
func (d *door) tryProve(v *visitor) (wait time.Duration, freed chan struct{}, ok bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == nil {
		return 0, nil, false
	}
	r := &d.proving[class(v.known)]
	if out := r.inTheWay(v.source); out != nil {
		if age := now.Sub(out.since); age < unfinishedFor {
			return unfinishedFor - age, d.freed, false
		}
		d.giveWay(out)
	}
	v.remove()
	r.add(v, now)
	return 0, nil, true
}

// gone removes a visitor from the account.
func (d *door) gone(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == &d.proving[0] || v.in == &d.proving[1] {
		close(d.freed)
		d.freed = make(chan struct{})
	}
	v.remove()
}

// stream adds a gossip stream to the account.
func (d *door) stream(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if out := d.gossip.inTheWay(v.source); out != nil {
		d.giveWay(out)
	}
	d.gossip.add(v, time.Now())
}

// silent and unfinished count connections that ran out of time; evicted connections are counted
// already.
func (d *door) silent(v *visitor)     { d.late(v, &d.stats.Silent, &d.tale.silent) }
func (d *door) unfinished(v *visitor) { d.late(v, &d.stats.Unfinished, &d.tale.unfinished) }

func (d *door) late(v *visitor, count, told *uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.in == nil {
		return
	}
	*count++
	d.note(v.source, told)
}

// read returns the counters.
func (d *door) read() DoorStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	for i := range d.lobby {
		s.Open += len(d.lobby[i].visitors) + len(d.proving[i].visitors)
	}
	return s
}

// close stops the timer and logs the remaining counts.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tale.timer != nil {
		d.tale.timer.Stop()
	}
	d.tale.tell()
	d.tale.over = true
}

// tale is the log of strangers: a line soon after the first event, and then at most one a minute.
// The door's lock guards a tale.
type tale struct {
	logger                      *slog.Logger
	by                          map[netip.Addr]uint64 // connections since the last line, by source
	silent, unfinished, gaveWay uint64
	told                        time.Time // when the last line was written
	timer                       *time.Timer
	due, over                   bool
}

// note counts a connection, and schedules a log line; mu is held.
func (d *door) note(from netip.Addr, count *uint64) {
	*count++
	t := &d.tale
	if _, counted := t.by[from]; counted || len(t.by) < countSources {
		t.by[from]++
	}
	if t.due || t.over {
		return
	}
	t.due = true
	wait := tellFirst
	if !t.told.IsZero() {
		wait = max(wait, tellEvery-time.Since(t.told))
	}
	t.timer = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !t.over {
			t.tell()
		}
	})
}

// tell writes the log line, if there is any count to report; the door's lock is held.
func (t *tale) tell() {
	if t.silent+t.unfinished+t.gaveWay == 0 {
		return
	}
	sources := slices.SortedFunc(maps.Keys(t.by), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(t.by[b], t.by[a]), a.Compare(b))
	})
	var from []string
	for _, s := range sources[:min(len(sources), tellSources)] {
		from = append(from, fmt.Sprintf("%s (%d)", s, t.by[s]))
	}
	t.logger.Warn("connections came in that did not complete the handshake: keep strangers away "+
		"from the port; members still get in",
		"silent", t.silent, "unfinished", t.unfinished, "displaced", t.gaveWay,
		"from", from, "sources", len(sources))
	t.silent, t.unfinished, t.gaveWay = 0, 0, 0
	clear(t.by)
	t.told, t.due = time.Now(), false
}
