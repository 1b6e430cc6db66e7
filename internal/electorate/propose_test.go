package electorate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func voters(names string) (all []vote.Elector) {
	for _, c := range names {
		all = append(all, vote.Elector{Name: vote.NodeID(c), Dir: vote.Dir(c)})
	}
	return all
}

// Each impossible proposal is refused with its reason.
func TestProposalsThatCantBeMade(t *testing.T) {
	begun := func(m *Machine) { _ = m.Propose(vote.Now{}, voters("ab")) }
	for _, row := range []struct {
		self   string
		known  vote.Electorate
		before func(m *Machine)
		target string
		want   string
	}{
		{"d", vote.Electorate{Version: 1, Voters: voters("abc")}, nil, "ab", "doesn't vote"},
		{"a", vote.Electorate{}, nil, "ab", "doesn't vote"},
		{"a", vote.Electorate{Version: 2, Voters: voters("ab"), Old: voters("abc")}, nil, "ab", "being changed already"},
		{"a", vote.Electorate{Version: 1, Voters: voters("abc")}, begun, "abcd", "under way"},
		{"a", vote.Electorate{Version: 1, Voters: voters("abc")}, nil, "cba", "voters already"},
		{"a", vote.Electorate{Version: 1, Voters: voters("abc")}, nil, "", "no voters"},
		{"a", vote.Electorate{Version: 1, Voters: voters("abc")}, nil, "aab", "twice"},
		{"a", vote.Electorate{Version: 1, Voters: voters("abc")}, nil, "abcd", ""},
	} {
		state := vote.DiskState{Name: vote.NodeID(row.self), Dir: voters(row.self)[0].Dir, Electorate: row.known}
		m := New(Config{Self: vote.SessionID{Node: vote.NodeID(row.self)}, MaxTTL: 10 * time.Second}, state, vote.Now{})
		m.Saved(vote.Now{}, m.Saves()[0].Writes, "")
		if row.before != nil {
			row.before(m)
		}
		err := m.Propose(vote.Now{}, voters(row.target))
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s can't propose %q: %v", row.self, row.target, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s proposes %q: %v, want something with %q", row.self, row.target, err, row.want)
		}
	}
}

// A new incarnation must not use a ballot again: the incarnation before may have sent the ballot,
// and died before the ballot was stored.
func TestTwoIncarnationsNumberTheirBallotsDifferently(t *testing.T) {
	state := vote.DiskState{Name: "a", Dir: voters("a")[0].Dir, Electorate: vote.Electorate{Version: 1, Voters: voters("abc")}}
	sent := make(map[vote.Ballot]bool)
	for life := range vote.Incarnation(2) {
		m := New(Config{Self: vote.SessionID{Node: "a", Incarnation: life + 1}, MaxTTL: 10 * time.Second}, state, vote.Now{})
		m.Saved(vote.Now{}, m.Saves()[0].Writes, "")
		m.Link(vote.Now{}, 7, vote.SessionID{Node: "b"})
		m.Drain(nil)
		if err := m.Propose(vote.Now{}, voters("ab")); err != nil {
			t.Fatal(err)
		}
		for _, o := range m.Drain(nil) {
			if o.Conn == 7 && o.Message.Kind == vote.KindPrepare {
				sent[o.Message.Consensus.Ballot] = true
			}
		}
	}
	if len(sent) != 2 {
		t.Errorf("two incarnations, which know of no ballot, tell of %v, want two ballots", sent)
	}
}
