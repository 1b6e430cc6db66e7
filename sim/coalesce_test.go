package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestSwarmCoalescing runs seeds with write coalescing: messages for which no node waits stay in
// queues, mostly for far longer than in production.
func TestSwarmCoalescing(t *testing.T) {
	swarm(t, 24, func(seed uint64) Options { return coalescing(Draw(seed)) }, func(f *Figures) {
		coalescedEnough(t)(f)
		if f.CoalescedLost == 0 {
			t.Error("no message was lost in a queue")
		}
	}, "-coalescing")
}

// TestSwarmCoalescingDynamic does the same with dynamic membership.
func TestSwarmCoalescingDynamic(t *testing.T) {
	swarm(t, sampled.Count(4, 8), func(seed uint64) Options { return coalescing(DrawDynamic(seed)) }, coalescedEnough(t))
}

// TestSwarmCoalescingBeyondTheAssumptions does the same where clocks err without bound and
// processes are paused unseen.
func TestSwarmCoalescingBeyondTheAssumptions(t *testing.T) {
	swarm(t, 8, func(seed uint64) Options { return coalescing(DrawBeyond(seed)) }, coalescedEnough(t), "-beyond", "-coalescing")
}

func coalescing(o Options) Options {
	o.DrawCoalescing()
	return o
}

func coalescedEnough(t *testing.T) func(f *Figures) {
	return func(f *Figures) {
		carried := f.Coalesced - f.CoalescedUntilDue - f.CoalescedLost
		if carried < 100 || f.CoalescedUntilDue < 500 {
			t.Errorf("%d messages were carried along, and %d were queued for as long as allowed: it has shown nothing", carried, f.CoalescedUntilDue)
		}
	}
}

// coalesces returns a scene in which x1 has won a key, with the message about the win still queued
// for a voter.
func coalesces(t *testing.T, pause time.Duration) (s *scene, r *Request, voter string) {
	s = awake(t, Options{Clients: 1, Coalesce: pause, Net: Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1}})
	s.refreshed()
	r = s.Lock("x1", "k")
	s.Run(3 * time.Millisecond)
	for _, v := range []string{"a", "b", "c"} {
		if s.queuedAt(v) > 0 {
			voter = v
		}
	}
	if voter == "" {
		t.Fatal("no message is queued")
	}
	if r.State != Granted || s.knows(voter, r) {
		t.Fatalf("the request is %v, and %s knows of the lease: %v", r.State, voter, s.knows(voter, r))
	}
	return s, r, voter
}

// refreshed runs until x1 has just refreshed its sessions, so that x1 has nothing to send at once
// by itself for a fifth of a TTL.
func (s *scene) refreshed() {
	sent := s.fig.Messages
	s.RunUntil(sceneTTL, func() bool {
		return s.fig.Messages > sent && time.Duration(s.host("x1").p.tick-s.now) > sceneTTL/vote.RefreshesPerTTL-10*time.Millisecond
	})
}

// queuedAt returns the number of messages queued from x1 to a voter.
func (s *scene) queuedAt(voter string) int {
	return len(s.linkOf("x1", voter).queued[0].frames)
}

// knows reports whether a voter knows that a request has won.
func (s *scene) knows(voter string, r *Request) bool {
	p := s.host(voter).p
	v, ok := p.m.Voter().Vote(r.key.name)
	return ok && v.Held && v.Owner == r.p.id && v.Number == r.Number
}

// TestAMessageIsQueuedForSoLong shows that a queued message arrives when its time in the queue is
// over, and not before.
func TestAMessageIsQueuedForSoLong(t *testing.T) {
	const pause = 100 * time.Millisecond
	s, r, voter := coalesces(t, pause)
	s.Run(pause - 4*time.Millisecond)
	if s.knows(voter, r) || s.queuedAt(voter) == 0 {
		t.Fatal("the message went too soon")
	}
	s.Run(5 * time.Millisecond)
	if !s.knows(voter, r) || s.queuedAt(voter) != 0 {
		t.Fatal("the message didn't go in time")
	}
}

