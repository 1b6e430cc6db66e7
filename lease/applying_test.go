package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// stater is a requester that sends long syncs, and counts the voter's messages and votes.
type stater struct {
	*booth
	c        *caller
	stream   vote.Stream
	requests map[vote.Number]bool
	votes    map[vote.Number]vote.Serial
	answered bool
	told     int // promises since the answer
	taken    []vote.Number
	unknown  bool
	closed   bool
	ack      *vote.Message
	most     int // units of the costliest step
}

func newStater(t testing.TB, sessions int) *stater {
	b := newBooth(t, sessions)
	return &stater{booth: b, c: b.sessions[0], stream: 1, requests: make(map[vote.Number]bool), votes: make(map[vote.Number]vote.Serial)}
}

// do runs one call of the voter, notes the cost, and reads the messages to the stater.
func (s *stater) do(f func() []vote.Outbound) {
	var out []vote.Outbound
	s.most = max(s.most, s.cost(func() { out = f() }))
	for i := range out {
		o := &out[i]
		if o.Conn != s.c.conn {
			continue
		}
		switch m := &o.Message; {
		case o.Close:
			s.closed = true
		case m.Kind == vote.KindUnknown:
			s.unknown = true
		case m.Kind == vote.KindAnswer:
			if s.answered {
				s.tb.Fatal("an answer after the end of the answer")
			}
			for _, e := range m.Entries {
				s.promised(e.Number, e.Serial)
			}
			s.answered = m.End
		case m.Kind == vote.KindPromise:
			if !s.answered {
				s.tb.Fatalf("request %d is told of its vote before the end of the answer", m.Number)
			}
			s.told++
			s.promised(m.Number, m.Serial)
		case m.Kind == vote.KindHeld:
			s.taken = append(s.taken, m.Number)
		case m.Kind == vote.KindAck:
			s.ack = m
		}
	}
	others := out[:0]
	for _, o := range out {
		if o.Conn != s.c.conn {
			others = append(others, o)
		}
	}
	s.hear(others)
}

func (s *stater) promised(n vote.Number, serial vote.Serial) {
	if was, ok := s.votes[n]; ok {
		s.tb.Fatalf("request %d is told of vote %d, and had been told of vote %d", n, serial, was)
	}
	s.votes[n] = serial
}

func (s *stater) tick() { s.do(func() []vote.Outbound { return s.v.Tick(s.now, nil) }) }

func (s *stater) says(m vote.Message) {
	m.Stream = s.stream
	s.do(func() []vote.Outbound { return s.v.Step(s.now, s.c.conn, s.c.id, &m, nil) })
}

func (s *stater) opens() {
	s.stream++
	s.answered, s.ack = false, nil
	clear(s.votes)
	s.says(vote.Message{Kind: vote.KindOpen, TTL: 10 * time.Second, RTT: time.Millisecond})
}

// syncs sends a sync of n requests, each for a key of its own, starting with number first.
func (s *stater) syncs(first, n int) {
	for i := 0; i < n; {
		m := vote.Message{Kind: vote.KindSync}
		for ; i < n && len(m.Entries) < vote.MaxEntries; i++ {
			number := vote.Number(first + i)
			s.requests[number] = true
			m.Entries = append(m.Entries, vote.Entry{
				Number: number, Time: s.now.Wall, TokenHint: vote.TokenAt(s.now.Wall), Spec: vote.Spec{Key: keyOf(first + i), Mode: vote.Exclusive},
			})
		}
		m.End = i == n
		s.says(m)
	}
}

func (s *stater) releases(n vote.Number) {
	delete(s.requests, n)
	s.says(vote.Message{Kind: vote.KindRelease, Number: n})
}

func keyOf(i int) vote.Key { return vote.Key(fmt.Sprintf("key-%06d", i)) }

