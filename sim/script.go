package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// scenario drives a world by hand. A node name that doesn't exist is a mistake of the
// scenario's author, and panics.
type scenario struct{ w *World }

// Lock has a node ask for a key.
func (sc *scenario) Lock(node, key string) *Request { return sc.Ask(Ask{Node: node, Key: key}) }

// TryLock has a node ask for a key without waiting for it.
func (sc *scenario) TryLock(node, key string) *Request {
	return sc.Ask(Ask{Node: node, Key: key, Try: true})
}

// Ask has a node make any request. The scenario decides when it comes and how long it waits and
// holds, so the fields At, Patience, Hold and Turn are ignored.
func (sc *scenario) Ask(a Ask) *Request { return sc.request(a, nil) }

// Upgrade has a reader's node ask for an exclusive lease. Once the upgrade is granted, the reader's
// shared lease is released.
func (sc *scenario) Upgrade(r *Request) *Request { return sc.request(r.Ask.upgrade(), r) }

// Downgrade has a writer downgrade its lease to shared.
func (sc *scenario) Downgrade(r *Request) {
	sc.w.load.share(r)
	sc.w.settle(r.p)
}

func (sc *scenario) request(a Ask, base *Request) *Request {
	p := sc.w.host(a.Node).p
	if p == nil {
		panic(fmt.Sprintf("sim: %s isn't running", a.Node))
	}
	r := sc.w.load.ask(p, a, base)
	if r == nil {
		panic(fmt.Sprintf("sim: %s takes no request", a.Node))
	}
	sc.w.settle(p)
	return r
}

// Release releases a lease, or gives a waiting request up.
func (sc *scenario) Release(r *Request) { sc.w.load.release(r) }

// Held reports whether a request's node would tell its user now that the lease is held.
func (sc *scenario) Held(r *Request) bool { return sc.w.judge.believes(r) }

// Left returns for how much longer a lease is held without further extension, by its node's own
// clock.
func (sc *scenario) Left(r *Request) time.Duration { return r.p.left(sc.w.now, r.end) }

// Crash ends a node's process and its memory. Its machine goes on, and closes the process's
// connections.
func (sc *scenario) Crash(node string) { sc.w.crash(sc.w.host(node), endingAtOnce, nil) }

// PowerOff ends a node and its machine: no peer is notified.
func (sc *scenario) PowerOff(node string) { sc.w.crash(sc.w.host(node), endingSilent, nil) }

// Start begins a new incarnation of a node that is down.
func (sc *scenario) Start(node string) { h := sc.w.host(node); sc.w.start(h); sc.w.net.announce(h) }

// Restart ends a node's process and starts another at once.
func (sc *scenario) Restart(node string) { sc.Crash(node); sc.Start(node) }

// Stop keeps a node's process from running, as a signal does, until Continue.
func (sc *scenario) Stop(node string) { sc.w.halt(sc.w.host(node), pauseStopped) }

// Suspend suspends a node's machine until Continue: the fast clock goes on, the slow clock stands
// still.
func (sc *scenario) Suspend(node string) { sc.w.halt(sc.w.host(node), pauseAsleep) }

// Continue ends Stop and Suspend.
func (sc *scenario) Continue(node string) { sc.w.wake(sc.w.host(node)) }

// CutOneWay blocks all messages from one node to another. Messages under way, or sent meanwhile,
// arrive after MendOneWay.
func (sc *scenario) CutOneWay(from, to string) { sc.w.net.setCut(sc.w.host(from), sc.w.host(to), 1) }

// MendOneWay ends one CutOneWay.
func (sc *scenario) MendOneWay(from, to string) { sc.w.net.setCut(sc.w.host(from), sc.w.host(to), -1) }

// Cut cuts a node from others, both ways.
func (sc *scenario) Cut(node string, others ...string) {
	for _, o := range others {
		sc.CutOneWay(node, o)
		sc.CutOneWay(o, node)
	}
}

// Mend ends one Cut.
func (sc *scenario) Mend(node string, others ...string) {
	for _, o := range others {
		sc.MendOneWay(node, o)
		sc.MendOneWay(o, node)
	}
}

// Split cuts every node of one part from every node of the other.
func (sc *scenario) Split(one, other []string) {
	for _, a := range one {
		sc.Cut(a, other...)
	}
}

// Join ends one Split.
func (sc *scenario) Join(one, other []string) {
	for _, a := range one {
		sc.Mend(a, other...)
	}
}

