package birth

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// The times of a new machine. The machine begins a little after zero, since a pledge in the initial
// state counts as made at zero.
const (
	ttl      = 10 * time.Second
	begins   = vote.Instant(time.Millisecond)
	pollTime = 90 * time.Millisecond // fewer than the polling interval of 100 ms, so that reports stay recent
	margin   = 2 * time.Second       // how long founders must have been the same
	turn     = 3 * time.Second       // how much longer a founder waits for each process that may act before it,
	turns    = 5                     // and for how many at most
	patience = 5 * time.Second       // then a pledge is undone
)

// names are the names of the processes. The names of real ones mean nothing; here they tell the
// processes apart.
var names = [maxProcesses]vote.NodeID{"a", "b", "c", "d", "e", "f", "g"}

// mind is the knowledge of a process.
type mind struct {
	generation uint8            // how many identities the process had before
	told       [maxProcesses]id // the newest report of each other process
	pledge     id               // the electorate of its pledge
	elected    id               // the known electorate
}

// mindID is the number of a mind. Zero is the mind that knows nothing.
type mindID uint32

// numberOf returns the number of a mind.
func (x *explorer) numberOf(k mind) mindID {
	n, ok := x.mindOf[k]
	if !ok {
		n = mindID(len(x.minds))
		x.minds = append(x.minds, k)
		x.mindOf[k] = n
	}
	return n
}

// id is the number of a report or an electorate; zero for none.
type id uint16

// incarnation returns the incarnation under which a process takes the next identity.
func incarnation(process int, generation uint8) vote.Incarnation {
	return vote.Incarnation(1 + process*16 + int(generation))
}

// elector returns a process as a voter.
func (x *explorer) elector(process int, generation uint8) vote.Elector {
	v, ok := x.electors[[2]int{process, int(generation)}]
	if ok {
		return v
	}
	v = vote.Elector{Name: names[process], Dir: vote.Dir(1 + process)}
	if generation > 0 {
		// The identity of the machine after giving up the identity before, with a pledge given by
		// no other process.
		pledge := []vote.Elector{x.elector(process, generation-1), {Name: "z", Dir: 1 << 20}}
		m := x.machine(process, mind{generation: generation - 1, pledge: x.electorate(vote.Electorate{Voters: pledge})})
		at := vote.Now{Fast: begins.Add(patience), Slow: begins.Add(patience)}
		m.Tick(at)
		v = m.Elector()
	}
	x.electors[[2]int{process, int(generation)}] = v
	return v
}

func session(process int) vote.SessionID {
	return vote.SessionID{Node: names[process], Incarnation: vote.Incarnation(100 + process)}
}

// machine makes a machine with the knowledge of a process.
func (x *explorer) machine(process int, k mind) *electorate.Machine {
	cfg := x.o.config()
	cfg.Self = vote.SessionID{Node: names[process], Incarnation: incarnation(process, k.generation)}
	state := vote.DiskState{Mesh: "explored", Name: names[process]}
	if k.generation == 0 {
		state.Dir = vote.Dir(1 + process)
	} else {
		state.Dir = x.elector(process, k.generation).Dir
	}
	if k.pledge != 0 {
		state.Pledge, state.PledgeMaxVoters, state.PledgeMaxTTL = x.electorates[k.pledge].Voters, electorate.MaxVoters, cfg.MaxTTL
	}
	if k.elected != 0 {
		state.Electorate = x.electorates[k.elected]
	}
	m := electorate.New(cfg, state, vote.Now{Fast: begins, Slow: begins})
	x.remind(m, k, begins)
	return m
}

// remind passes the reports known to a process to its machine.
func (x *explorer) remind(m *electorate.Machine, k mind, at vote.Instant) {
	now := vote.Now{Fast: at, Slow: at}
	for i, n := range k.told {
		if n == 0 {
			continue
		}
		if at == begins {
			m.Link(now, vote.Conn(1+i), session(i))
		}
		m.Receive(now, vote.Conn(1+i), session(i), x.reports[n])
	}
}

// after returns the knowledge of a process after an event, given its machine.
func (x *explorer) after(process int, k mind, m *electorate.Machine) (mind, error) {
	if alarms := m.Alarms(); len(alarms) > 0 && !x.o.Crowded {
		return k, fmt.Errorf("%s raises an alarm: %s", names[process], alarms[0])
	}
	if was := x.elector(process, k.generation); m.Elector() != was {
		if next := x.elector(process, k.generation+1); m.Elector() != next {
			return k, fmt.Errorf("%s takes the identity %x, and not %x", names[process], m.Elector().Dir, next.Dir)
		}
		// All connections are closed, so earlier reports count no more.
		return mind{generation: k.generation + 1}, nil
	}
	k.elected = 0
	if e := m.Known(); e.Version > 0 {
		k.elected = x.electorate(*e)
	}
	k.pledge = 0
	if pledge := x.pledgeOf(m); len(pledge) > 0 {
		k.pledge = x.electorate(vote.Electorate{Voters: pledge})
	}
	return k, nil
}

// report returns a machine's report about itself.
func (x *explorer) report(m *electorate.Machine) vote.Message {
	m.Drain(nil)
	at := vote.Now{Fast: begins, Slow: begins}
	const asks = vote.Conn(99)
	m.Receive(at, asks, vote.SessionID{Node: "asks", Incarnation: 1}, &vote.Message{Kind: vote.KindPoll})
	for _, o := range m.Drain(nil) {
		if o.Conn == asks && o.Message.Kind == vote.KindReport {
			r := o.Message
			e := *r.Consensus
			e.Writes = 0 // old directories aren't explored
			if e.Founding {
				e.Contacts = x.everyone()
			}
			r.Consensus = &e
			return r
		}
	}
	panic("birth: a machine leaves a poll unanswered")
}

// everyone returns all possible identities. In each world every fresh process reaches all
// identities: a cut between founders would delay the founding, would not matter to the claim, and
// would multiply the worlds.
func (x *explorer) everyone() []vote.Elector {
	if x.all == nil {
		x.all = []vote.Elector{}
		for i := range x.o.Processes {
			for g := range x.o.Rebirths + 1 {
				x.all = append(x.all, x.elector(i, uint8(g)))
			}
		}
	}
	return x.all
}

// pledgeOf returns the founders in the pledge of a machine.
func (x *explorer) pledgeOf(m *electorate.Machine) []vote.Elector {
	return x.report(m).Consensus.Electorate.Voters
}

// electorate returns the number of an electorate.
func (x *explorer) electorate(e vote.Electorate) id {
	return number(&x.electorates, x.electorateOf, e, fmt.Sprint(e.Version, e.Lineage, e.Voters, e.Old))
}

// numbered returns the number of a report.
func (x *explorer) numbered(r vote.Message) id {
	e := r.Consensus
	key := fmt.Sprint(r.Epoch, e.Dir, e.Founding, e.Leaving, e.Electorate.Voters, e.Contacts)
	return number(&x.reports, x.reportOf, &r, key)
}

// number returns the number of a value, from 1 on.
func number[T any](all *[]T, of map[string]id, v T, key string) id {
	n, ok := of[key]
	if !ok {
		if len(*all) == 0 {
			*all = slices.Grow(*all, 64)[:1]
		}
		if len(*all) > math.MaxUint16 {
			panic("birth: more values than an id can number")
		}
		n = id(len(*all))
		*all = append(*all, v)
		of[key] = n
	}
	return n
}