// agrees compares the stater's digest with the voter's digest in the next acknowledgement.
func (s *stater) agrees(processed uint64) {
	s.tb.Helper()
	s.says(vote.Message{Kind: vote.KindRefresh, RTT: time.Millisecond})
	if s.ack == nil {
		s.tb.Fatal("a refresh has no answer")
	}
	var want vote.Digest
	for n := range s.requests {
		want = want.Plus(vote.DigestOfRequest(n))
	}
	for n, serial := range s.votes {
		if s.requests[n] {
			want = want.Plus(vote.DigestOfVote(serial))
		}
	}
	if got := (vote.Digest{Count: s.ack.Count, Hash: s.ack.Hash}); got != want || s.ack.Processed != processed {
		s.tb.Errorf("the voter's books say %+v with %d messages taken in, its requester's %+v with %d", got, s.ack.Processed, want, processed)
	}
}

// A sync of many requests is applied in steps within the budget, and the voter serves other
// sessions between the steps. Events on the keys of the sync, and messages of the session, are
// neither lost nor reported twice meanwhile.
func TestALongSyncYields(t *testing.T) {
	const n = 20_000
	s := newStater(t, 3)
	holder, other := s.sessions[1], s.sessions[2]
	for i := 1; i <= n; i += 2 { // every other key is held, and released while the sync is applied
		s.ask(holder, keyOf(i))
		s.win(holder)
		if i%5001 == 0 {
			s.refreshAll()
		}
	}
	s.opens()
	s.most = 0
	s.syncs(1, n)
	if s.answered {
		t.Fatal("the sync was applied in one step")
	}
	steps, freed, said := 0, vote.Number(0), uint64(0)
	for ; s.v.Busy(); steps++ {
		s.tick()
		for range 90 {
			if freed < holder.number {
				freed++
				s.do(func() []vote.Outbound {
					return s.v.Step(s.now, holder.conn, holder.id, &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: freed}, nil)
				})
			}
		}
		if cost := s.cost(func() { s.refresh(other) }); cost > 64 {
			t.Fatalf("another session's refresh costs %d meanwhile", cost)
		}
		if steps%8 == 0 {
			answered := s.answered
			s.ack = nil
			s.says(vote.Message{Kind: vote.KindRefresh, RTT: time.Millisecond})
			if s.ack != nil && !answered {
				t.Fatal("a refresh is answered before the sync")
			}
			s.says(vote.Message{Kind: vote.KindRequest, Number: vote.Number(n + 1 + steps), Spec: vote.Spec{Key: keyOf(n + 1 + steps), Mode: vote.Exclusive}, Time: s.now.Wall})
			s.requests[vote.Number(n+1+steps)] = true
			s.releases(vote.Number(1 + 3*steps))
			said += 2
		}
	}
	if s.most > Budget+64 {
		t.Errorf("a step costs %d", s.most)
	}
	if steps < 10 || s.told < 100 || said < 4 {
		t.Fatalf("%d steps, %d votes told after the answer, %d messages meanwhile: too few to show anything", steps, s.told, said)
	}
	for ; freed < holder.number; freed++ {
		s.do(func() []vote.Outbound {
			return s.v.Step(s.now, holder.conn, holder.id, &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: freed + 1}, nil)
		})
	}
	s.agrees(said)
	for number := range s.requests {
		if s.votes[number] == 0 {
			t.Fatalf("request %d has no vote, though its key is free", number)
		}
	}
}

// The requests missing in a sync are dropped in steps, too.
func TestALongSyncDropsTheRest(t *testing.T) {
	const n = 9_000
	s := newStater(t, 2)
	s.opens()
	s.syncs(1, n)
	for s.v.Busy() {
		s.tick()
	}
	s.agrees(0)
	clear(s.requests)
	s.opens()
	s.syncs(n/2, n)
	for s.v.Busy() {
		s.tick()
	}
	if s.most > Budget+64 {
		t.Errorf("a step costs %d", s.most)
	}
	s.agrees(0)
	if got := s.v.Size().Requests; got != n {
		t.Errorf("the voter keeps %d requests, want %d", got, n)
	}
}

