package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// coalescingMutants break the rules of write coalescing, and handOffMutants the rules of hand-offs.
var (
	coalescingMutants = []mutant{
		{
			name: "a message overtakes the queued ones", build: queues(false), scenario: releasesCoalesce, options: Options{Clients: 1, Coalesce: clumsyCoalescing},
			unseen: healed,
		},
		{
			name: "queued messages forgotten when another is sent at once", build: queues(true), scenario: releasesCoalesce,
			options: Options{Clients: 1, Coalesce: clumsyCoalescing}, unseen: healed,
		},
		{
			name: "only a majority is ever asked", build: asksTheFirst, scenario: oneOfTheFirstIsSilent,
			options: Options{Clients: 1},
		},
	}
	handOffMutants = []mutant{
		{name: "a lease handed off though another node waits", build: hearsNoWish, scenario: passedOverInALocalQueue, options: Options{Clients: 2}},
		{name: "a lease that is handed off keeps its token", build: passesTokens, scenario: passedOn, options: Options{Clients: 1}},
	}
)

const (
	clumsyCoalescing = 50 * time.Millisecond
	healed           = "the next acknowledgement shows it, and both sides resync: it costs a refresh"
)

// clumsy is a node in a shell with write coalescing and faulty queues.
type clumsy struct {
	Machine
	// An immediate message replaces the queued messages; otherwise the message overtakes the queue.
	forgets bool
	queues  map[vote.Conn][]vote.Outbound
	due     vote.Instant // when the queues are emptied; zero: not known yet
	out     []vote.Outbound
}

func queues(forgets bool) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &clumsy{Machine: n, forgets: forgets, queues: make(map[vote.Conn][]vote.Outbound)}, err
	}
}

func (c *clumsy) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	drained, ev := c.Machine.Drain(nil, ev)
	out = append(out, c.out...)
	c.out = nil
	for _, o := range drained {
		if o.Later && !o.Close {
			o.Later = false
			c.queues[o.Conn] = append(c.queues[o.Conn], o)
			continue
		}
		out = append(out, o)
		if c.forgets || o.Close {
			delete(c.queues, o.Conn)
		}
	}
	return out, ev
}

func (c *clumsy) Next(now vote.Now) time.Duration {
	next := c.Machine.Next(now)
	switch {
	case len(c.queues) == 0:
		c.due = 0
		return next
	case c.due == 0:
		c.due = now.Fast.Add(clumsyCoalescing)
	}
	return min(next, c.due.Sub(now.Fast))
}

func (c *clumsy) Tick(now vote.Now) {
	if c.due != 0 && now.Fast >= c.due {
		for _, conn := range slices.Sorted(maps.Keys(c.queues)) {
			c.out = append(c.out, c.queues[conn]...)
		}
		clear(c.queues)
		c.due = 0
	}
	c.Machine.Tick(now)
}

// releasesCoalesce has x1 hold a key until all voters know of the lease, and request the key again
// while the release is queued for one voter. The repetitions place a refresh of x1's sessions at
// each moment of the exchange.
func releasesCoalesce(w *World) {
	for range 40 {
		r := w.Script.Lock("x1", "k")
		w.Run(clumsyCoalescing + 7*time.Millisecond)
		w.Script.Release(r)
		again := w.Script.Lock("x1", "k")
		w.Run(clumsyCoalescing)
		w.Script.Release(again)
		w.Run(clumsyCoalescing)
	}
}

// sparing sends a request only to the voters contacted first, and never to the others. The wrapper
// changes the acknowledgements of the others as if they had received the request.
type sparing struct {
	Machine
	streams map[vote.Conn]*sparingly
	drained uint64 // the number of Drain calls
	// first has the Drain call that sent a request first.
	first map[vote.Number]uint64
}

type sparingly struct {
	stream vote.Stream
	count  uint64   // the number of messages of the node
	sent   []uint64 // the numbers of the messages sent
	kept   map[vote.Number]*unsent
}

// unsent is a request kept from a voter. Acknowledgements are changed to include the request.
type unsent struct {
	number vote.Number
	serial vote.Serial
	until  uint64 // the message that gives the request up; zero if there is none
}

func asksTheFirst(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &sparing{Machine: n, streams: make(map[vote.Conn]*sparingly), first: make(map[vote.Number]uint64)}, err
}

