package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// addresses returns n addresses that begin with the name, in order.
func addresses(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", name, i)
	}
	return all
}

// rounds runs n rounds of probes, answered by the nodes at the live addresses, and returns how
// often each address was probed.
func rounds(s *excludedNodes, n int, live ...string) map[string]int {
	probes := map[string]int{}
	for range n {
		for _, addr := range s.next() {
			probes[addr]++
			s.probed(addr, slices.Contains(live, addr))
		}
	}
	return probes
}

// Two voters sort after 200 dead addresses, as left behind by a process that is restarted again and
// again on new addresses. The voters are probed in each round.
func TestVotersAreProbedBesideManyDeadAddresses(t *testing.T) {
	s := newExcludedNodes()
	voters := []string{"y", "z"}
	for _, addr := range slices.Concat(addresses("dead", 200), voters) {
		s.noteAnswer(addr, true)
	}
	rounds(s, 10, voters...) // each was probed once
	for range 20 {
		addrs := s.next()
		for _, addr := range voters {
			if !slices.Contains(addrs, addr) {
				t.Fatalf("%s isn't probed; of %d", addr, len(addrs))
			}
		}
		if silent := len(addrs) - len(voters); silent > silentMost {
			t.Fatalf("%d addresses without an answer are probed in one round, which takes as many seconds as they take turns", silent)
		}
		for _, addr := range addrs {
			s.probed(addr, slices.Contains(voters, addr))
		}
	}
}

// All excluded nodes have their turn, silent excluded nodes too.
func TestEachExcludedNodeHasItsTurn(t *testing.T) {
	s := newExcludedNodes()
	dead, clients, voters := addresses("dead", 60), addresses("client", 100), addresses("voter", 70)
	for _, addr := range dead {
		s.noteAnswer(addr, true)
	}
	for _, addr := range clients {
		s.noteAnswer(addr, false)
	}
	for _, addr := range voters {
		s.noteAnswer(addr, true)
	}
	live := slices.Concat(clients, voters)
	rounds(s, 10, live...) // the dead addresses are known not to answer
	probes := rounds(s, 20, live...)
	for _, addr := range slices.Concat(dead, live) {
		if probes[addr] == 0 {
			t.Errorf("%s isn't probed in 20 rounds", addr)
		}
	}
	for _, addr := range voters { // 56 places for live addresses, a quarter for clients
		if probes[addr] < 20*42/len(voters) {
			t.Errorf("%s is probed %d times in 20 rounds", addr, probes[addr])
		}
	}
}

// If there are more excluded nodes than are kept, voters that answer stay.
func TestVotersThatAnswerAreKept(t *testing.T) {
	s := newExcludedNodes()
	voters := addresses("a-voter", 9)
	for _, addr := range voters {
		s.noteAnswer(addr, true)
	}
	for _, addr := range addresses("dead", 2*maxExcluded) {
		s.noteAnswer(addr, true)
		s.probed(addr, false)
	}
	for _, addr := range addresses("client", 2*maxExcluded) {
		s.noteAnswer(addr, false)
	}
	for _, addr := range voters {
		if s.m[addr] == nil {
			t.Errorf("%s is forgotten", addr)
		}
	}
	if len(s.m) != maxExcluded {
		t.Errorf("%d excluded nodes are kept", len(s.m))
	}
	s.remove(voters[0])
	if s.m[voters[0]] != nil || slices.Contains(s.inOrder(), voters[0]) {
		t.Error("a node that is no excluded node any more is among them")
	}
	if first := s.inOrder()[:8]; !slices.Equal(first, voters[1:]) {
		t.Errorf("a goodbye is for %v first", first)
	}
}

func TestConfiguredPeersHaveTheirTurns(t *testing.T) {
	all := addresses("peer", 150)
	probes, first := map[string]int{}, 0
	for range 5 {
		var some []string
		some, first = window(all, first, probesMost)
		if len(some) != probesMost {
			t.Fatalf("%d at once", len(some))
		}
		for _, addr := range some {
			probes[addr]++
		}
	}
	if len(probes) != len(all) {
		t.Errorf("%d of %d are probed in five rounds", len(probes), len(all))
	}
	if some, next := window(all[:3], 77, probesMost); len(some) != 3 || next != 0 {
		t.Errorf("of 3 addresses %v, and then from %d on", some, next)
	}
}

// answering has a node at each live address; at other addresses a probe times out.
type answering struct {
	world.Links
	live func(addr string) bool

	mu sync.Mutex
	at map[string][]time.Time
}

