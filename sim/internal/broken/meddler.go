package broken

import (
	"maps"
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Meddler is a voter that processes messages never sent by the owners of its sessions.
type Meddler struct {
	*node.Node
	now      vote.Now
	sessions map[vote.SessionID]*session
	hears    func(d *Meddler, from vote.SessionID, m *vote.Message)
	unlinked func(d *Meddler, conn vote.Conn)
	says     func(d *Meddler, o *vote.Outbound) // may call speak
	said     bool
}

// session is the session of a remote requester.
type session struct {
	conn     vote.Conn
	stream   vote.Stream
	requests map[vote.Number]vote.Key // of this stream
	former   map[vote.Number]vote.Key // of all streams, once ReleasesAny has looked
}

func meddle(cfg node.Config, now vote.Now) (*Meddler, error) {
	n, err := node.New(cfg, now)
	return &Meddler{Node: n, now: now, sessions: make(map[vote.SessionID]*session)}, err
}

// MeddlesNothing builds a [Meddler] that only listens.
func MeddlesNothing(cfg node.Config, now vote.Now) (Machine, error) { return meddle(cfg, now) }

// DropsSuperseded drops the votes of an incarnation when another incarnation of the same node
// arrives.
func DropsSuperseded(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := meddle(cfg, now)
	d.hears = func(d *Meddler, from vote.SessionID, m *vote.Message) {
		if m.Kind != vote.KindOpen {
			return
		}
		for _, id := range d.sorted() {
			if id.Node == from.Node && id.Incarnation != from.Incarnation {
				d.releaseAll(id)
			}
		}
	}
	return d, err
}

// FreesUnlinked takes a broken connection for the death of the session's owner, and frees the
// owner's votes. The mutant stands for gossip about a death as well: a node of a fixed electorate
// receives no gossip, so a broken connection is the nearest thing to hearsay.
func FreesUnlinked(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := meddle(cfg, now)
	d.unlinked = func(d *Meddler, conn vote.Conn) {
		for _, id := range d.sorted() {
			if d.sessions[id].conn == conn {
				d.releaseAll(id)
			}
		}
	}
	return d, err
}

// ReleasesAny lets a release end the vote that stands for the key, even if the vote has another
// owner.
func ReleasesAny(cfg node.Config, now vote.Now) (Machine, error) {
	d, err := meddle(cfg, now)
	d.hears = func(d *Meddler, from vote.SessionID, m *vote.Message) {
		s := d.sessions[from]
		if s == nil {
			return
		}
		if s.former == nil {
			s.former = make(map[vote.Number]vote.Key)
		}
		maps.Copy(s.former, s.requests) // a late release may refer to an earlier stream
		if m.Kind != vote.KindRelease {
			return
		}
		if v, ok := d.Voter().Vote(s.former[m.Number]); ok && v.Owner != from {
			d.speak(v.Owner, vote.Message{Kind: vote.KindRelease, Number: v.Number})
		}
	}
	return d, err
}

// Revokes takes a vote back where the voter may only inquire.
func Revokes(cfg node.Config, now vote.Now) (Machine, error) {
	return speaksInstead(cfg, now, vote.KindInquire, func(m *vote.Message) vote.Message {
		return vote.Message{Kind: vote.KindYield, Number: m.Number, Serial: m.Serial}
	})
}

// SharesWanted makes a lease shared where the voter may only tell the owner that another node
// waits.
func SharesWanted(cfg node.Config, now vote.Now) (Machine, error) {
	return speaksInstead(cfg, now, vote.KindContended, func(m *vote.Message) vote.Message {
		return vote.Message{Kind: vote.KindDowngrade, Number: m.Number}
	})
}

// speaksInstead answers a kind of the voter's messages in the name of the message's recipient.
func speaksInstead(cfg node.Config, now vote.Now, kind vote.Kind, answer func(m *vote.Message) vote.Message) (Machine, error) {
	d, err := meddle(cfg, now)
	d.says = func(d *Meddler, o *vote.Outbound) {
		if o.Close || o.Message.Kind != kind {
			return
		}
		for _, id := range d.sorted() {
			if s := d.sessions[id]; s.conn == o.Conn && s.stream == o.Message.Stream {
				d.speak(id, answer(&o.Message))
			}
		}
	}
	return d, err
}

// Tick keeps the time for messages in the names of others.
func (d *Meddler) Tick(now vote.Now) {
	d.now = now
	d.Node.Tick(now)
}

// Deliver notes the requests of each session.
func (d *Meddler) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	d.now = now
	s := d.sessions[from]
	switch {
	case m.Kind == vote.KindOpen:
		opened := &session{conn: conn, stream: m.Stream, requests: make(map[vote.Number]vote.Key)}
		if s != nil {
			opened.former = s.former
		}
		s = opened
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
	d.Node.Deliver(now, conn, from, m)
}

// Unlink reacts to a broken connection.
func (d *Meddler) Unlink(now vote.Now, conn vote.Conn) {
	d.now = now
	if d.unlinked != nil {
		d.unlinked(d, conn)
	}
	d.Node.Unlink(now, conn)
}

// Drain reacts to the voter's messages.
func (d *Meddler) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	for {
		first := len(out)
		out, ev = d.Node.Drain(out, ev)
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
func (d *Meddler) speak(id vote.SessionID, m vote.Message) {
	if s := d.sessions[id]; s != nil {
		m.Stream = s.stream
		d.Node.Deliver(d.now, s.conn, id, &m)
		d.said = true
	}
}

// releaseAll releases all requests of a session.
func (d *Meddler) releaseAll(id vote.SessionID) {
	for _, n := range slices.Sorted(maps.Keys(d.sessions[id].requests)) {
		d.speak(id, vote.Message{Kind: vote.KindRelease, Number: n})
	}
}

// sorted returns the sessions in an order independent of the map.
func (d *Meddler) sorted() []vote.SessionID {
	return slices.SortedFunc(maps.Keys(d.sessions), func(a, b vote.SessionID) int {
		return vote.Stamp{Owner: a}.Compare(vote.Stamp{Owner: b})
	})
}
