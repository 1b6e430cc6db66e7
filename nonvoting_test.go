package lockmesh

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

func nonVoting(c *Config) { c.NonVoting = true }

func TestANonVotingNodeLocksAndIsNeverVotedIn(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nonVoting)
		w.ready("d")
		w.unlock(w.lock("d", "k"))
		time.Sleep(5 * time.Minute)
		if s := w.nodes["a"].Status().Electorate; len(s.Standby) != 0 || !slices.Equal(s.names(), []string{"a", "b", "c"}) {
			t.Errorf("%v, on standby %v", s, s.Standby)
		}
		// The node isn't voted in even to replace a crashed voter.
		w.crash("c")
		time.Sleep(5 * time.Minute)
		if s := w.nodes["a"].Status().Electorate; slices.Contains(s.names(), "d") || s.Joint {
			t.Errorf("%v", s)
		}
		w.unlock(w.lock("d", "k"))
		if s := w.nodes["d"].Status().Electorate; s.Voter {
			t.Errorf("%v", s)
		}
		w.start("e", nil)
		w.untilVoters("a", "a", "b", "e")
	})
}

func TestAVoterThatShallNotVoteAnyMoreIsVotedOut(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nil)
		w.start("e", nil)
		w.untilVoters("a", "a", "b", "c", "d", "e")
		w.crash("e")
		w.start("e", nonVoting)
		w.until("a", "e out", func(s ElectorateStatus) bool { return !s.Joint && !slices.Contains(s.names(), "e") })
		w.unlock(w.lock("e", "k"))
		time.Sleep(5 * time.Minute)
		if s := w.nodes["a"].Status().Electorate; slices.Contains(s.names(), "e") || slices.Contains(s.Standby, "e") {
			t.Errorf("%v, on standby %v", s, s.Standby)
		}
	})
}

// Many non-voting nodes don't crowd out a standby.
func TestNonVotingNodesLeaveRoomForOthers(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = []string{"v", "w", "x"}
		w.foundAll()
		for name := 'a'; name < 'u'; name++ {
			w.start(string(name), nonVoting)
		}
		w.start("y", nil)
		w.start("z", nil)
		w.untilVoters("v", "v", "w", "x", "y", "z")
	})
}

func TestANonVotingNodeThatMustVoteIsAnError(t *testing.T) {
	for _, dir := range []string{"", "dir"} {
		cfg := Config{Name: "a", Voters: []string{"a", "b", "c"}, Insecure: true, NonVoting: true, StateDir: dir}
		err := cfg.Validate()
		wantIs(t, err, ErrConfig)
		if err == nil || !strings.Contains(err.Error(), "NonVoting") {
			t.Errorf("%v", err)
		}
		cfg.Name = "x"
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestOneOfTwoVotersIsNonVoting: a voter that is restarted with NonVoting can't be voted out while
// it is one of two. Its log and the other node say so; another voting node takes its place.
func TestOneOfTwoVotersIsNonVoting(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = []string{"a"}
		w.foundAll()
		w.start("b", nil)
		w.start("c", nil)
		w.untilVoters("a", "a", "b", "c")
		time.Sleep(time.Minute)
		if err := w.nodes["c"].Leave(testwait.Within(t, 5*time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.untilVoters("a", "a", "b")
		w.crash("b")
		w.start("b", nonVoting)
		w.ready("b")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err := w.nodes["a"].Settled(ctx)
		if err == nil || !strings.Contains(err.Error(), "NonVoting") || !strings.Contains(err.Error(), "start another that votes") {
			t.Errorf("Settled of the other voter: %v", err)
		}
		if n := w.logs.count("level=WARN", "this node is NonVoting, and stays a voter", "on=b"); n != 1 {
			t.Errorf("%d lines of b", n)
		}
		w.start("d", nil)
		w.untilVoters("a", "a", "d")
		if err := w.nodes["a"].Settled(testwait.Within(t, 10*time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
