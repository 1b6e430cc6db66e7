package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

func (m *mesh) ask(name vote.NodeID, ask quorum.RequestOptions) vote.Number {
	n, err := m.nodes[name].Lock(m.at(name), ask)
	if err != nil {
		m.t.Fatal(err)
	}
	m.run()
	return n
}

func shared(key vote.Key) quorum.RequestOptions {
	return quorum.RequestOptions{Spec: vote.Spec{Key: key, Mode: vote.Shared}}
}

func TestReadersShareAndTheWriterIsServedInOrder(t *testing.T) {
	m := awake(t, 3)
	a, b := m.ask("a", shared("k")), m.ask("b", shared("k"))
	first := m.want("a", a, quorum.EventGranted)
	second := m.want("b", b, quorum.EventGranted)
	c := m.lock("c", "k", false)
	m.pass(10 * time.Millisecond)
	late := m.ask("a", shared("k"))
	m.want("c", c, quorum.EventNone)
	m.want("a", late, quorum.EventNone) // a later reader doesn't pass the writer
	m.release("a", a)
	m.want("c", c, quorum.EventNone)
	m.release("b", b)
	third := m.want("c", c, quorum.EventGranted)
	m.want("a", late, quorum.EventNone)
	m.release("c", c)
	fourth := m.want("a", late, quorum.EventGranted)
	if !(max(first.Token, second.Token)+vote.BlockSize <= third.Token && third.Token+vote.BlockSize <= fourth.Token) || first.Token == second.Token {
		t.Fatalf("tokens %d and %d, %d, %d", first.Token, second.Token, third.Token, fourth.Token)
	}
}

func TestAnUpgradeWaitsForTheOtherReadersOnly(t *testing.T) {
	m := awake(t, 3)
	a, b := m.ask("a", shared("k")), m.ask("b", shared("k"))
	c := m.lock("c", "k", false) // c waits, and an upgrade goes before c
	up := m.ask("a", quorum.RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Beside: a}})
	clash := m.ask("b", quorum.RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Beside: b}})
	if e := m.want("b", clash, quorum.EventFailed); e.Wait.Reason != quorum.WaitClash {
		t.Fatalf("%+v", e)
	}
	m.want("a", up, quorum.EventNone)
	m.release("b", b)
	m.want("a", up, quorum.EventGranted)
	m.release("a", a)
	m.want("c", c, quorum.EventNone)
	// Back to a reader: other readers come in, the writer doesn't.
	if !m.nodes["a"].Downgrade(m.now, up) {
		t.Fatal("it isn't shared")
	}
	m.run()
	m.want("c", c, quorum.EventNone)
	m.release("a", up)
	m.want("c", c, quorum.EventGranted)
}

func TestADowngradeLetsReadersIn(t *testing.T) {
	m := awake(t, 3)
	a := m.lock("a", "k", false)
	b := m.ask("b", shared("k"))
	m.want("b", b, quorum.EventNone)
	m.nodes["a"].Downgrade(m.now, a)
	m.run()
	m.want("b", b, quorum.EventGranted)
	c := m.lock("c", "k", true)
	if e := m.want("c", c, quorum.EventFailed); e.Wait.Reason != quorum.WaitHeld {
		t.Fatalf("%+v", e)
	}
}

func TestAKeyRestsAfterItsHolderDied(t *testing.T) {
	m := awake(t, 3)
	a := m.ask("a", quorum.RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Delay: ttl / 2}})
	m.want("a", a, quorum.EventGranted)
	b := m.lock("b", "k", false)
	m.stop("a")
	m.pass(ttl)
	m.want("b", b, quorum.EventNone)
	m.pass(ttl/2 - 50*time.Millisecond)
	m.want("b", b, quorum.EventNone)
	m.pass(100 * time.Millisecond)
	m.want("b", b, quorum.EventGranted)
}

func TestALeaseOfItsOwnLengthOutlivesARollingRestartAndEndsByItself(t *testing.T) {
	m := awake(t, 3)
	a := m.ask("a", quorum.RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: ttl}})
	f := m.ask("a", quorum.RequestOptions{Spec: vote.Spec{Key: "fixed", Mode: vote.Exclusive, Length: ttl / 2}, Fixed: true})
	m.want("a", f, quorum.EventGranted)
	b := m.lock("b", "fixed", false)
	m.pass(ttl/2 - 40*time.Millisecond)
	m.want("a", f, quorum.EventGranted)
	m.pass(60 * time.Millisecond)
	m.want("a", f, quorum.EventLost)
	m.want("b", b, quorum.EventGranted)
	for _, name := range []vote.NodeID{"b", "c"} {
		m.start(name)
		m.pass(2*ttl + vote.TokenQueryTimeout)
	}
	m.want("a", a, quorum.EventGranted)
}

// Permits of a semaphore are requested with messages in any order: there are never more holders
// than permits, and every request is served. The harness checks every grant against the standing
// leases.
func TestASemaphoreInAnyOrder(t *testing.T) {
	sampled.Computes(t)
	for permits := uint16(1); permits <= 3; permits++ {
		for seed := range uint64(16) {
			t.Run(fmt.Sprintf("%d/seed=%d", permits, seed), func(t *testing.T) {
				w := newWild(t, calm, seed, 3, 5)
				var asked []requestID
				for round := range 4 {
					for _, name := range w.names {
						ask := quorum.RequestOptions{Spec: vote.Spec{Key: "p", Mode: vote.Permit, Permits: permits}}
						asked = append(asked, requestID{name, w.lock(name, ask)})
						for range w.rng.IntN(20) {
							w.deliver()
						}
						if round%2 == 1 {
							w.pass(time.Duration(w.rng.IntN(50)) * time.Millisecond)
						}
					}
				}
				most := 0
				for left := 100; ; left-- {
					open := 0
					for _, id := range asked {
						if w.served[id].Kind != quorum.EventReleased {
							open++
						}
					}
					if open == 0 {
						break
					}
					if left == 0 {
						t.Fatalf("%d of %d aren't served: %+v", open, len(asked), w.leases)
					}
					most = max(most, len(w.leases))
					for _, h := range append([]*held(nil), w.leases...) {
						if w.rng.IntN(2) == 0 {
							w.release(h.requestID)
						}
					}
					w.pass(time.Duration(w.rng.IntN(200)) * time.Millisecond)
				}
				if most != int(permits) {
					t.Errorf("%d of %d permits were ever held at once", most, permits)
				}
				w.pass(time.Second)
				w.idle(4 * time.Second)
				w.quiescent()
			})
		}
	}
}

// Readers that come at the same time are promised the key by different voters in different orders,
// so their tallies settle on tokens close together. Each reader has a token block of its own
// nevertheless: the harness checks every grant against all before.
func TestReadersAtOnceHaveTokensOfTheirOwn(t *testing.T) {
	confirmed := 0
	for seed := range uint64(24) {
		w := newWild(t, calm, seed, 3, 5)
		var asked []requestID
		for range 4 {
			for _, name := range w.names {
				asked = append(asked, requestID{name, w.lock(name, shared("s"))})
			}
			for range w.rng.IntN(30) {
				w.deliver()
			}
		}
		w.pass(time.Second)
		for _, id := range asked {
			if w.served[id].Kind != quorum.EventGranted {
				t.Errorf("seed %d: %v isn't granted: %+v", seed, id, w.served[id])
			}
			w.release(id)
		}
		confirmed += w.kinds[vote.KindConfirmed]
		w.pass(time.Second)
		w.idle(4 * time.Second)
		w.quiescent()
	}
	if confirmed == 0 {
		t.Error("no voter was ever asked to confirm a token")
	}
}
