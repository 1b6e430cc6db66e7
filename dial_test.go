package lockmesh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A missing voter is dialed once a second; when gossip reports the voter's return, at once.
func TestAVoterThatIsBackIsDialedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.join("b", []string{"a", "b", "c"}, nil)
		time.Sleep(time.Millisecond)
		if v := a.Status().Electorate.Voters[1]; v.State != VoterQuiet {
			t.Errorf("%+v", v)
		}
	})
}

// Without gossip the prober finds the voters, and a voter that comes back at another address.
func TestProbesFindVotersWhereGossipIsDeaf(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.SilenceGossip()
		const elsewhere = "10.0.0.99:7950"
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(c *Config) { c.Peers = append(c.Peers, elsewhere) })
		b := w.join("b", voters, nil)
		w.join("c", voters, nil)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.join("b", voters, func(c *Config) { c.Bind = elsewhere })
		time.Sleep(6 * time.Second)
		if v := a.Status().Electorate.Voters[1]; v.State != VoterQuiet {
			t.Errorf("%+v", v)
		}
	})
}

// A dialer must not spin on a voter that accepts links and drops them.
func TestALinkThatEndsAtOnceIsNotDialedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.three()
		before := w.Connections()
		for range 1000 { // 10 s of cutting a's links as soon as they are there
			w.HangUp("a")
			time.Sleep(10 * time.Millisecond)
		}
		// Four connections are dialed again and again, half of the dials by a, half by the others.
		if n := w.Connections() - before; n > 4*40 || n < 4*8 {
			t.Errorf("%d dials in 10 s", n)
		}
	})
}

// A node with another configuration may be at a configured address, and have a voter's name. The
// voter must be found nevertheless, at its own address.
func TestAStrangerCalledLikeAVoterDoesNotHideIt(t *testing.T) {
	// The node is probed before b at the first address, after b at the second.
	for _, elsewhere := range []string{"10.0.0.1:1", "10.0.0.99:7950"} {
		inBubble(t, func(t *testing.T, w *wire) {
			w.SilenceGossip()
			voters := []string{"a", "b", "c"}
			w.join("b", voters, func(c *Config) { c.Bind, c.Peers, c.MaxTTL = elsewhere, nil, time.Minute })
			w.join("b", voters, nil)
			a := w.join("a", voters, func(c *Config) { c.Peers = append(c.Peers, elsewhere) })
			time.Sleep(time.Minute)
			if v := a.Status().Electorate.Voters[1]; v.State != VoterReachable {
				t.Errorf("with another b at %s: %+v", elsewhere, v)
			}
		})
	}
}

// No node has one of the names in Voters. After half a minute the status, the errors and the log
// report the missing node.
func TestAVoterThatNoNodeIsCalled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var log bytes.Buffer
		voters := []string{"a", "b", "e"}
		a := w.join("a", voters, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		w.join("b", voters, nil)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := func() string { return a.Status().Electorate.Voters[2].Text }
		if got := text(); !contains(got, "gossip has not seen the node") {
			t.Errorf("at first: %q", got)
		}
		const missing = "no node of this name has been seen for 30s: is it started, and does its configuration have the same Name?"
		time.Sleep(2 * 30 * time.Second)
		if got := text(); !contains(got, missing) {
			t.Errorf("after a minute: %q", got)
		}
		w.stall("b", true)
		time.Sleep(time.Minute)
		_, err := a.TryLock(t.Context(), "k")
		wantIs(t, err, ErrNoQuorum)
		if !contains(err.Error(), missing) {
			t.Error(err)
		}
		w.stall("b", false)
		w.join("e", voters, nil)
		for a.Status().Electorate.Voters[2].State != VoterReachable {
			time.Sleep(time.Second)
		}
		if err := a.Close(); err != nil { // writes the log to its end
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), missing); n != 1 {
			t.Errorf("the log says it %d times", n)
		}
	})
}

// A failing Discover doesn't hide the report of a voter's name without a node.
func TestAVoterThatNoNodeIsCalledBesideAStalePeer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "e"}
		a := w.join("a", voters, func(cfg *Config) {
			cfg.Discover = func(context.Context) ([]string, error) { return nil, errors.New("no such host") }
		})
		w.join("b", voters, nil)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got := a.Status().Electorate.Voters[2].Text
		for _, part := range []string{"no node of this name has been seen for 30s", "no such host"} {
			if !contains(got, part) {
				t.Errorf("%q isn't in %q", part, got)
			}
		}
	})
}
