package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// wrong is a token that no clock shows and no voter knows.
const wrong = vote.MaxToken/2 - 5

// forgeries are the ways in which a broken node c, a voter of three, can name a token. Each changes
// a message of c.
var forgeries = map[string]func(m *vote.Message){
	"it confirms one": func(m *vote.Message) {
		if m.Kind == vote.KindConfirm {
			m.Token = wrong
		}
	},
	"it proposes one": func(m *vote.Message) {
		if m.Kind == vote.KindPromise || m.Kind == vote.KindConfirmed {
			m.Token = wrong
		}
	},
	"it lists votes with one": func(m *vote.Message) {
		if m.Kind == vote.KindAnswer {
			m.Entries = slices.Clone(m.Entries)
			for i := range m.Entries {
				m.Entries[i].Token = wrong
			}
		}
	},
	"it syncs leases with one": func(m *vote.Message) {
		if m.Kind == vote.KindSync {
			m.Entries = slices.Clone(m.Entries)
			for i := range m.Entries {
				m.Entries[i].Token = wrong
			}
		}
	},
	"it hints at one": func(m *vote.Message) {
		if m.Kind == vote.KindRequest || m.Kind == vote.KindRelease {
			m.TokenHint = wrong
		}
	},
	"it tells one": func(m *vote.Message) {
		if m.Kind == vote.KindTokenAnswer {
			m.Token, m.Counting = wrong, true
		}
	},
	"it tells TryLocks of one": func(m *vote.Message) {
		if m.Kind == vote.KindHeld {
			m.Token = wrong
		}
	},
	"it shows one": func(m *vote.Message) {
		if m.Kind == vote.KindQueryResult || m.Kind == vote.KindEvents {
			m.Views = slices.Clone(m.Views)
			for i := range m.Views {
				m.Views[i].Token = wrong
			}
		}
	},
}

func forging(names ...string) func(from, to vote.NodeID, m *vote.Message) {
	return func(from, _ vote.NodeID, m *vote.Message) {
		if from != "c" {
			return
		}
		for _, name := range names {
			forgeries[name](m)
		}
	}
}

// alarms returns the alarms raised on all nodes.
func (m *mesh) alarms() (all []string) {
	for _, name := range m.names {
		for _, e := range m.events[name] {
			if e.Kind == quorum.EventAlarm {
				all = append(all, fmt.Sprintf("%s: %s", name, e.Text))
			}
		}
	}
	return all
}

// checkTokens fails the test if a voter knows a token far above the clocks.
func (m *mesh) checkTokens(t *testing.T) {
	t.Helper()
	for _, name := range m.voters {
		if n := m.nodes[name]; n != nil {
			if top, _ := n.Voter().Top(); top > vote.MaxFrom(vote.TokenAt(m.now.Wall))+1000*vote.BlockSize {
				t.Errorf("%s knows of the token %d; its clock shows %d", name, top, m.now.Wall)
			}
		}
	}
}

// use has the nodes lock and release a key in turn, three times; the tokens must be near the
// clocks, and must rise.
func (m *mesh) use(t *testing.T, key vote.Key, names ...vote.NodeID) {
	t.Helper()
	var last vote.Token
	for range 3 {
		for _, name := range names {
			n := m.lock(name, key, false)
			m.pass(100 * time.Millisecond)
			e := m.want(name, n, quorum.EventGranted)
			if e.Token <= last || e.Token > vote.MaxFrom(vote.TokenAt(m.now.Wall)) {
				t.Fatalf("%s has %q with token %d after %d, and the clocks show %d", name, key, e.Token, last, m.now.Wall)
			}
			last = e.Token
			m.release(name, n)
			m.pass(20 * time.Millisecond)
		}
	}
	m.checkTokens(t)
}

