package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// What a scenario does to a world by hand. Names of nodes that don't exist are mistakes of its author, and panic.

// Lock has a node ask for a key.
func (w *World) Lock(node, key string) *Request { return w.Ask(Ask{Node: node, Key: key}) }

// TryLock has a node ask for a key that it wants now or not at all.
func (w *World) TryLock(node, key string) *Request {
	return w.Ask(Ask{Node: node, Key: key, Try: true})
}

// Ask has a node ask for a key in whatever manner. When it comes, how long it has patience and holds, and whether it turns, is the scenario's business.
func (w *World) Ask(a Ask) *Request { return w.request(a, nil) }

// Upgrade has a reader's node ask for the key alone. When that is granted, the reader's lease is given back.
func (w *World) Upgrade(r *Request) *Request { return w.request(r.Ask.upgrade(), r) }

// Share has a writer let others in beside it.
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

// Release gives a lease back, or gives a waiting request up.
func (w *World) Release(r *Request) { w.release(r) }

// Held reports whether a request's user would be told, if it asked now, that it holds the lease.
func (w *World) Held(r *Request) bool { return w.believes(r) }

// Left returns for how much longer a lease is held if nothing extends it, by its node's own clock.
func (w *World) Left(r *Request) time.Duration { return r.p.left(w.now, r.end) }

// Crash ends a node's process with its memory. Its machine goes on and closes its connections.
func (w *World) Crash(node string) { w.crash(w.host(node), endingAtOnce, nil) }

// PowerOff ends a node with its machine: nobody is told.
func (w *World) PowerOff(node string) { w.crash(w.host(node), endingSilent, nil) }

// Start begins a new life of a node that is down.
func (w *World) Start(node string) { h := w.host(node); w.start(h); w.herald(h) }

// Restart ends a node's process and starts another at once.
func (w *World) Restart(node string) { w.Crash(node); w.Start(node) }

// Stop keeps a node's process from running, as a signal does; Continue lets it go on.
func (w *World) Stop(node string) { w.halt(w.host(node), pauseStopped) }

// Suspend suspends a node's machine: its fast clock goes on, its slow one doesn't. Continue wakes it.
func (w *World) Suspend(node string) { w.halt(w.host(node), pauseAsleep) }

// Freeze pauses a node's virtual machine, which no clock of it shows. Continue wakes it.
func (w *World) Freeze(node string) { w.halt(w.host(node), pauseUnseen) }

// Continue ends Stop, Suspend and Freeze.
func (w *World) Continue(node string) { w.wake(w.host(node)) }

// CutOneWay lets nothing pass from one node to another. What is on its way, or sent meanwhile, arrives after Mend.
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

// Break breaks the connection that a node has dialed to a voter. Nothing of what is under way arrives; both sides learn at once.
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

// Stall holds up what a node sends on its connection to a voter, and, with back, what the voter sends on it. The function that is
// returned lets it go.
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

// linkOf returns the connection that a node has dialed to a voter; nil when none is up.
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

// Retune makes a node's clocks err by so many parts per million.
func (w *World) Retune(node string, ppm int64) { w.retune(w.host(node), ppm) }

// Ready reports whether a node says that a majority of voters answers and counts.
func (w *World) Ready(node string) bool {
	p := w.host(node).p
	return p != nil && p.m.Ready()
}

// Awake lets time pass until every voter counts for every node. It reports whether that came within the time in which it must.
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

// Twin starts another process with a node's name, on a machine of its own, and returns a name for it in scenarios: the node's with
// an apostrophe. Nobody dials it.
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