func (a *answering) Probe(ctx context.Context, addr string) (vote.SessionID, error) {
	a.mu.Lock()
	a.at[addr] = append(a.at[addr], time.Now())
	a.mu.Unlock()
	if a.live(addr) {
		return vote.SessionID{}, nil
	}
	<-ctx.Done()
	return vote.SessionID{}, errors.New("no answer")
}

// advertising has a node at each address, which says that it is at another.
type advertising struct {
	world.Links
	f      *Finder
	who    vote.SessionID
	terms  vote.Terms
	err    error
	probes int
}

func (a *advertising) AdvertiseAddr() string { return "a.example:7950" }

func (a *advertising) Probe(context.Context, string) (vote.SessionID, error) {
	a.probes++
	if a.err != nil {
		return vote.SessionID{}, a.err
	}
	a.f.Met(&vote.Sighting{Peer: a.who, Terms: a.terms, Account: vote.Account{Standing: vote.StandingCounting, Addr: "b.example:7950"}})
	return a.who, nil
}

// Gossip refused a node while its terms differed. Probes of its address end once the terms are the
// same, or once another mesh has the address.
func TestAnAddressWithoutAnExcludedNodeIsNotProbedForEver(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want int
	}{
		{"a node that advertises a host name", nil, 1},
		{"another mesh", &transport.RefusedError{Reason: vote.ReasonTerms, Foreign: true}, foreignMost},
		{"another secret", &transport.RefusedError{Reason: vote.ReasonSecret}, foreignMost},
		{"another list of this mesh", &transport.RefusedError{Reason: vote.ReasonTerms}, 3600},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				terms := vote.Terms{Voters: []vote.NodeID{"a", "b"}, MaxTTL: time.Second}
				f := New(t.Context(), Config{Clocks: clock.New(nil), Terms: terms, Self: vote.SessionID{Node: "a", Incarnation: 1}})
				links := &advertising{f: f, who: vote.SessionID{Node: "b", Incarnation: 7}, terms: terms, err: row.err}
				f.Connect(links)
				f.Excluded(member.Member{Name: "b", Addr: "10.0.0.2:7950"})
				ctx, end := context.WithTimeout(t.Context(), time.Hour-time.Millisecond)
				defer end()
				f.excluded.run(ctx)
				if links.probes != row.want {
					t.Errorf("%d probes in an hour, want %d", links.probes, row.want)
				}
			})
		})
	}
}

// A node that advertises a host name knows its own address, as gossip has looked it up.
func TestTheOwnAddressBehindANameIsKnown(t *testing.T) {
	self := vote.SessionID{Node: "a", Incarnation: 1}
	f := New(t.Context(), Config{Clocks: clock.New(nil), Self: self})
	f.Connect(&advertising{})
	f.noteOwn([]member.Member{{Name: "a", Incarnation: 1, Addr: "10.0.0.1:7950"}, {Name: "b", Incarnation: 7, Addr: "10.0.0.2:7950"}})
	if !f.Known(netip.MustParseAddrPort("10.0.0.1:7950")) || f.Known(netip.MustParseAddrPort("10.0.0.2:7950")) {
		t.Error("the own address is unknown, or another address is known")
	}
}

// The rounds of the prober keep their pace, on which a voter's decision relies, beside 100
// addresses without an answer; and a leaving node notifies all excluded nodes that answer.
func TestExcludedNodesThatAnswerAreMetEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := &answering{at: map[string][]time.Time{}, live: func(addr string) bool { return addr[0] == 'v' }}
		f := New(t.Context(), Config{Clocks: clock.New(nil), Terms: vote.Terms{Voters: []vote.NodeID{"a"}}})
		f.Connect(links)
		voters := addresses("voter", 40)
		for _, addr := range slices.Concat(addresses("dead", 100), voters) {
			f.excluded.noteSighting(&vote.Sighting{Account: vote.Account{Addr: addr, Standing: vote.StandingCounting}})
		}
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.excluded.run(ctx) })
		time.Sleep(20 * time.Second) // each dead address was probed
		since := time.Now()
		time.Sleep(30 * time.Second)
		end()
		running.Wait()
		for _, addr := range voters {
			last := since
			for _, at := range links.at[addr] {
				if at.Before(since) {
					continue
				}
				if gap := at.Sub(last); gap > probeEvery+probeEvery/4 {
					t.Errorf("%s was met %v after the time before", addr, gap)
				}
				last = at
			}
			if time.Since(last) > 2*probeEvery {
				t.Errorf("%s was last met %v ago", addr, time.Since(last))
			}
		}
		clear(links.at)
		f.SayGoodbye(t.Context())
		for _, addr := range voters {
			if len(links.at[addr]) != 1 {
				t.Errorf("%s is told %d times that this node leaves", addr, len(links.at[addr]))
			}
		}
	})
}
