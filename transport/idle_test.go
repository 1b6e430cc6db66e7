package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// A process that dials again and again keeps a few idle links, and the links in use.
func TestAProcessKeepsAFewLinks(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			b := open(t, config("b", m.secret))
			a, other := open(t, config("a", m.secret)), open(t, config("other", m.secret))
			if _, err := other.Dial(t.Context(), b.at, "b"); err != nil {
				t.Fatal(err)
			}
			get(t, b.linked, "the link of another process")
			used, err := a.Dial(t.Context(), b.at, "b")
			if err != nil {
				t.Fatal(err)
			}
			first := get(t, b.linked, "the first link")
			const more = 50
			for range more {
				a.Send(used, &vote.Message{Kind: vote.KindProbe})
				get(t, b.received, "a message on the link that is used")
				if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
					t.Fatal(err)
				}
				get(t, b.linked, "another link")
			}
			for range more + 1 - linksOfOne {
				if end := get(t, b.closed, "the end of one too many"); !errors.Is(end.err, errReplaced) || end.conn == first.conn {
					t.Fatalf("ended %+v", end)
				}
			}
			testwait.Until(t, "the others are left", func() bool { return b.Stats().Links == linksOfOne+1 })
		})
	}
}

func TestALinkThatNothingComesOnEnds(t *testing.T) {
	hasty := thisBuild
	hasty.idleTime = 20 * time.Millisecond
	cfg, cfgB := config("a", secretA), config("b", secretA)
	cfg.Terms.MaxTTL, cfgB.Terms.MaxTTL = time.Millisecond, time.Millisecond
	b, a := openBuild(t, cfgB, hasty), openBuild(t, cfg, hasty)
	if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
		t.Fatal(err)
	}
	if end := get(t, b.closed, "the end"); !errors.Is(end.err, errIdle) {
		t.Errorf("told %v", end.err)
	}
	if end := get(t, a.closed, "the end where it was dialed"); errors.Is(end.err, errIdle) {
		t.Error("the dialer ends a link that the voter says nothing on")
	}
}

// Where the voters decide the MaxTTL, that of a peer may be longer than that of this node, and so
// the pauses between the messages of the peer.
func TestALinkOfAPeerWithALongerMaxTTLMayBeSilentForLonger(t *testing.T) {
	hasty := thisBuild
	hasty.idleTime = 20 * time.Millisecond
	dynamic := func(name string, ttl time.Duration) Config {
		cfg := config(name, nil)
		cfg.Terms.Dynamic, cfg.Terms.MaxTTL = true, ttl
		return cfg
	}
	b := openBuild(t, dynamic("b", time.Millisecond), hasty)
	a := open(t, dynamic("a", time.Hour))
	if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
		t.Fatal(err)
	}
	ofA := get(t, b.linked, "the link of a")
	for range 2 { // the links were dialed later, and end as idle
		c := open(t, dynamic("c", time.Millisecond))
		if _, err := c.Dial(t.Context(), b.at, "b"); err != nil {
			t.Fatal(err)
		}
		if end := get(t, b.closed, "the end of an idle link"); !errors.Is(end.err, errIdle) || end.conn == ofA.conn {
			t.Fatalf("ended %+v; the link of a is %v", end, ofA.conn)
		}
	}
}

// The bytes waiting on all links together are bounded, though no single link has too many; the link
// with the most is broken, and the other links go on.
func TestAllLinksTogetherQueueSoMuch(t *testing.T) {
	small := thisBuild
	small.maxQueued = 24 << 20
	b := openBuild(t, config("b", nil), small)
	a := open(t, config("a", nil))
	if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
		t.Fatal(err)
	}
	honest := get(t, b.linked, "the honest link")
	_, greedy := impostor(t, nil, b)
	_, less := impostor2(t, b)
	for range 100 {
		b.Send(less.conn, bulky(1))
	}
	n := 0
	for ; b.Stats().QueueFull == 0; n++ {
		if n > maxOrdered/1000 {
			t.Fatal("there is no bound")
		}
		b.Send(greedy.conn, bulky(1))
		if all := b.queued.Load(); all > small.maxQueued+maxFrame {
			t.Fatalf("%d bytes wait, %d may", all, small.maxQueued)
		}
	}
	if end := get(t, b.closed, "the end"); end.conn != greedy.conn || !errors.Is(end.err, ErrQueueFull) {
		t.Fatalf("ended %+v; the greedy one is %d", end, greedy.conn)
	}
	b.Send(honest.conn, &vote.Message{Kind: vote.KindProbe})
	if got := get(t, a.received, "what the honest one is sent"); got.m.Kind != vote.KindProbe {
		t.Errorf("got %+v", got.m)
	}
	_ = b.Close()
	if left := b.queued.Load(); left != 0 {
		t.Errorf("%d bytes are counted after the end of all links", left)
	}
}

// impostor2 is another impostor.
func impostor2(t *testing.T, to *side) (*session, linked) {
	t.Helper()
	y := open(t, config("y", nil))
	s, err := y.approach(t.Context(), to.at, to.own.self.Node, roleStream)
	if err != nil {
		t.Fatal(err)
	}
	return s, get(t, to.linked, "the link")
}
