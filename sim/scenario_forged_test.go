package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Row 70 of the list of faults: a node names tokens near the end of their range.

// absurd is a token shown by no clock and known to no voter.
const absurd = vote.MaxToken/2 - 5

// forgeries are the ways in which a node can name a token. Each function changes the node's
// messages.
var forgeries = map[string]func(m *vote.Message){
	"confirms": func(m *vote.Message) {
		if m.Kind == vote.KindConfirm {
			m.Token = absurd
		}
	},
	"proposes": func(m *vote.Message) {
		if m.Kind == vote.KindPromise || m.Kind == vote.KindConfirmed {
			m.Token = absurd
		}
	},
	"token bounds": func(m *vote.Message) {
		if m.Kind == vote.KindRequest || m.Kind == vote.KindRelease {
			m.TokenHint = absurd
		}
	},
	"tells": func(m *vote.Message) {
		if m.Kind == vote.KindTokenAnswer {
			m.Token, m.Counting = absurd, true
		}
	},
	"states": func(m *vote.Message) {
		if m.Kind == vote.KindSync || m.Kind == vote.KindAnswer {
			m.Entries = slices.Clone(m.Entries)
			for i := range m.Entries {
				m.Entries[i].Token = absurd
			}
		}
	},
}

// forgedMutants break the rule that a token from a peer is accepted only up to a step above the
// known tokens.
var forgedMutants = []mutant{{
	name: "tokens of peers taken unchecked", build: takesAll, scenario: oneConfirmsAbsurdTokens,
	options: Options{Clients: 2}, unseen: "tokens rise still, and none is left in the end",
}}

// takesAll is a node with a voter that accepts every token confirmed by a peer, up to the year
// 3111.
func takesAll(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return believer{n}, err
}

// believer takes a confirmed token for the time on another voter's clock.
type believer struct{ Machine }

func (b believer) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindConfirm && m.Token > b.Voter().Limit() {
		b.Voter().NoteVoterClocks(vote.Micros(m.Token)) // some clock shows as much
		cut := *m
		cut.Token = min(m.Token, b.Voter().Limit())
		m = &cut
	}
	b.Machine.Deliver(now, conn, from, m)
}

// oneConfirmsAbsurdTokens has x2 confirm absurd tokens; then x1 and the voters use the key.
func oneConfirmsAbsurdTokens(w *World) {
	w.judge.deaf = withAlarms(w.judge.deaf)
	w.Script.Forge("x2", forgeries["confirms"])
	x2 := w.Script.Lock("x2", "k")
	w.Run(sceneTTL)
	w.Script.Release(x2)
	w.Run(2 * sceneTTL)
	for _, name := range []string{"a", "x1", "b"} {
		r := w.Script.Lock(name, "k")
		w.expect(r, Granted, sceneTTL)
		w.Script.Release(r)
		w.Run(100 * time.Millisecond)
	}
}

// withAlarms also disables the check of alarms, since a broken node rightly raises alarms.
func withAlarms(deaf map[string]bool) map[string]bool {
	all := map[string]bool{checkAlarm: true}
	for check := range deaf {
		all[check] = true
	}
	return all
}

// TestFault70OneNodeThatNamesAbsurdTokensStopsNoOther has a voter, or a node that only locks, name
// absurd tokens in each way, in several worlds. The locks of all other nodes go on with tokens near
// the clocks (the check *token bounds*), also after a restart of another voter. For absurd
// confirmations an alarm names the broken node.
func TestFault70OneNodeThatNamesAbsurdTokensStopsNoOther(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for what, change := range forgeries {
		for _, broken := range []string{"c", "x2"} {
			t.Run(broken+" "+what, func(t *testing.T) {
				for seed := uint64(1); seed <= 3; seed++ {
					s := awake(t, Options{Seed: seed, Clients: 3})
					s.judge.deaf = withAlarms(nil)
					s.Forge(broken, change)
					own := s.Lock(broken, "its own")
					for turn := range 4 {
						key := []string{"k", "other"}[turn%2]
						bad := s.Lock(broken, key)
						s.Run(200 * time.Millisecond)
						s.Break(broken, "a") // a sync follows
						s.Run(200 * time.Millisecond)
						s.Release(bad)
						s.Run(2 * sceneTTL)
						for _, name := range []string{"x1", "a", "x3", "b"} {
							r := s.Lock(name, key)
							s.becomes(r, Granted, sceneTTL)
							s.Release(r)
							s.Run(50 * time.Millisecond)
						}
						if turn == 1 {
							s.Restart("b")
							s.Run(sceneTTL + 2*vote.TokenQueryTimeout)
						}
					}
					s.Release(own)
					for _, v := range []string{"a", "b"} {
						if top, _ := s.faults.find(v).p.m.Voter().Top(); top > vote.MaxFrom(vote.TokenAt(s.faults.find(v).clock.at(s.now).Wall)) {
							t.Errorf("%s knows of the token %d", v, top)
						}
					}
					if refused := s.alarmsOf(broken); what == "confirms" && refused == 0 {
						t.Errorf("no alarm has named %s", broken)
					}
					s.Forge(broken, nil)
					s.Restart(broken)
					s.Run(sceneTTL + 2*vote.TokenQueryTimeout)
					s.serves(broken)
				}
			})
		}
	}
}

// alarmsOf counts the alarms of the trace that name a node and the absurd token.
func (s *scene) alarmsOf(node string) int {
	n := 0
	for line := range strings.Lines(s.trace.String()) {
		if strings.Contains(line, "alarm: ") && strings.Contains(line, `"`+node+`"`) && strings.Contains(line, "named the token") {
			n++
		}
	}
	return n
}