func TestOneNodeThatNamesWrongTokensMovesNoOthers(t *testing.T) {
	for what := range forgeries {
		t.Run(what, func(t *testing.T) {
			m := awakeOf(t, 4, 3)
			m.twist = forging(what)
			// The broken node takes and awaits locks like any other node, and its links break.
			m.lock("c", "its", false)
			n := m.lock("c", "k", false)
			w := m.lock("d", "k", false)
			m.pass(300 * time.Millisecond)
			m.cut(func(l link) bool { return l.from == "c" || l.to == "c" })
			m.relink("c")
			m.pass(300 * time.Millisecond)
			m.release("c", n)
			m.pass(3 * ttl)
			m.want("d", w, quorum.EventGranted)
			m.release("d", w)
			m.use(t, "k", "a", "b", "d")
			m.use(t, "other", "d", "b", "a")

			// A restarted voter queries the others for the highest token; the answer of c is wrong.
			m.start("b")
			m.pass(ttl + 3*vote.TokenQueryTimeout)
			m.use(t, "k", "d", "b", "a")

			// After a restart the broken node is as good as new.
			m.twist = nil
			m.start("c")
			m.pass(ttl + 3*vote.TokenQueryTimeout)
			m.use(t, "k", "a", "b", "c", "d")
			m.stop("a")
			m.pass(3 * ttl)
			m.use(t, "k", "b", "c", "d")
		})
	}
}

// A node that doesn't vote, and a voter that was asked nothing, send a voter acknowledgements with
// a late clock: the limit of accepted tokens stays near the clocks. A late clock of a voter counts,
// until the clock is set back.
func TestOnlyVotersShowAClock(t *testing.T) {
	m := awakeOf(t, 4, 3)
	late := m.now.Wall + vote.Micros(vote.LastClock/2)
	limit := func() vote.Token {
		m.pass(2 * time.Minute) // the limit follows the tokens named, a minute later
		return m.nodes["a"].Voter().Limit() - vote.TokenAt(m.now.Wall)
	}
	usual := limit()
	for from, kind := range map[vote.NodeID]vote.Kind{"d": vote.KindRefresh, "c": vote.KindRefresh} {
		m.twist = func(f, to vote.NodeID, msg *vote.Message) {
			if f == from && to == "a" && msg.Kind == kind {
				*msg = vote.Message{Kind: vote.KindAck, Wall: late, Stream: msg.Stream, Sent: msg.Sent}
			}
		}
		m.pass(ttl)
		m.twist = nil
		if got := limit(); got > usual {
			t.Errorf("an acknowledgement of %s that answers nothing raised the limit by %v", from, (got-usual)/vote.TokenStep)
		}
	}
	m.twist = func(from, to vote.NodeID, msg *vote.Message) {
		if from == "c" && msg.Kind == vote.KindAck {
			msg.Wall = late
		}
	}
	if got := limit(); got <= usual {
		t.Error("the clock of a voter doesn't count")
	}
	m.twist = nil
	if got := limit(); got > usual {
		t.Error("a clock that was set back counts")
	}
}

func TestWrongTokensAreToldOfOnceInAWhile(t *testing.T) {
	m := awakeOf(t, 4, 3)
	m.twist = forging("it confirms one", "it proposes one", "it syncs leases with one")
	for i := range 50 {
		n := m.lock("c", vote.Key(fmt.Sprint("k", i)), false)
		m.pass(50 * time.Millisecond)
		m.release("c", n)
		d := m.lock("d", vote.Key(fmt.Sprint("k", i)), false)
		m.pass(50 * time.Millisecond)
		m.release("d", d)
	}
	m.pass(time.Second)
	all := m.alarms()
	if len(all) < 3 || len(all) > 12 {
		t.Errorf("%d alarms: %q", len(all), all)
	}
	for _, a := range all {
		if !strings.Contains(a, `"c"`) || !strings.Contains(a, fmt.Sprint(wrong)) {
			t.Errorf("the alarm doesn't name the node and the token: %s", a)
		}
	}
	var state string
	for _, v := range m.nodes["d"].Voters(m.now) {
		if v.Name == "c" {
			state = v.String()
		}
	}
	if !strings.Contains(state, fmt.Sprint(wrong)) {
		t.Errorf("the voter's state doesn't tell of it: %s", state)
	}
}

// A peer that names a token a step ahead each time gets no further than a step a minute.
func TestManySmallStepsAreNoLeap(t *testing.T) {
	m := awakeOf(t, 4, 3)
	start := vote.TokenAt(m.now.Wall)
	next := start
	m.twist = func(from, _ vote.NodeID, msg *vote.Message) {
		if from == "c" && msg.Kind == vote.KindConfirm {
			next += vote.TokenStep / 2
			msg.Token = next
		}
	}
	for range 200 {
		n := m.lock("c", "k", false)
		m.pass(20 * time.Millisecond)
		m.release("c", n)
	}
	for _, name := range m.voters {
		if top, _ := m.nodes[name].Voter().Top(); top > start+3*vote.TokenStep {
			t.Errorf("%s is %d steps ahead", name, (top-start)/vote.TokenStep)
		}
	}
}