// If a node goes on sending while its sync is applied, the voter closes the connection before the
// messages fill the memory.
func TestAFloodBehindALongSyncIsHungUpOn(t *testing.T) {
	s := newStater(t, 2)
	s.opens()
	s.syncs(1, 20_000)
	for range maxLater {
		s.releases(1)
	}
	if s.closed {
		t.Fatal("hung up on too early")
	}
	s.releases(1)
	if !s.closed {
		t.Fatal("not hung up on")
	}
	for s.v.Busy() {
		s.tick()
	}
	if s.answered {
		t.Error("the sync is answered though its connection is closed")
	}
	s.closed = false
	s.opens()
	clear(s.requests)
	s.syncs(5, 300)
	for s.v.Busy() {
		s.tick()
	}
	s.agrees(0)
}

// When an electorate with a larger minimum token raises the tokens of votes during an answer, the
// answer may carry old tokens: the voter asks for a new sync.
func TestTokensThatAreRaisedDuringAnAnswer(t *testing.T) {
	s := newStater(t, 2)
	s.opens()
	s.syncs(1, 20_000)
	for s.v.sessions.byID[s.c.id].applying.phase < applyAnswers {
		s.tick()
	}
	e := s.v.electorate.Electorate
	e.Version, e.MinToken = e.Version+1, vote.TokenAt(s.now.Wall)+1000
	s.do(func() []vote.Outbound { return s.v.Reconfigure(s.now, e, true, nil) })
	if !s.unknown || s.answered {
		t.Fatalf("told that the stream is unknown: %t, answered: %t; want only the first", s.unknown, s.answered)
	}
	s.opens()
	s.syncs(1, 20_000)
	for s.v.Busy() {
		s.tick()
	}
	s.agrees(0)
}

// A lease may be won while the answer to another session's sync is under way. A TryLock of this
// session learns of the lease behind the answer: a message before the end of the answer would be
// void.
func TestATryLockHearsOfALeaseThatIsWonDuringItsAnswer(t *testing.T) {
	const n = 20_000
	s := newStater(t, 2)
	holder := s.sessions[1]
	s.ask(holder, keyOf(1))
	s.opens()
	s.says(vote.Message{Kind: vote.KindSync, Entries: []vote.Entry{
		{Number: 1, Time: s.now.Wall, Spec: vote.Spec{Key: keyOf(1), Mode: vote.Exclusive, Try: true}},
	}})
	s.syncs(2, n)
	for s.v.sessions.byID[s.c.id].applying.phase < applyAnswers {
		s.tick()
	}
	m := vote.Message{
		Kind: vote.KindConfirm, Stream: 1, Number: holder.number, Serial: holder.serial, Token: holder.token, Won: true,
	}
	s.do(func() []vote.Outbound { return s.v.Step(s.now, holder.conn, holder.id, &m, nil) })
	if s.answered || len(s.taken) != 0 {
		t.Fatalf("answered: %t, told of a lease: %v", s.answered, s.taken)
	}
	for s.v.Busy() {
		s.tick()
	}
	if !s.answered || len(s.taken) != 1 || s.taken[0] != 1 {
		t.Errorf("answered: %t, told of a lease: %v, want the first request", s.answered, s.taken)
	}
}

