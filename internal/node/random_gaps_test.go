package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// part ends connections for good.
func (w *wild) part(which func(link) bool) {
	for _, c := range w.open() {
		l := w.conns[c]
		if !which(l) {
			continue
		}
		delete(w.conns, c)
		w.under = slices.DeleteFunc(w.under, func(q *lane) bool { return q.conn == c })
		for _, end := range []vote.NodeID{l.from, l.to} {
			if n := w.nodes[end]; n != nil {
				n.Unlink(w.now, c)
				w.collect(end)
			}
		}
	}
}

// dies ends a node for good.
func (w *wild) dies(name vote.NodeID) {
	w.names = slices.DeleteFunc(w.names, func(n vote.NodeID) bool { return n == name })
	w.forget(name)
	delete(w.nodes, name)
	w.part(func(l link) bool { return l.from == name || l.to == name })
}

// standing returns the standing leases of a key and the requests waiting for the key.
func (w *wild) standing(k vote.Key) (leases []*held, waits []requestID) {
	for _, h := range w.leases {
		if h.Key == k {
			leases = append(leases, h)
		}
	}
	for id, ask := range w.specs {
		if ask.Key == k && w.served[id].Kind == quorum.EventNone {
			waits = append(waits, id)
		}
	}
	return leases, waits
}

// unserved describes a key with waiting requests that no lease blocks.
func (w *wild) unserved(k vote.Key) string {
	leases, waits := w.standing(k)
	if len(waits) == 0 {
		return ""
	}
	free := len(leases) == 0
	for _, id := range waits {
		ask := w.specs[id]
		free = free || ask.Beside != 0 && len(leases) == 1 && leases[0].requestID == requestID{id.node, ask.Beside}
	}
	for _, m := range []vote.Mode{vote.Shared, vote.Permit} {
		other := slices.ContainsFunc(leases, func(h *held) bool { return h.Mode != m }) ||
			slices.ContainsFunc(waits, func(id requestID) bool { return w.specs[id].Mode != m })
		free = free || !other && (m == vote.Shared || len(leases) < int(w.specs[waits[0]].Permits))
	}
	if !free {
		return ""
	}
	return fmt.Sprintf("%v wait for %q, which %d have", waits, k, len(leases))
}

// eroded describes a lease without the vote of a voter reached by the lease's node.
func (w *wild) eroded() string {
	for _, h := range w.leases {
		if w.specs[h.requestID].Fixed {
			continue
		}
		names := w.voters
		if w.how == dynamic {
			names = nil
			for _, e := range w.nodes[h.node].Known().All() {
				names = append(names, e.Name)
			}
		}
		for _, name := range names {
			reached := h.node == name
			for _, l := range w.conns {
				reached = reached || l == link{h.node, name} && !w.mute(name, l)
			}
			if !reached || w.nodes[name].Quiet() > 0 {
				continue
			}
			alias := w.nodes[h.node].Alias(h.number)
			if votes := w.nodes[name].Voter().Votes(h.Key); !slices.ContainsFunc(votes, func(o lease.Vote) bool {
				return o.Owner.Node == h.node && o.Number == alias && o.Slot == h.slot && !o.Residual
			}) {
				return fmt.Sprintf("%v of %q, slot %d, hasn't the vote of %s: %+v", h.requestID, h.Key, h.slot, name, votes)
			}
		}
	}
	return ""
}

// gaps are faults that stay for good. Every node reaches a majority of the voters nevertheless.
var gaps = map[string]struct {
	how    manner
	voters int
	begin  func(w *wild, lacks map[vote.NodeID]vote.NodeID)
}{
	"links":  {breaks, 3, lackLinks},
	"links5": {breaks, 5, lackLinks},
	"dead":   {breaks, 3, func(w *wild, _ map[vote.NodeID]vote.NodeID) { w.dies(w.voters[w.rng.IntN(3)]) }},
	"both": {breaks, 5, func(w *wild, lacks map[vote.NodeID]vote.NodeID) {
		w.dies("b")
		lackLinks(w, lacks)
	}},
	// The voter receives, and can't send.
	"one way": {breaks, 3, func(w *wild, lacks map[vote.NodeID]vote.NodeID) {
		w.mute = func(from vote.NodeID, l link) bool { return from == l.to && lacks[l.from] == from }
	}},
	"other way": {breaks, 3, func(w *wild, lacks map[vote.NodeID]vote.NodeID) {
		w.mute = func(from vote.NodeID, l link) bool { return from == l.from && lacks[from] == l.to }
	}},
	"links and restarts": {restarts, 3, lackLinks},
	"changes":            {dynamic, 3, func(*wild, map[vote.NodeID]vote.NodeID) {}},
}

func lackLinks(w *wild, lacks map[vote.NodeID]vote.NodeID) {
	w.part(func(l link) bool { return lacks[l.from] == l.to })
}

// Each node may lack another voter for good. Whatever came before, a free key is granted, and a
// lease has the votes of all voters reached by its node.
func TestWhatIsFreeIsGrantedThoughEachNodeLacksAVoter(t *testing.T) {
	sampled.Computes(t)
	for name, gap := range gaps {
		for seed := range uint64(max(*wildSeeds/3, 1)) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				how := gap.how
				if how == breaks {
					how = restarts // sessions are short then
				}
				w := newWild(t, how, seed, gap.voters, gap.voters+2)
				w.how, w.keep = gap.how, true
				lacks := map[vote.NodeID]vote.NodeID{}
				for _, n := range w.names {
					for lacks[n] == "" || lacks[n] == n {
						lacks[n] = w.voters[w.rng.IntN(len(w.voters))]
					}
				}
				permits := uint16(2 + seed%3)
				for round := range 8 {
					w.monkey(40, func(n vote.NodeID) (quorum.RequestOptions, bool) {
						ask, ok := w.anything(n)
						if ask.Mode == vote.Permit {
							// With a wrong number of permits, two requests may wait for a third to
							// decide the number.
							ask.Permits = permits
						}
						return ask, ok
					})
					if round == 1 {
						gap.begin(w, lacks)
					}
					w.pass(500 * time.Millisecond)
					w.idle(6 * time.Second)
					for _, k := range wildKeys {
						if text := w.unserved(k); text != "" {
							t.Fatalf("round %d: %s", round, text)
						}
						if leases, waits := w.standing(k); len(leases)+len(waits) == 0 {
							w.use(k)
						}
					}
					if text := w.eroded(); text != "" {
						t.Fatalf("round %d: %s", round, text)
					}
				}
			})
		}
	}
}

// use locks and unlocks a free key.
func (w *wild) use(k vote.Key) {
	w.t.Helper()
	for _, try := range []bool{true, false} {
		name := w.names[w.rng.IntN(len(w.names))]
		id := requestID{name, w.lock(name, quorum.Exclusive(k, try))}
		w.idle(time.Second)
		if e := w.served[id]; e.Kind != quorum.EventGranted {
			w.t.Fatalf("%q is free, and %v doesn't get it: %+v", k, id, e)
		}
		w.release(id)
		w.idle(time.Second)
		if e := w.served[id]; e.Kind != quorum.EventReleased || e.Wait.Reason != quorum.WaitNone {
			w.t.Fatalf("%q was given back: %+v", k, e)
		}
	}
}