func TestViewsAndTryLocksBesideAVoterThatNamesWrongTokens(t *testing.T) {
	m := awakeOf(t, 4, 3)
	m.twist = forging("it tells TryLocks of one", "it shows one", "it proposes one")
	m.nodes["d"].Watch(m.now, "k", false)
	h := m.lock("b", "k", false)
	m.pass(200 * time.Millisecond)
	m.want("b", h, quorum.EventGranted)
	try := m.lock("a", "k", true)
	m.pass(100 * time.Millisecond)
	if e := m.want("a", try, quorum.EventFailed); e.Wait.Reason != quorum.WaitHeld {
		t.Errorf("%+v", e)
	}
	for range 3 { // whichever voters answer first
		nonce := m.nodes["d"].Query(m.now, "k")
		m.pass(20 * time.Millisecond)
		var shown *quorum.QueryResult
		for _, e := range m.events["d"] {
			if e.Kind == quorum.EventQueryDone && e.Nonce == nonce {
				shown = e.Result
			}
		}
		if shown == nil || len(shown.Views) != 1 || shown.Views[0].Owner.Node != "b" || shown.Views[0].Token > vote.MaxFrom(vote.TokenAt(m.now.Wall)) {
			t.Fatalf("shown: %+v", shown)
		}
	}
	news := 0
	for _, e := range m.events["d"] {
		for _, s := range e.Views {
			if news++; s.Token > vote.MaxFrom(vote.TokenAt(m.now.Wall)) {
				t.Errorf("told of %+v", s)
			}
		}
	}
	if news == 0 {
		t.Error("no news")
	}
	m.release("b", h)
	m.pass(100 * time.Millisecond)
	m.turns(t, "k", 0, "a", "b", "d")
}

// The wrong tokens of a broken voter don't become the minimum token of a changed electorate.
func TestAWrongTokenIsNoFloorOfAnElectorate(t *testing.T) {
	sampled.Computes(t)
	for what, twist := range map[string]func(m *vote.Message){
		"told": func(m *vote.Message) {
			if m.Kind == vote.KindReport {
				m.Token = wrong
			}
		},
		"proposed": func(m *vote.Message) {
			if m.Kind == vote.KindAccept {
				e := *m.Consensus
				e.Electorate.MinToken = wrong
				m.Consensus = &e
			}
		},
		"accepted": func(m *vote.Message) {
			if m.Kind == vote.KindPrepared && m.Consensus.Accepted.Counter > 0 {
				e := *m.Consensus
				e.Electorate.MinToken = wrong
				m.Consensus = &e
			}
		},
		"decided": func(m *vote.Message) {
			if m.Kind == vote.KindElectorate {
				e := *m.Consensus
				e.Electorate.MinToken = wrong
				m.Consensus = &e
			}
		},
	} {
		for _, bad := range []vote.NodeID{"a", "c"} {
			t.Run(fmt.Sprint(what, " by ", bad), func(t *testing.T) {
				f := newDynamicMesh(t, "a b c")
				f.up("a b c", true)
				f.wait(3 * ttl)
				f.goBy("a b c", "1: a b c")
				f.twist = func(from, _ vote.NodeID, m *vote.Message) {
					if from == bad {
						twist(m)
					}
				}
				f.up("d e", false)
				f.wait(20 * ttl)
				f.goBy("b d e", "3: a b c d e")
				f.voters = []vote.NodeID{"b", "d", "e"}
				f.checkTokens(t)
				for _, name := range f.voters {
					if e := f.nodes[name].Known(); what != "decided" && e.MinToken > vote.MaxMinToken {
						t.Errorf("%s uses the minimum token %d", name, e.MinToken)
					}
				}
				last := vote.Token(0)
				for _, name := range []vote.NodeID{"b", "d", "e"} {
					n := f.lock(name, "k", false)
					f.wait(200 * time.Millisecond)
					e := f.want(name, n, quorum.EventGranted)
					if e.Token <= last || e.Token > vote.MaxFrom(vote.TokenAt(f.now.Wall)) {
						t.Errorf("token %d after %d", e.Token, last)
					}
					last = e.Token
					f.release(name, n)
					f.wait(100 * time.Millisecond)
				}
			})
		}
	}
}
