package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// soon is how much later than a TTL a key may be free: some trips, and timers that fire late.
const soon = sceneTTL / 50

// TestFault69AHolderIsCutOffInAnyDirection cuts a holder and its voters off from each other, in one
// direction or in both, at any moment between two refreshes. The next waiter has the key one TTL
// later. If fewer than a majority of the voters are cut off, the lease goes on.
func TestFault69AHolderIsCutOffInAnyDirection(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	voters := []string{"a", "b", "c", "d", "e"}
	for _, way := range []string{"isn't heard", "hears nothing", "neither hears nor is heard", "isn't heard or hears nothing"} {
		for _, n := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%s by %d", way, n), func(t *testing.T) {
				for phase := range int64(8) {
					s := awake(t, Options{Voters: 5, Clients: 2})
					x1 := s.holds("x1", "k")
					x2 := s.Lock("x2", "k")
					s.Run(sceneTTL + time.Duration(phase*int64(sceneTTL)/vote.RefreshesPerTTL/8))
					for i, v := range voters[:n] {
						mute, deaf := way != "hears nothing", way != "isn't heard"
						// The direction of the cut alternates between the voters.
						if way == "isn't heard or hears nothing" {
							mute, deaf = i%2 == 0, i%2 == 1
						}
						if mute {
							s.CutOneWay("x1", v)
						}
						if deaf {
							s.CutOneWay(v, "x1")
						}
					}
					cut := s.Now()
					if n <= 2 {
						s.Run(5 * sceneTTL)
						s.is(x1, Granted)
						s.verdict()
						continue
					}
					s.becomes(x2, Granted, 3*sceneTTL)
					s.is(x1, Lost)
					s.between(fmt.Sprintf("the way to the key, phase %d,", phase), x2.Had-cut, sceneTTL/2, sceneTTL+soon)
					s.verdict()
				}
			})
		}
	}
}

// deafNode receives no message from some voters, from a given moment on, though its own messages
// arrive and its connections stand.
type deafNode struct {
	Machine
	w     *World
	name  string
	deaf  *[]string
	since *time.Duration
}

func (d *deafNode) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if d.w.Now() >= *d.since && slices.Contains(*d.deaf, string(from.Node)) && !m.Kind.ToVoter() {
		return
	}
	d.Machine.Deliver(now, conn, from, m)
}

// deafens builds the nodes of a world in which x1 is deaf to some voters from a given moment on.
func deafens(deaf *[]string, since *time.Duration) Builder {
	return func(w *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		if cfg.Name != "x1" || err != nil {
			return n, err
		}
		return &deafNode{n, w, string(cfg.Name), deaf, since}, nil
	}
}

// TestFault69AProcessThatIsHeardAndHearsNothing has x1, the first requester, receive nothing from a
// majority of the voters or from all, from any moment of its request on. The other nodes are served
// nevertheless, one after the other. Once x1 pinned the key for sixty TTLs, by a new sync of its
// request in each TTL.
func TestFault69AProcessThatIsHeardAndHearsNothing(t *testing.T) {
	voters := []string{"a", "b", "c", "d", "e"}
	for _, n := range []int{3, 5} {
		for _, before := range []time.Duration{sceneTTL, 10 * time.Millisecond, 0, -2 * time.Millisecond, -300 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d voters, %v before it asks", n, before), func(t *testing.T) {
				deaf, since := voters[len(voters)-n:], time.Hour
				s := awake(t, Options{Voters: 5, Clients: 3, Build: deafens(&deaf, &since)})
				since = s.Now() + 2*sceneTTL - before
				s.Run(2 * sceneTTL)
				s.Lock("x1", "k")
				for turn := range 8 {
					s.Run(50 * time.Millisecond)
					r := s.Lock([]string{"x2", "x3"}[turn%2], "k")
					most := sceneTTL + soon
					if turn == 0 && before < 0 {
						most -= before // x1 is granted the key before the cut
					}
					if took := s.becomes(r, Granted, 70*sceneTTL); took > most {
						t.Errorf("in turn %d it takes %v", turn, took)
					}
					s.Run(50 * time.Millisecond)
					s.Release(r)
				}
				since = time.Hour // so that all requests are served in the end
			})
		}
	}
}

// TestFault69ALossyLinkLosesNoLease delays all messages from some voters to a holder, or from the
// holder to some voters, by about a third of a TTL, again and again and with changing voters.
// Answers are declared void and arrive nevertheless; the lease goes on.
func TestFault69ALossyLinkLosesNoLease(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := awake(t, Options{Clients: 2})
		x1 := s.holds("x1", "k")
		s.Lock("x2", "k")
		for turn := range 40 {
			var free []func()
			for i, v := range []string{"a", "b", "c"} {
				if turn>>i&1 == 0 || turn%3 == 0 {
					free = append(free, s.Stall("x1", v, back))
				}
			}
			s.Run(sceneTTL * time.Duration(20+turn%26) / 100)
			for _, f := range free {
				f()
			}
			s.Run(sceneTTL * time.Duration(1+turn%30) / 100)
		}
		s.is(x1, Granted)
		s.Release(x1)
		if v := s.faults.find("a").p.m.Voter().Counters().Voided; v == 0 {
			t.Errorf("no answer was declared void")
		}
	}
}

// TestFault69ALeaseOfASetLength cuts off a holder of a lease with a set length, in each direction.
// If no message of the holder arrives, the key is free after the length. If the holder can send and
// can't receive, the holder extends its votes for as long as it believes in its lease. The
// extensions add at most four fifths of the length, and never more than half a TTL.
func TestFault69ALeaseOfASetLength(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, length := range []time.Duration{sceneTTL / 4, sceneTTL / 2, sceneTTL} {
		for _, cut := range []struct {
			name     string
			to, from bool
			more     time.Duration
		}{
			{"it isn't heard", false, true, 0},
			{"it hears nothing", true, false, min(length*4/5, sceneTTL/2)},
			{"both", true, true, 0},
		} {
			t.Run(fmt.Sprint(length, ", ", cut.name), func(t *testing.T) {
				for turn := range 10 {
					s := awake(t, Options{Clients: 2, Seed: uint64(turn + 1)})
					// The check knows of sessions only.
					s.judge.deaf = map[string]bool{check.RuleIdle: true}
					r := s.Ask(Ask{Node: "x1", Key: "k", Length: length})
					s.becomes(r, Granted, sceneTTL)
					x2 := s.Lock("x2", "k")
					s.Run(sceneTTL + time.Duration(turn)*length/17)
					for _, v := range []string{"a", "b", "c"} {
						if cut.to {
							s.CutOneWay(v, "x1")
						}
						if cut.from {
							s.CutOneWay("x1", v)
						}
					}
					most := length + cut.more + soon
					if took := s.becomes(x2, Granted, 70*sceneTTL); took > most {
						t.Errorf("cut %d: the key is free after %v, want %v at most", turn, took, most)
					}
					s.Release(x2)
				}
			})
		}
	}
}
