package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// modeMutants break the rules of keys with several holders, and of leases that end at a time of
// their own.
var modeMutants = []mutant{
	{name: "a voter takes writers for readers", build: mistakes(func(x *vote.Spec) {
		if x.Beside == 0 && x.Mode == vote.Exclusive {
			x.Mode = vote.Shared
		}
	}), scenario: writerMeetsReader, options: Options{Clients: 2}},
	{name: "an upgrade that doesn't wait for other readers", build: mistakes(func(x *vote.Spec) {
		if x.Beside != 0 {
			x.Mode = vote.Shared
		}
	}), scenario: upgradeMeetsReader, options: Options{Clients: 2}},
	{name: "a reader passes a waiting writer", build: hurries, scenario: readerAfterWriter, options: Options{Clients: 3}},
	{name: "permits counted without slots", build: shared(broken.CountsAnySlot), scenario: threeForTwoPermits, options: Options{Clients: 3}},
	{name: "a vote counted as moved before the voter has moved it", build: movesFirst, scenario: slotsCrossed, options: Options{Clients: 2}},
	{name: "a delay forgotten", build: mistakes(func(x *vote.Spec) { x.Delay = 0 }), scenario: lapseWithDelay, options: Options{Clients: 2}},
	{name: "a minimum hold forgotten", build: mistakes(func(x *vote.Spec) { x.MinHold = 0 }), scenario: backTooSoon, options: Options{Clients: 2}},
	{name: "a fixed lease extended", build: extendsAll, scenario: fixedLease, options: Options{Clients: 1}},
	{name: "a vote of its own length counted as covered by the session", build: coversLengths, scenario: shortLease, options: Options{Clients: 2}},
	{name: "upgrades that don't clash", build: hearsNoClash, scenario: twoUpgrades, options: Options{Clients: 2}},
	{name: "a downgrade that keeps others out", build: hearsNoShare, scenario: downgradeLetsIn, options: Options{Clients: 2}},
	{name: "tokens of shared leases not told apart", build: shared(broken.TakesAnyToken), scenario: manyReadersAtOnce, options: Options{Clients: 3}},
}

// wishful is a voter that misreads the request specs of other nodes.
type wishful struct {
	Machine
	change func(x *vote.Spec)
}

func mistakes(change func(x *vote.Spec)) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return wishful{n, change}, err
	}
}

func (x wishful) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindRequest:
		x.change(&m.Spec)
	case vote.KindSync:
		for i := range m.Entries {
			x.change(&m.Entries[i].Spec)
		}
	}
	x.Machine.Deliver(now, conn, from, m)
}

func reads(node string) Ask { return Ask{Node: node, Key: "k", Mode: Shared} }

func writerMeetsReader(w *World) {
	w.Script.Ask(reads("x1"))
	w.Run(100 * time.Millisecond)
	w.Script.Lock("x2", "k")
	w.Run(sceneTTL)
}

func upgradeMeetsReader(w *World) {
	r := w.Script.Ask(reads("x1"))
	w.Script.Ask(reads("x2"))
	w.Run(100 * time.Millisecond)
	w.Script.Upgrade(r)
	w.Run(sceneTTL)
}

// hastyReaders is a voter that serves readers first.
type hastyReaders struct{ Machine }

func hurries(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return hastyReaders{n}, err
}

func (h hastyReaders) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindRequest:
		if m.Mode == vote.Shared {
			m.Time -= 1e7
		}
	case vote.KindSync:
		for i := range m.Entries {
			if m.Entries[i].Mode == vote.Shared {
				m.Entries[i].Time -= 1e7
			}
		}
	}
	h.Machine.Deliver(now, conn, from, m)
}

// readerAfterWriter has a reader ask after a writer that waits for another reader.
func readerAfterWriter(w *World) {
	requestInOrder(w, reads("x1"), Ask{Node: "x2", Key: "k"}, reads("x3"))
}

func takes(node string, of uint16) Ask {
	return Ask{Node: node, Key: "k", Mode: Permit, Permits: of}
}

// threeForTwoPermits has each of three nodes reach another majority.
func threeForTwoPermits(w *World) {
	w.Script.Cut("x1", "c")
	w.Script.Cut("x2", "a")
	w.Script.Cut("x3", "b")
	w.Run(2 * sceneTTL)
	for _, x := range []string{"x1", "x2", "x3"} {
		w.Script.Ask(takes(x, 2))
		w.Run(50 * time.Millisecond)
	}
	w.Run(sceneTTL)
}

// mover counts a vote for the new slot as soon as the voter is asked to move the vote.
type mover struct {
	Machine
	now    vote.Now
	from   map[vote.Conn]vote.SessionID
	tokens map[votedFor]vote.Token
}

type votedFor struct {
	voter  vote.NodeID
	number vote.Number
}

func movesFirst(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &mover{Machine: n, now: now, from: make(map[vote.Conn]vote.SessionID), tokens: make(map[votedFor]vote.Token)}, err
}

func (v *mover) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	v.now, v.from[conn] = now, from
	if m.Kind == vote.KindPromise || m.Kind == vote.KindConfirmed {
		v.tokens[votedFor{from.Node, m.Number}] = m.Token
	}
	v.Machine.Deliver(now, conn, from, m)
}

