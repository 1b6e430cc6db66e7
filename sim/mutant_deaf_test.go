package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// deafMutants break the rules by which a process that can send and can't receive keeps no key from
// others for longer than a TTL.
var deafMutants = []mutant{
	{name: "answers that were lost are never declared void", build: sends(func(m *vote.Message) {
		if m.Kind == vote.KindRefresh {
			m.Void = false
		}
	}), scenario: holderGoesDeaf, options: Options{Clients: 2}},
	{name: "a session extended by each sync", build: sends(func(m *vote.Message) {
		if m.Kind == vote.KindOpen {
			m.Heard, m.Void = 0, false
		}
	}), scenario: deafNodeReturns, options: Options{Clients: 2}},
	{name: "a vote that a sync doesn't name is kept for its proposal timeout's sake", build: namesAll, scenario: voteUnheardOf, options: Options{Clients: 2}},
	{name: "an answer that extends nothing is counted", build: countsVoid, scenario: unextendedAnswer, options: Options{Clients: 2}},
}

// sends builds nodes whose sent messages are changed.
func sends(change func(m *vote.Message)) Builder { return shared(broken.Twists(nil, change)) }

// holderGoesDeaf has x2 wait for a lease of x1 after x1 can no longer receive messages.
func holderGoesDeaf(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	x2 := w.Script.Lock("x2", "k")
	w.Run(sceneTTL)
	for _, v := range []string{"a", "b", "c"} {
		w.Script.CutOneWay(v, "x1")
	}
	w.expect(x2, Granted, sceneTTL+soon)
}

// deafNodeReturns has x1 count a's vote and then receive nothing, on whatever streams x1 opens. c
// is dead, so x2 needs a's vote as well.
func deafNodeReturns(w *World) {
	w.Script.PowerOff("c")
	w.Run(2 * sceneTTL)
	w.Script.Stall("x1", "b", true)
	w.Script.Lock("x1", "k")
	w.Run(10 * time.Millisecond)
	w.mute("x1", 10*time.Millisecond)
	x2 := w.Script.Lock("x2", "k")
	for range 6 {
		w.mute("x1", sceneTTL/5)
		for _, v := range []string{"a", "b"} {
			w.Script.Break("x1", v)
		}
	}
	if x2.State == Waiting {
		w.expect(x2, Granted, 0)
	}
}

// mute lets time pass while all messages from the voters to a node are held up, on each connection
// of the node.
func (w *World) mute(node string, d time.Duration) {
	w.RunUntil(d, func() bool {
		for _, v := range []string{"a", "b", "c"} {
			if l := w.Script.linkOf(node, v); l != nil && l.stall[1] == 0 {
				w.net.setStall(l, 1, 1)
			}
		}
		return false
	})
}

// namer is a voter that takes each sync for a list of the standing votes.
type namer struct{ Machine }

func namesAll(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return namer{n}, err
}

func (n namer) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindSync {
		for i := range m.Entries {
			e := &m.Entries[i]
			for _, v := range n.Voter().Votes(e.Key) {
				if v.Owner == from && v.Number == e.Number {
					e.Serial = v.Serial
				}
			}
		}
	}
	n.Machine.Deliver(now, conn, from, m)
}

// voteUnheardOf has x1 lose its connections before its votes arrive, and receive nothing on the
// next connections. By then x2 has waited for longer than a proposal timeout.
func voteUnheardOf(w *World) {
	w.mute("x1", time.Millisecond)
	w.Script.Lock("x1", "k")
	w.mute("x1", 10*time.Millisecond)
	x2 := w.Script.Lock("x2", "k")
	w.mute("x1", sceneTTL/4)
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Break("x1", v)
	}
	w.mute("x1", sceneTTL/4)
	if x2.State == Waiting {
		w.expect(x2, Granted, 0)
	}
}

// voidless counts every answer to a sync, and every acknowledgement, as an extension of its
// session.
type voidless struct{ Machine }

func countsVoid(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return voidless{n}, err
}

func (c voidless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAnswer || m.Kind == vote.KindAck {
		m.Void = false
	}
	c.Machine.Deliver(now, conn, from, m)
}

// unextendedAnswer has x1 receive the answers on new streams, while no later message of x1 arrives.
func unextendedAnswer(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	w.Run(sceneTTL)
	voters := []string{"a", "b", "c"}
	for _, v := range voters {
		w.Script.CutOneWay(v, "x1")
	}
	w.Run(sceneTTL * 35 / 100)
	for _, v := range voters {
		w.Script.MendOneWay(v, "x1")
		w.Script.Break("x1", v)
	}
	answers := func() int { return int(w.faults.find("x1").p.m.Requester().Counters().Resyncs) }
	was := answers()
	w.RunUntil(sceneTTL/2, func() bool { return answers() >= was+len(voters) })
	w.Script.Lock("x2", "k")
	for _, v := range voters {
		w.At(time.Millisecond/2, func() { w.Script.CutOneWay("x1", v) })
	}
	w.Run(2 * sceneTTL)
}
