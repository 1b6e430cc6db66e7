package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	year   = vote.Micros(365 * 24 * time.Hour / time.Microsecond)
	hour   = vote.Micros(time.Hour / time.Microsecond)
	to1970 = -vote.Micros(1_700_000_000_000_000)
)

// turns has each node lock in turn, exclusively and shared, and returns the last token. Every
// request must be granted, and tokens must rise.
func (m *mesh) turns(t *testing.T, key vote.Key, last vote.Token, names ...vote.NodeID) vote.Token {
	t.Helper()
	for range 3 {
		for _, name := range names {
			for _, ask := range []quorum.RequestOptions{quorum.Exclusive(key, false), shared(key)} {
				n := m.ask(name, ask)
				m.pass(200 * time.Millisecond)
				e := m.want(name, n, quorum.EventGranted)
				if e.Token <= last {
					t.Fatalf("%s has %q with token %d after %d", name, key, e.Token, last)
				}
				last = e.Token
				m.release(name, n)
				m.pass(20 * time.Millisecond)
			}
		}
	}
	return last
}

// No lease is refused because of a clock, and no alarm is raised about a token explained by a
// clock, whatever the clocks of voters and other nodes show, and whichever voter is gone.
func TestNoLeaseIsRefusedForAClock(t *testing.T) {
	sampled.Computes(t)
	for _, walls := range []map[vote.NodeID]vote.Micros{
		{"a": to1970}, {"a": 75 * year}, {"d": to1970}, {"d": 75 * year},
		{"a": to1970, "b": to1970}, {"a": 75 * year, "b": 75 * year}, {"a": to1970, "b": 75 * year}, {"a": -30 * hour, "b": 30 * hour},
		{"a": to1970, "b": to1970, "c": to1970}, {"a": 75 * year, "b": 75 * year, "c": 75 * year}, {"a": 75 * year, "d": 75 * year},
		{"a": to1970, "d": 75 * year, "b": 20 * hour},
	} {
		for _, gone := range []vote.NodeID{"", "a", "b", "c"} {
			t.Run(fmt.Sprint(walls, gone), func(t *testing.T) {
				m := awakeAt(t, 4, 3, walls)
				m.turns(t, "first", 0, "d")
				last := m.turns(t, "k", 0, "a", "b", "c", "d")
				var others []vote.NodeID
				for _, name := range m.names {
					if name != gone {
						others = append(others, name)
					}
				}
				if gone != "" {
					m.stop(gone)
					m.pass(2 * ttl)
				}
				m.turns(t, "new", 0, others...)
				last = m.turns(t, "k", last, others...)
				if gone != "" {
					m.start(gone)
					m.pass(ttl + 3*vote.TokenQueryTimeout)
				}
				last = m.turns(t, "k", last, "d", "c", "b", "a")
				// A rolling restart, while a lease is held all the time.
				h := m.ask("d", quorum.Exclusive("held", false))
				m.pass(200 * time.Millisecond)
				m.want("d", h, quorum.EventGranted)
				for _, name := range m.voters {
					m.start(name)
					m.pass(ttl + 3*vote.TokenQueryTimeout)
				}
				m.want("d", h, quorum.EventGranted)
				m.release("d", h)
				m.turns(t, "k", last, m.names...)
				if all := m.alarms(); len(all) > 0 {
					t.Errorf("alarms: %q", all)
				}
			})
		}
	}
}

// Tokens granted while all clocks were ahead go on rising when the clocks are set back by years,
// for restarted nodes as well.
func TestAllClocksJumpBack(t *testing.T) {
	ahead := map[vote.NodeID]vote.Micros{"a": 75 * year, "b": 75 * year, "c": 75 * year, "d": 75 * year, "e": 75 * year}
	m := awakeAt(t, 5, 3, ahead)
	last := m.turns(t, "k", 0, "d", "a", "b", "c")
	clear(m.walls)
	m.pass(2 * ttl)
	last = m.turns(t, "k", last, "a", "b", "c", "d")
	// A client without any knowledge, a voter, and another client.
	for _, name := range []vote.NodeID{"e", "a", "d"} {
		m.start(name)
		m.pass(ttl + 3*vote.TokenQueryTimeout)
		last = m.turns(t, "k", last, "e", "a", "b", "c", "d")
	}
	m.turns(t, "new", last-1000*vote.BlockSize, "e")
	if all := m.alarms(); len(all) > 0 {
		t.Errorf("alarms: %q", all)
	}
}

// A voter that was cut off for long learns from the other voters, once it refuses a token, that the
// token is right.
func TestAVoterThatWasCutOffLearnsHowHighTokensStand(t *testing.T) {
	ahead := map[vote.NodeID]vote.Micros{"b": 75 * year, "c": 75 * year, "d": 75 * year}
	m := awakeAt(t, 4, 3, map[vote.NodeID]vote.Micros{"a": 0})
	m.cut(func(l link) bool { return l.from == "a" || l.to == "a" })
	for name, by := range ahead {
		m.walls[name] = by
	}
	last := m.turns(t, "k", 0, "d", "b", "c")
	clear(m.walls)
	m.relink("a")
	n := m.lock("d", "k", false)
	m.pass(2 * ttl)
	if e := m.want("d", n, quorum.EventGranted); e.Token <= last {
		t.Fatalf("token %d after %d", e.Token, last)
	}
	m.stop("b") // now the lease needs the vote of a, which was cut off
	m.pass(5 * ttl)
	m.want("d", n, quorum.EventGranted)
	m.release("d", n)
	m.pass(100 * time.Millisecond)
	m.turns(t, "k", last, "d", "a", "c")
	if all := m.alarms(); len(all) > 0 {
		t.Errorf("alarms: %q", all)
	}
}

// A suspended machine wakes up without its leases, though its slow clock hasn't moved; and another
// node gets the key no sooner than the voters' promises end.
func TestAHolderThatWasSuspendedHasLostItsLease(t *testing.T) {
	m := awakeOf(t, 4, 3)
	n := m.lock("d", "k", false)
	m.want("d", n, quorum.EventGranted)
	w := m.lock("a", "k", false)
	m.slept["d"] = 2 * ttl
	m.nodes["d"].Tick(m.at("d"))
	m.run()
	m.want("d", n, quorum.EventLost)
	m.pass(3 * ttl)
	m.want("a", w, quorum.EventGranted)
}