func (s *sparing) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	drained, ev := s.Machine.Drain(nil, ev)
	s.drained++
	for _, o := range drained {
		late := false
		switch m := &o.Message; {
		case m.Kind == vote.KindOpen:
			s.streams[o.Conn] = &sparingly{stream: m.Stream, kept: make(map[vote.Number]*unsent)}
		case m.Kind == vote.KindRequest && s.first[m.Number] == 0:
			s.first[m.Number] = s.drained
		case m.Kind == vote.KindRequest:
			late = s.first[m.Number] < s.drained
		}
		if t := s.streams[o.Conn]; t == nil || o.Close || t.goes(&o, late) {
			out = append(out, o)
		}
	}
	return out, ev
}

// goes reports whether a message is sent. late marks a request that other voters have received
// before.
func (t *sparingly) goes(o *vote.Outbound, late bool) bool {
	m := &o.Message
	if m.Stream != t.stream || !m.Kind.ToVoter() || m.Kind.Urgent() || m.Kind == vote.KindOpen || m.Kind == vote.KindSync {
		return true
	}
	t.count++
	if late {
		t.kept[m.Number] = &unsent{number: m.Number}
	}
	v := t.kept[m.Number]
	if v == nil {
		t.sent = append(t.sent, t.count)
		return true
	}
	if v.serial == 0 {
		v.serial = vote.Serial(t.count) // from here on the voter seems to know the request
	}
	if m.Kind == vote.KindRelease {
		v.until = t.count
	}
	return false
}

func (s *sparing) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if t := s.streams[conn]; t != nil && m.Kind == vote.KindAck && m.Stream == t.stream {
		p := t.count
		if m.Processed < uint64(len(t.sent)) {
			p = t.sent[m.Processed] - 1
		}
		m.Processed = p
		for _, v := range t.kept { // sums don't depend on the order
			if uint64(v.serial) <= p && (v.until == 0 || v.until > p) {
				l := vote.Digest{Count: m.Count, Hash: m.Hash}.Plus(vote.DigestOfRequest(v.number))
				m.Count, m.Hash = l.Count, l.Hash
			}
		}
	}
	s.Machine.Deliver(now, conn, from, m)
}

// oneOfTheFirstIsSilent has x1 request keys before x1 knows that a voter, each in turn, is out of
// reach.
func oneOfTheFirstIsSilent(w *World) {
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Cut("x1", v)
		r := w.Script.Lock("x1", "k of "+v)
		w.expect(r, Granted, sceneTTL/4) // x1 hangs up after half a TTL
		w.Script.Mend("x1", v)
		w.Script.Release(r)
		w.Run(2 * sceneTTL)
	}
}

// wishless doesn't learn that another node waits for a key of its node.
type wishless struct{ Machine }

func hearsNoWish(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return wishless{n}, err
}

func (x wishless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindPromise:
		m.Revoke = false
	case vote.KindContended:
		m.Number = 0 // the message counts as received
	}
	x.Machine.Deliver(now, conn, from, m)
}

// passedOverInALocalQueue has a second caller on x1 request the key long after x2, while x2 waits
// for the first caller.
func passedOverInALocalQueue(w *World) {
	requestInOrder(w, Ask{Node: "x1", Key: "k"}, Ask{Node: "x2", Key: "k"}, Ask{Node: "x1", Key: "k"})
}

// repeating gives each caller in a local queue the token of the first caller.
type repeating struct {
	Machine
	tokens map[vote.Number]vote.Token
}

func passesTokens(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return repeating{n, make(map[vote.Number]vote.Token)}, err
}

func (x repeating) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = x.Machine.Drain(out, ev)
	for i := first; i < len(ev); i++ {
		if e := &ev[i]; e.Kind == quorum.EventGranted {
			if t := x.tokens[x.Alias(e.Number)]; t != 0 {
				e.Token = t
			}
			x.tokens[x.Alias(e.Number)] = e.Token
		}
	}
	return out, ev
}

// passedOn has two callers on x1 request a key, one after the other.
func passedOn(w *World) {
	first, second := w.Script.Lock("x1", "k"), w.Script.Lock("x1", "k")
	w.expect(first, Granted, sceneTTL)
	w.Run(sceneTTL / 2) // until an extension shows that the lease stood at the second request
	w.Script.Release(first)
	w.expect(second, Granted, sceneTTL)
}
