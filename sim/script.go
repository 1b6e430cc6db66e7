package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// How a scenario drives a world by hand. A node name that doesn't exist is a mistake of the
// scenario's author, and panics.

// Lock has a node ask for a key.
func (w *World) Lock(node, key string) *Request { return w.Ask(Ask{Node: node, Key: key}) }

// TryLock has a node ask for a key without waiting for it.
func (w *World) TryLock(node, key string) *Request {
	return w.Ask(Ask{Node: node, Key: key, Try: true})
}

// Ask has a node make any request. The scenario decides when it comes and how long it waits and
// holds, so the fields At, Patience, Hold and Turn are ignored.
func (w *World) Ask(a Ask) *Request { return w.request(a, nil) }

// Upgrade has a reader's node ask for an exclusive lease. Once the upgrade is granted, the reader's
// shared lease is released.
func (w *World) Upgrade(r *Request) *Request { return w.request(r.Ask.upgrade(), r) }

// Share has a writer downgrade its lease to shared.
func (w *World) Share(r *Request) {
	w.share(r)
	w.settle(r.p)
}

func (w *World) request(a Ask, base *Request) *Request {
	p := w.host(a.Node).p
	if p == nil {
		panic(fmt.Sprintf("sim: %s isn't running", a.Node))
	}
	r := w.ask(p, a, base)
	if r == nil {
		panic(fmt.Sprintf("sim: %s takes no request", a.Node))
	}
	w.settle(p)
	return r
}

// Release releases a lease, or gives a waiting request up.
func (w *World) Release(r *Request) { w.release(r) }

// Held reports whether a request's node would tell its user now that the lease is held.
func (w *World) Held(r *Request) bool { return w.believes(r) }

// Left returns for how much longer a lease is held without further extension, by its node's own
// clock.
func (w *World) Left(r *Request) time.Duration { return r.p.left(w.now, r.end) }

// Crash ends a node's process and its memory. Its machine goes on, and closes the process's
// connections.
func (w *World) Crash(node string) { w.crash(w.host(node), endingAtOnce, nil) }

// PowerOff ends a node and its machine: no peer is notified.
func (w *World) PowerOff(node string) { w.crash(w.host(node), endingSilent, nil) }

// Start begins a new incarnation of a node that is down.
func (w *World) Start(node string) { h := w.host(node); w.start(h); w.herald(h) }

// Restart ends a node's process and starts another at once.
func (w *World) Restart(node string) { w.Crash(node); w.Start(node) }

// Stop keeps a node's process from running, as a signal does, until Continue.
func (w *World) Stop(node string) { w.halt(w.host(node), pauseStopped) }

// Suspend suspends a node's machine until Continue: the fast clock goes on, the slow clock stands
// still.
func (w *World) Suspend(node string) { w.halt(w.host(node), pauseAsleep) }

// Freeze pauses a node's virtual machine until Continue. No clock of the machine shows the pause.
func (w *World) Freeze(node string) { w.halt(w.host(node), pauseUnseen) }

// Continue ends Stop, Suspend and Freeze.
func (w *World) Continue(node string) { w.wake(w.host(node)) }

// CutOneWay blocks all messages from one node to another. Messages under way, or sent meanwhile,
// arrive after MendOneWay.
func (w *World) CutOneWay(from, to string) { w.setCut(w.host(from), w.host(to), 1) }

// MendOneWay ends one CutOneWay.
func (w *World) MendOneWay(from, to string) { w.setCut(w.host(from), w.host(to), -1) }

// Cut cuts a node from others, both ways.
func (w *World) Cut(node string, others ...string) {
	for _, o := range others {
		w.CutOneWay(node, o)
		w.CutOneWay(o, node)
	}
}

// Mend ends one Cut.
func (w *World) Mend(node string, others ...string) {
	for _, o := range others {
		w.MendOneWay(node, o)
		w.MendOneWay(o, node)
	}
}

// Split cuts every node of one part from every node of the other.
func (w *World) Split(one, other []string) {
	for _, a := range one {
		w.Cut(a, other...)
	}
}

// Join ends one Split.
func (w *World) Join(one, other []string) {
	for _, a := range one {
		w.Mend(a, other...)
	}
}