// TestAPromptMessageCarriesAlongTheQueue shows that a refresh carries the queued messages along, in
// order: afterwards the voter knows that the request has won.
func TestAPromptMessageCarriesAlongTheQueue(t *testing.T) {
	s, r, voter := coalesces(t, 10*sceneTTL)
	s.Run(sceneTTL / vote.RefreshesPerTTL)
	if !s.knows(voter, r) || s.queuedAt(voter) != 0 || s.fig.CoalescedUntilDue != 0 {
		t.Fatalf("%s knows of the lease: %v; %d messages are queued", voter, s.knows(voter, r), s.queuedAt(voter))
	}
}

// TestAQueueIsLostWithItsConnection shows that a broken connection loses the queued messages,
// and the next sync informs the voter instead.
func TestAQueueIsLostWithItsConnection(t *testing.T) {
	s, r, voter := coalesces(t, 10*sceneTTL)
	n := s.queuedAt(voter)
	s.Break("x1", voter)
	if lost := int(s.fig.CoalescedLost); n == 0 || lost != n {
		t.Fatalf("%d messages were lost of %d", lost, n)
	}
	s.Run(sceneTTL)
	if !s.knows(voter, r) {
		t.Fatal("it doesn't know of the lease")
	}
}

// TestAQueueIsLostWithItsProcess shows that a node's queued messages are lost in its crash.
func TestAQueueIsLostWithItsProcess(t *testing.T) {
	s, r, voter := coalesces(t, 10*time.Millisecond)
	s.PowerOff("x1")
	s.Run(100 * time.Millisecond)
	if s.knows(voter, r) || s.fig.CoalescedLost == 0 {
		t.Fatal("the message came after its sender's death")
	}
}

// TestAMajorityIsAskedFirstEvenIfOneIsSilent shows that a lock waits for a silent voter of the
// nearest majority only until the hedged request, and only once: afterwards the requester knows the
// silent voter.
func TestAMajorityIsAskedFirstEvenIfOneIsSilent(t *testing.T) {
	// See hedgeDelay in package quorum.
	const deferred, trip = 4 * time.Millisecond, 2 * time.Millisecond
	waited := 0
	for _, v := range []string{"a", "b", "c"} {
		s := awake(t, Options{Clients: 1, Net: Net{Least: trip / 2, Most: trip / 2, Jitter: -1}})
		for range 50 { // x1 learns the length of a round trip
			r := s.Lock("x1", "k")
			s.expect(r, Granted, trip)
			s.Release(r)
			s.Run(trip)
		}
		s.refreshed()
		s.Stop(v)
		for i := range 10 {
			r := s.Lock("x1", "k")
			s.expect(r, Granted, deferred+trip+maxLate)
			if r.State == Granted && r.Had-r.Asked > trip {
				waited++
				if i > 0 {
					t.Errorf("with %s silent, lock %d waits, too", v, i)
				}
			}
			s.Release(r)
			s.expect(r, Released, deferred+trip+maxLate)
		}
	}
	if waited != 2 {
		t.Errorf("a lock waited for a voter that was deferred when %d of three voters, one at a time, were silent, instead of two", waited)
	}
}

func TestCoalescingIsTheSameEachTime(t *testing.T) {
	run := func(coalesce bool) (string, uint64) {
		var b bytes.Buffer
		o := Draw(3)
		o.Trace = &b
		if coalesce {
			o.DrawCoalescing()
		}
		w := New(o)
		w.Run(10 * time.Second)
		_ = w.Settle()
		return b.String(), w.Hash()
	}
	a, x := run(true)
	b, y := run(true)
	c, z := run(false)
	if a != b || x != y || a == c || x == z {
		t.Errorf("digests %x and %x, and %x without", x, y, z)
	}
}
