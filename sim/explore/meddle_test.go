package explore

import (
	"maps"
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// meddler is a voter that processes messages never sent by the owners of its sessions.
type meddler struct {
	Machine
	now      vote.Now
	sessions map[vote.SessionID]*meddled
	hears    func(d *meddler, from vote.SessionID, m *vote.Message)
	unlinked func(d *meddler, conn vote.Conn)
	says     func(d *meddler, o *vote.Outbound)
	said     bool
}

// meddled is a session of a remote requester.
type meddled struct {
	conn     vote.Conn
	stream   vote.Stream
	requests map[vote.Number]vote.Key
}

func newMeddler(cfg node.Config, now vote.Now) (*meddler, error) {
	n, err := node.New(cfg, now)
	return &meddler{Machine: n, now: now, sessions: map[vote.SessionID]*meddled{}}, err
}

// buriesAlive takes a broken connection for the crash of the session's owner, and frees the votes
// of the session at once.
func buriesAlive(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := newMeddler(cfg, now)
	d.unlinked = func(d *meddler, conn vote.Conn) {
		for _, id := range d.sorted() {
			if d.sessions[id].conn == conn {
				d.releaseAll(id)
			}
		}
	}
	return d, err
}

// releasesAnyones lets a release end any vote for the key, even the vote of another session.
func releasesAnyones(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := newMeddler(cfg, now)
	d.hears = func(d *meddler, from vote.SessionID, m *vote.Message) {
		s := d.sessions[from]
		if s == nil || m.Kind != vote.KindRelease {
			return
		}
		if v, ok := d.Voter().Vote(s.requests[m.Number]); ok && v.Owner != from {
			d.speak(v.Owner, vote.Message{Kind: vote.KindRelease, Number: v.Number})
		}
	}
	return d, err
}

// revokes takes back a vote where a voter may only inquire.
func revokes(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := newMeddler(cfg, now)
	d.says = func(d *meddler, o *vote.Outbound) {
		if o.Close || o.Message.Kind != vote.KindInquire {
			return
		}
		for _, id := range d.sorted() {
			if s := d.sessions[id]; s.conn == o.Conn && s.stream == o.Message.Stream {
				d.speak(id, vote.Message{Kind: vote.KindYield, Number: o.Message.Number, Serial: o.Message.Serial})
			}
		}
	}
	return d, err
}

func (d *meddler) Tick(now vote.Now) {
	d.now = now
	d.Machine.Tick(now)
}

func (d *meddler) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	d.now = now
	s := d.sessions[from]
	switch {
	case m.Kind == vote.KindOpen:
		s = &meddled{conn, m.Stream, map[vote.Number]vote.Key{}}
		d.sessions[from] = s
	case s == nil:
	case m.Kind == vote.KindRequest:
		s.requests[m.Number] = m.Key
	case m.Kind == vote.KindSync:
		for _, e := range m.Entries {
			s.requests[e.Number] = e.Key
		}
	}
	if d.hears != nil {
		d.hears(d, from, m)
	}
	d.Machine.Deliver(now, conn, from, m)
}

func (d *meddler) Unlink(now vote.Now, conn vote.Conn) {
	d.now = now
	if d.unlinked != nil {
		d.unlinked(d, conn)
	}
	d.Machine.Unlink(now, conn)
}

func (d *meddler) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	for {
		first := len(out)
		out, ev = d.Machine.Drain(out, ev)
		d.said = false
		for i := first; i < len(out) && d.says != nil; i++ {
			d.says(d, &out[i])
		}
		if !d.said {
			return out, ev
		}
	}
}

// speak delivers a message in the name of a session's owner.
func (d *meddler) speak(id vote.SessionID, m vote.Message) {
	if s := d.sessions[id]; s != nil {
		m.Stream = s.stream
		d.Machine.Deliver(d.now, s.conn, id, &m)
		d.said = true
	}
}

// releaseAll releases all requests of a session.
func (d *meddler) releaseAll(id vote.SessionID) {
	for _, n := range slices.Sorted(maps.Keys(d.sessions[id].requests)) {
		d.speak(id, vote.Message{Kind: vote.KindRelease, Number: n})
	}
}

// sorted returns the sessions in an order independent of the map.
func (d *meddler) sorted() []vote.SessionID {
	return slices.SortedFunc(maps.Keys(d.sessions), func(a, b vote.SessionID) int {
		return vote.Stamp{Owner: a}.Compare(vote.Stamp{Owner: b})
	})
}

// silent is a restarted voter that asks no other voter, and assumes that no voter knows a token.
type silent struct {
	Machine
	now    vote.Now
	voters []vote.NodeID
}

func asksNobody(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &silent{Machine: n, now: now, voters: cfg.Voters}, err
}

func (s *silent) Tick(now vote.Now) {
	s.now = now
	s.Machine.Tick(now)
}

func (s *silent) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	s.now = now
	if m.Kind != vote.KindTell {
		s.Machine.Deliver(now, conn, from, m)
	}
}

func (s *silent) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = s.Machine.Drain(out, ev)
	asks := func(o vote.Outbound) bool { return o.Message.Kind == vote.KindAsk }
	i := first + slices.IndexFunc(out[first:], asks)
	if i < first {
		return out, ev
	}
	for _, v := range s.voters {
		s.Machine.Deliver(s.now, 0, vote.SessionID{Node: v}, &vote.Message{Kind: vote.KindTell, Nonce: out[i].Message.Nonce, Counting: true})
	}
	kept := slices.DeleteFunc(slices.Clone(out[first:]), asks)
	return s.Machine.Drain(append(out[:first], kept...), ev)
}