// Break breaks the connection that a node has dialed to a voter. All messages under way are lost;
// both sides learn at once.
func (w *World) Break(node, voter string) {
	if l := w.linkOf(node, voter); l != nil {
		w.fig.Breaks++
		w.pic.broke(w, l)
		for side := range uint8(2) {
			for i := range l.lanes[side] {
				l.lanes[side][i].keep(0)
			}
		}
		l.fate = fateBroken
		w.learn(l, 0)
		w.learn(l, 1)
	}
}

// Stall holds up a node's messages on its connection to a voter or, with back, the voter's
// messages. The returned function ends the stall.
func (w *World) Stall(node, voter string, back bool) (release func()) {
	l := w.linkOf(node, voter)
	if l == nil {
		panic(fmt.Sprintf("sim: %s isn't connected to %s", node, voter))
	}
	side := uint8(0)
	if back {
		side = 1
	}
	w.setStall(l, side, 1)
	return func() { w.setStall(l, side, -1) }
}

// Forge has change alter all messages of a node to others on their way out, as a broken machine or
// program would, without the node's knowledge. A nil change ends the forging. A change must not
// modify memory behind a message's pointers.
func (w *World) Forge(node string, change func(*vote.Message)) {
	if w.forge == nil {
		w.forge = make(map[*host]func(*vote.Message))
	}
	w.forge[w.host(node)] = change
}

// linkOf returns the connection that a node has dialed to a voter; nil if none is up.
func (w *World) linkOf(node, voter string) *link {
	h := w.host(node)
	for _, l := range w.links {
		if l.ends[0].host == h && l.ends[0].open && string(l.ends[1].host.name) == voter {
			return l
		}
	}
	return nil
}

// StepWall moves a node's wall clock.
func (w *World) StepWall(node string, by time.Duration) { w.stepWall(w.host(node), by) }

// Retune sets the rate error of a node's clocks, in parts per million.
func (w *World) Retune(node string, ppm int64) { w.retune(w.host(node), ppm) }

// Ready reports whether a node says that a majority of voters answers and counts.
func (w *World) Ready(node string) bool {
	p := w.host(node).p
	return p != nil && p.m.Ready()
}

// Awake lets time pass until every node is ready and no voter is in its startup quarantine. It
// reports whether that happened within the time allowed.
func (w *World) Awake() bool {
	return w.RunUntil(2*w.opt.MaxTTL+servedFixed, func() bool {
		for _, h := range w.hosts {
			if h.p == nil || !h.p.m.Ready() || h.p.m.Voter() != nil && w.isQuiet(h.p) {
				return false
			}
		}
		return true
	})
}

// Twin starts a duplicate process with a node's name, on a machine of its own, and returns its
// alias for scenarios: the node's name with an apostrophe. No node dials the duplicate.
func (w *World) Twin(node string) string {
	h := w.host(node)
	if h.voter {
		panic("sim: twins of voters are beyond what the protocol promises")
	}
	return w.twin(h).alias
}

func (w *World) twin(h *host) *host {
	t := &host{i: len(w.hosts), name: h.name, alias: h.alias + "'", ttl: h.ttl, clock: h.clock}
	for _, o := range w.hosts {
		t.nth += bit(o.alias == t.alias)
	}
	t.luck = rand.New(w.chance("host", t.alias, t.nth))
	t.clock.resume(w.now)
	w.twins = true
	w.hosts = append(w.hosts, t)
	for i, row := range w.bases {
		w.bases[i] = append(row, w.opt.Net.Least)
		w.slow[i] = append(w.slow[i], 0)
		w.cut[i] = append(w.cut[i], 0)
		w.luck[i] = append(w.luck[i], *w.chance("way", w.hosts[i].alias, t.alias, t.nth))
	}
	luck := make([]rand.PCG, len(w.hosts))
	for i, o := range w.hosts {
		luck[i] = *w.chance("way", t.alias, t.nth, o.alias)
	}
	w.luck = append(w.luck, luck)
	w.bases = append(w.bases, make([]time.Duration, len(w.hosts)))
	for i := range w.bases {
		w.bases[t.i][i] = w.opt.Net.Least
	}
	w.slow = append(w.slow, make([]time.Duration, len(w.hosts)))
	w.cut = append(w.cut, make([]int, len(w.hosts)))
	w.fig.Twins++
	w.start(t)
	return t
}