// A session that ends, opens another stream, or loses its connection while its sync is applied
// leaves no part of the task behind.
func TestALongSyncIsAborted(t *testing.T) {
	sampled.Computes(t)
	for _, c := range []struct {
		name string
		end  func(s *stater)
	}{
		{"a new stream", func(s *stater) { s.opens(); s.syncs(1, 10) }},
		{"a new stream, whose sync comes later", func(s *stater) {
			s.opens()
			for range 100 {
				s.tick()
			}
			if s.answered {
				s.tb.Fatal("answered before the sync")
			}
			s.syncs(1, 10)
		}},
		{"the connection is gone", func(s *stater) {
			s.do(func() []vote.Outbound { return s.v.Unlink(s.now, s.c.conn, nil) })
			s.opens()
			s.syncs(1, 10)
		}},
		{"the session's end", func(s *stater) {
			s.now.Slow = s.now.Slow.Add(11 * time.Second)
			s.tick()
			s.opens()
			s.syncs(1, 10)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for ticks := range 24 { // in each phase
				if !sampled.Case(ticks, 4) {
					continue
				}
				s := newStater(t, 2)
				s.opens()
				s.syncs(1, 10_000)
				for range ticks {
					s.tick()
				}
				clear(s.requests)
				c.end(s)
				for s.v.Busy() {
					s.tick()
				}
				s.agrees(0)
				if got := s.v.Size(); got.Requests != 10 || len(s.v.tasks) != 0 {
					t.Errorf("after %d steps: %+v and %d tasks are left", ticks, got, len(s.v.tasks))
				}
			}
		})
	}
}

// When an incarnation is superseded while its sync is applied, its waiting requests are dropped;
// its votes stand until their deadline.
func TestALongSyncOfASupersededIncarnation(t *testing.T) {
	sampled.Computes(t)
	for ticks := range 24 {
		s := newStater(t, 3)
		holder, heir := s.sessions[1], s.sessions[2]
		for i := 1; i <= 5_000; i += 2 {
			s.ask(holder, keyOf(i))
			s.win(holder)
		}
		heir.id = vote.SessionID{Node: s.c.id.Node, Incarnation: 77}
		s.opens()
		s.syncs(1, 5_000)
		for range ticks {
			s.tick()
		}
		old := s.v.sessions.byID[s.c.id]
		s.say(heir, vote.Message{Kind: vote.KindOpen, TTL: 10 * time.Second, RTT: time.Millisecond})
		s.say(heir, vote.Message{Kind: vote.KindSync, End: true})
		s.say(heir, vote.Message{Kind: vote.KindProbeReply})
		s.now.Slow = s.now.Slow.Add(probeFor(10*time.Second) + time.Millisecond)
		for s.tick(); s.v.Busy(); s.tick() {
		}
		if old.claim != claimSuperseded || old.applying != nil {
			t.Fatalf("after %d steps: claim %d", ticks, old.claim)
		}
		for _, e := range old.all {
			if e != nil && e.serial == 0 {
				t.Fatalf("after %d steps: request %d still waits", ticks, e.number)
			}
		}
	}
}

// A voter that receives a sync of many requests while quiet schedules the requests in steps when
// the startup quarantine ends.
func TestTheEndOfTheQuietTimeGivesWay(t *testing.T) {
	const n = 20_000
	s := newStater(t, 2)
	s.v.Withdraw(s.now, nil)
	s.opens()
	s.syncs(1, n)
	for s.v.Busy() {
		s.tick()
	}
	if len(s.votes) != 0 {
		t.Fatalf("%d votes while quiet", len(s.votes))
	}
	for range 2 {
		s.now.Slow = s.now.Slow.Add(5 * time.Second)
		s.says(vote.Message{Kind: vote.KindRefresh, RTT: time.Millisecond})
	}
	s.most = 0
	for s.tick(); s.v.Busy(); s.tick() {
	}
	if len(s.votes) != n || s.most > Budget+64 {
		t.Errorf("%d votes, want %d; a step costs %d", len(s.votes), n, s.most)
	}
	s.agrees(0)
}

// BenchmarkSync measures a voter that applies a sync of many requests: the cost of each
// request, and the costliest step in units of the budget.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newStater(b, 2)
			for b.Loop() {
				s.opens()
				s.syncs(1, n)
				for s.v.Busy() {
					s.tick()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/request")
			b.ReportMetric(float64(s.most), "units/dearest-step")
		})
	}
}
