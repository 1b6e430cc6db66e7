package electorate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// bench is a single machine; the test plays all other nodes. The directory of node a is 1, the
// directory of b is 2, and so on.
type bench struct {
	t   *testing.T
	m   *Machine
	now vote.Now
}

func elector(name string) vote.Elector {
	return vote.Elector{Name: vote.NodeID(name), Dir: vote.Dir(name[0]-'a') + 1}
}

func electors(list string) (all []vote.Elector) {
	for _, name := range strings.Fields(list) {
		all = append(all, elector(name))
	}
	return all
}

// electorate parses "7: a b c (a b)": the version, the voters, and the old voters.
func electorate(s string) (e vote.Electorate) {
	version, rest, _ := strings.Cut(s, ":")
	if _, err := fmt.Sscan(version, &e.Version); err != nil {
		panic(err)
	}
	voters, old, _ := strings.Cut(rest, "(")
	e.Lineage, e.Most, e.Voters, e.Old = 5, MaxVoters, electors(voters), electors(strings.TrimSuffix(old, ")"))
	return e
}

func newBench(t *testing.T, e string) *bench {
	b := &bench{t: t, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}}
	b.restart(vote.DiskState{Mesh: "m", Name: "a", Dir: 1, Writes: 10, Electorate: electorate(e)}, 1)
	b.save("")
	b.sent()
	return b
}

// restart begins an incarnation with the given content of the directory; b and c are connected.
func (b *bench) restart(s vote.DiskState, life vote.Incarnation) {
	b.m = New(Config{Self: vote.SessionID{Node: "a", Incarnation: life}, Founders: nodes("a b c"), MaxTTL: maxTTL}, s, b.now)
	b.m.SetOwnVoter(OwnVoter{Counting: true})
	for _, peer := range nodes("b c") {
		b.m.Link(b.now, conn(peer), vote.SessionID{Node: peer, Incarnation: 7})
	}
}

func conn(peer vote.NodeID) vote.Conn { return vote.Conn(peer[0]-'a') + 1 }

// say delivers a message from a peer, or from a over its local link.
func (b *bench) say(from vote.NodeID, m vote.Message) {
	c, life := conn(from), vote.Incarnation(7)
	if from == "a" {
		c, life = vote.LocalConn, b.m.cfg.Self.Incarnation
	}
	b.m.Receive(b.now, c, vote.SessionID{Node: from, Incarnation: life}, &m)
}

// sent returns the messages sent since the last call, except polls.
func (b *bench) sent() string {
	var said []string
	for _, o := range b.m.Drain(nil) {
		to := "a"
		if o.Conn != vote.LocalConn {
			to = string(rune('a' + o.Conn - 1))
		}
		m := o.Message
		if m.Kind == vote.KindPoll {
			continue
		}
		s := fmt.Sprintf("%s: %s", to, m.Kind)
		switch m.Kind {
		case vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted:
			s += fmt.Sprintf(" %d/%d", m.Consensus.Ballot.Counter, m.Consensus.Ballot.By)
			if p := m.Consensus.Promised; p != (vote.Ballot{}) && p != m.Consensus.Ballot {
				s += fmt.Sprintf(" promised %d/%d", p.Counter, p.By)
			}
			if p := m.Consensus.Accepted; p != (vote.Ballot{}) {
				s += fmt.Sprintf(" accepted %d/%d", p.Counter, p.By)
			}
		}
		if m.Consensus != nil && m.Consensus.Electorate.Version > 0 {
			s += " " + text(&m.Consensus.Electorate)
		}
		said = append(said, s)
	}
	return strings.Join(said, "; ")
}

func (b *bench) expect(want string) {
	b.t.Helper()
	if got := b.sent(); got != want {
		b.t.Fatalf("it says %q, want %q", got, want)
	}
}

// save completes the save under way, and returns the state to be stored; with a text the save
// fails.
func (b *bench) save(failed string) vote.DiskState {
	b.t.Helper()
	s := b.m.Saves()
	if len(s) != 1 {
		b.t.Fatalf("%d saves are wanted", len(s))
	}
	b.m.Saved(b.now, s[0].Writes, failed)
	return s[0]
}

func (b *bench) pass(d time.Duration) {
	b.now.Fast, b.now.Slow, b.now.Wall = b.now.Fast.Add(d), b.now.Slow.Add(d), b.now.Wall+vote.Micros(d.Microseconds())
	b.m.Tick(b.now)
}

func ballot(number uint64, by vote.Incarnation) vote.Ballot {
	return vote.Ballot{Counter: number, By: by}
}

func prepare(version uint64, a vote.Ballot) vote.Message {
	return vote.Message{Kind: vote.KindPrepare, Version: version, Consensus: &vote.Consensus{Ballot: a}}
}

func accept(a vote.Ballot, e string) vote.Message {
	v := electorate(e)
	return vote.Message{Kind: vote.KindAccept, Version: v.Version, Consensus: &vote.Consensus{Ballot: a, Electorate: v}}
}
