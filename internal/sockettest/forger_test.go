package sockettest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/realworld"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// absurd is a token far above every clock and unknown to every voter.
const absurd = vote.MaxToken/2 - 5

// forger is the network of a broken node that puts an absurd token into every message with a token.
type forger struct{ *transport.Port }

// Queue sends the message with forged tokens.
func (f forger) Queue(c vote.Conn, m *vote.Message) {
	forged := *m
	switch m.Kind {
	case vote.KindConfirm, vote.KindPromise, vote.KindConfirmed, vote.KindHeld:
		forged.Token = absurd
	case vote.KindTokenAnswer:
		forged.Token, forged.Counting = absurd, true
	case vote.KindRequest, vote.KindRelease:
		forged.TokenHint = absurd
	case vote.KindAnswer, vote.KindSync:
		forged.Entries = slices.Clone(m.Entries)
		for i := range forged.Entries {
			forged.Entries[i].Token = absurd
		}
	case vote.KindQueryResult, vote.KindEvents:
		forged.Views = slices.Clone(m.Views)
		for i := range forged.Views {
			forged.Views[i].Token = absurd
		}
	}
	f.Port.Queue(c, &forged)
}

// forging is the real world with such a network.
func forging() world.World {
	w := realworld.World
	w.Listen = func(ctx context.Context, c transport.Config) (world.Links, error) {
		port, err := transport.Listen(ctx, c)
		if err != nil {
			return nil, err
		}
		return forger{port}, nil
	}
	w.Gossip = func(l world.Links, c member.Config) (member.Group, error) {
		return realworld.World.Gossip(l.(forger).Port, c)
	}
	return w
}

// TestOneVoterThatNamesAbsurdTokensStopsNoOther has one of three voters send a token near half of
// the largest possible token in all its messages, over real sockets. The locks of all other nodes
// go on with sane, rising tokens, and an operator learns which node is broken.
func TestOneVoterThatNamesAbsurdTokensStopsNoOther(t *testing.T) {
	sampled.OnlyRaced(t)
	sampled.Waits(t)
	t.Parallel()
	r := &onLoopback{t: t, secret: ownSecret(), ttl: calmTTL, voters: []string{"a", "b", "c"}}
	log := &logs{}
	logged := func(c *lockmesh.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }
	a, b := r.join("a", logged), r.join("b", logged)
	join := world.Join.(func(context.Context, lockmesh.Config, world.World) (*lockmesh.Mesh, error))
	c, err := join(t.Context(), r.config("c"), forging())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	d := r.join("d", logged)
	for _, m := range []*lockmesh.Mesh{a, b, c, d} {
		r.ready(m)
	}
	// The broken node requests locks like any other; the test ignores the outcome of its requests.
	for i := range 3 {
		broken := make(chan struct{})
		key := fmt.Sprint("k", i)
		go func() {
			defer close(broken)
			if l, err := c.Lock(testwait.Within(t, time.Second), key); err == nil {
				_ = l.Unlock(testwait.Within(t, time.Second)) // the node is broken
			}
		}()
		<-broken
	}
	last := make(map[string]uint64)
	use := func(nodes ...*lockmesh.Mesh) {
		t.Helper()
		for i := range 3 {
			key := fmt.Sprint("k", i)
			for _, m := range nodes {
				l := r.lock(m, key)
				top := vote.MaxFrom(vote.TokenAt(vote.Micros(time.Now().UnixMicro())))
				if l.Token() <= last[key] || vote.Token(l.Token()) > top {
					t.Fatalf("%s has %q with the token %d after %d; a day from now it is %d", m.Name(), key, l.Token(), last[key], top)
				}
				last[key] = l.Token()
				check(t, l.Unlock(testwait.Within(t, patience)))
			}
		}
	}
	use(a, b, d)
	told := func() bool { return log.count("level=ERROR", `\"c\"`, fmt.Sprint(uint64(absurd))) > 0 }
	testwait.Until(t, "an alarm that names the node and the token", told)
	use(d, b, a)
}