func (v *mover) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = v.Machine.Drain(out, ev)
	forged := false
	for _, o := range out[first:] {
		m, from := &o.Message, v.from[o.Conn]
		if o.Close || m.Kind != vote.KindYield || m.Slot == 0 || m.Serial > 1<<40 || from.Node == "" {
			continue
		}
		forged = true
		v.Machine.Deliver(v.now, o.Conn, from, &vote.Message{
			Kind: vote.KindPromise, Stream: m.Stream, Number: m.Number, Serial: m.Serial + 1<<40, Slot: m.Slot, Token: v.tokens[votedFor{from.Node, m.Number}],
		})
	}
	if forged {
		return v.Machine.Drain(out, ev)
	}
	return out, ev
}

// slotsCrossed has x1 reach one voter that knows another holder, and one voter that doesn't.
func slotsCrossed(w *World) {
	w.Script.Cut("x2", "a")
	w.Script.Cut("x1", "c")
	w.Run(2 * sceneTTL)
	w.Script.Ask(takes("x2", 2))
	w.Run(100 * time.Millisecond)
	w.Script.Ask(takes("x1", 2))
	w.Run(sceneTTL)
}

func lapseWithDelay(w *World) {
	w.Script.Ask(Ask{Node: "x1", Key: "k", Length: 500 * time.Millisecond, Delay: time.Second})
	w.Run(100 * time.Millisecond)
	w.Script.PowerOff("x1")
	w.Script.Lock("x2", "k")
	w.Run(2 * sceneTTL)
}

func backTooSoon(w *World) {
	r := w.Script.Ask(Ask{Node: "x1", Key: "k", MinHold: time.Second})
	w.expect(r, Granted, sceneTTL)
	w.Run(100 * time.Millisecond)
	w.Script.Release(r)
	w.expect(w.Script.Lock("x2", "k"), Granted, sceneTTL)
}

// extender extends leases of a fixed length.
type extender struct{ Machine }

func extendsAll(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return extender{n}, err
}

func (e extender) Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error) {
	ask.Fixed = false
	return e.Machine.Lock(now, ask)
}

func fixedLease(w *World) {
	r := w.Script.Ask(Ask{Node: "x1", Key: "k", Length: 500 * time.Millisecond, Fixed: true})
	w.expect(r, Granted, sceneTTL)
	w.expect(r, Lost, time.Second)
}

// coversLengths believes in leases of their own length for as long as the session is valid.
func coversLengths(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	m, err := broken.AnyMajority(cfg, now)
	return &lengthless{Anyone: m.(*broken.Anyone), own: make(map[vote.Number]bool), groups: make(map[quorum.GroupID]bool)}, err
}

type lengthless struct {
	*broken.Anyone
	own    map[vote.Number]bool
	groups map[quorum.GroupID]bool
}

func (l *lengthless) Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error) {
	n, err := l.Node.Lock(now, ask)
	l.own[n] = err == nil && ask.Length > 0
	return n, err
}

func (l *lengthless) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = l.Node.Drain(out, ev)
	inner := append([]quorum.Event{}, ev[first:]...)
	ev = ev[:first]
	for _, e := range inner {
		if e.Kind == quorum.EventGranted || e.Kind == quorum.EventMoved {
			l.groups[e.Group] = l.groups[e.Group] || l.own[e.Number]
		}
	}
	until := l.Until()
	for _, e := range inner {
		switch e.Kind {
		case quorum.EventValidity:
			if l.groups[e.Group] {
				e.Until = max(e.Until, until)
			}
		case quorum.EventLost:
			if l.own[e.Number] && until > l.Now.Fast {
				continue
			}
		}
		ev = append(ev, e)
	}
	return out, ev
}

// shortLease cuts off a holder with a lease that ends before the session.
func shortLease(w *World) {
	w.Script.Ask(Ask{Node: "x1", Key: "k", Length: 300 * time.Millisecond})
	w.Run(100 * time.Millisecond)
	w.Script.Lock("x2", "k")
	w.Script.Cut("x1", "a", "b", "c")
	w.Run(2 * sceneTTL)
}

// deafTo ignores messages of one kind, by setting their request number to zero.
type deafTo struct {
	Machine
	kind vote.Kind
}

func (d deafTo) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == d.kind {
		m.Number = 0
	}
	d.Machine.Deliver(now, conn, from, m)
}

func hearsNoClash(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return deafTo{n, vote.KindClash}, err
}

func hearsNoShare(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return deafTo{n, vote.KindDowngrade}, err
}

func twoUpgrades(w *World) {
	r1, r2 := w.Script.Ask(reads("x1")), w.Script.Ask(reads("x2"))
	w.expect(r1, Granted, sceneTTL)
	w.expect(r2, Granted, sceneTTL)
	u1 := w.Script.Upgrade(r1)
	w.Run(100 * time.Millisecond)
	u2 := w.Script.Upgrade(r2)
	w.expect(u2, Failed, sceneTTL)
	w.Script.Release(r2)
	w.expect(u1, Granted, sceneTTL)
}

func downgradeLetsIn(w *World) {
	r := w.Script.Lock("x1", "k")
	w.expect(r, Granted, sceneTTL)
	w.Script.Downgrade(r)
	w.expect(w.Script.Ask(reads("x2")), Granted, sceneTTL)
}

func manyReadersAtOnce(w *World) {
	for range 5 {
		var all []*Request
		for _, x := range []string{"x1", "x2", "x3", "x1", "x2", "x3"} {
			all = append(all, w.Script.Ask(reads(x)))
		}
		w.Run(100 * time.Millisecond)
		for _, r := range all {
			w.Script.Release(r)
		}
		w.Run(100 * time.Millisecond)
	}
}