// Break breaks the connection that a node has dialed to a voter. All messages under way are lost;
// both sides learn at once.
func (sc *scenario) Break(node, voter string) {
	if l := sc.linkOf(node, voter); l != nil {
		sc.w.fig.Breaks++
		sc.w.pic.Broke(sc.w.Now(), l.hosts())
		for side := range uint8(2) {
			for i := range l.lanes[side] {
				l.lanes[side][i].keep(0)
			}
		}
		l.delivery = breaks
		sc.w.net.learn(l, 0)
		sc.w.net.learn(l, 1)
	}
}

// Stall holds up a node's messages on its connection to a voter or, with back, the voter's
// messages. The returned function ends the stall.
func (sc *scenario) Stall(node, voter string, back bool) (release func()) {
	l := sc.linkOf(node, voter)
	if l == nil {
		panic(fmt.Sprintf("sim: %s isn't connected to %s", node, voter))
	}
	side := uint8(0)
	if back {
		side = 1
	}
	sc.w.net.setStall(l, side, 1)
	return func() { sc.w.net.setStall(l, side, -1) }
}

// linkOf returns the connection that a node has dialed to a voter; nil if none is up.
func (sc *scenario) linkOf(node, voter string) *link {
	h := sc.w.host(node)
	for _, l := range sc.w.net.links {
		if l.ends[0].host == h && l.ends[0].open && string(l.ends[1].host.name) == voter {
			return l
		}
	}
	return nil
}

// StepWall moves a node's wall clock.
func (sc *scenario) StepWall(node string, by time.Duration) { sc.w.stepWall(sc.w.host(node), by) }

// Ready reports whether a node says that a majority of voters answers and counts.
func (sc *scenario) Ready(node string) bool {
	p := sc.w.host(node).p
	return p != nil && p.m.Ready()
}

// Awake lets time pass until every node is ready and no voter is in its startup quarantine. It
// reports whether that happened within the time allowed.
func (sc *scenario) Awake() bool {
	return sc.w.RunUntil(2*sc.w.opt.MaxTTL+servedFixed, func() bool {
		for _, h := range sc.w.hosts {
			if h.p == nil || !h.p.m.Ready() || h.p.m.Voter() != nil && sc.w.validity.isQuiet(h.p) {
				return false
			}
		}
		return true
	})
}

// Duplicate starts a duplicate process with a node's name, on a machine of its own, and returns its
// alias for scenarios: the node's name with an apostrophe. No node dials the duplicate.
func (sc *scenario) Duplicate(node string) string {
	h := sc.w.host(node)
	if h.voter {
		panic("sim: duplicates of voters are beyond what the protocol promises")
	}
	return sc.addDuplicate(h).alias
}

func (sc *scenario) addDuplicate(h *host) *host {
	t := &host{i: len(sc.w.hosts), name: h.name, alias: h.alias + "'", ttl: h.ttl, least: h.least, clock: h.clock}
	for _, o := range sc.w.hosts {
		t.nth += bit(o.alias == t.alias)
	}
	t.rng = rand.New(sc.w.chance("host", t.alias, t.nth))
	t.clock.resume(sc.w.now)
	sc.w.judge.hasDuplicates = true
	sc.w.hosts = append(sc.w.hosts, t)
	sc.w.pic.Host(t.i, t.alias, t.voter)
	for i, row := range sc.w.net.bases {
		sc.w.net.bases[i] = append(row, sc.w.opt.Net.Least)
		sc.w.net.slow[i] = append(sc.w.net.slow[i], 0)
		sc.w.net.cut[i] = append(sc.w.net.cut[i], 0)
		sc.w.net.rng[i] = append(sc.w.net.rng[i], *sc.w.chance("way", sc.w.hosts[i].alias, t.alias, t.nth))
	}
	rng := make([]rand.PCG, len(sc.w.hosts))
	for i, o := range sc.w.hosts {
		rng[i] = *sc.w.chance("way", t.alias, t.nth, o.alias)
	}
	sc.w.net.rng = append(sc.w.net.rng, rng)
	sc.w.net.bases = append(sc.w.net.bases, make([]time.Duration, len(sc.w.hosts)))
	for i := range sc.w.net.bases {
		sc.w.net.bases[t.i][i] = sc.w.opt.Net.Least
	}
	sc.w.net.slow = append(sc.w.net.slow, make([]time.Duration, len(sc.w.hosts)))
	sc.w.net.cut = append(sc.w.net.cut, make([]int, len(sc.w.hosts)))
	sc.w.fig.Duplicates++
	sc.w.start(t)
	return t
}
