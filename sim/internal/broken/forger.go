package broken

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// forger counts votes that a voter's answer to a sync doesn't list: the votes of the sync for which
// keep returns true. A forger changes the messages between nodes only, so a client that is also a
// voter receives its own voter's genuine answers.
type forger struct {
	*node.Node
	keep         func(f *forger, e *vote.Entry, from vote.SessionID, answer *vote.Message) bool
	streams      map[vote.Conn]*forgedStream
	incarnations map[vote.NodeID]vote.Incarnation // of the last answers
	gens         map[vote.SessionID]vote.Generation
	tokens       map[votedFor]vote.Token // named by voters
	hides        bool                    // see HidesQuiet
}

type votedFor struct {
	voter  vote.NodeID
	number vote.Number
}

type forgedStream struct {
	stream vote.Stream
	stated []vote.Entry
	said   uint64 // ordered messages after the sync
	forged []forgedVote
}

// forgedVote is a vote unknown to the voter. Acknowledgements are changed to include the vote.
type forgedVote struct {
	number vote.Number
	serial vote.Serial
	until  uint64 // the ordered message that gives the vote back; zero if there is none
}

func newForger(
	cfg node.Config, now vote.Now, keep func(f *forger, e *vote.Entry, from vote.SessionID, answer *vote.Message) bool,
) (Machine, error) {
	n, err := node.New(cfg, now)
	return &forger{
		Node: n, keep: keep, streams: map[vote.Conn]*forgedStream{}, incarnations: map[vote.NodeID]vote.Incarnation{},
		gens: map[vote.SessionID]vote.Generation{}, tokens: map[votedFor]vote.Token{},
	}, err
}

// ForgesNothing has the wrapper of the forgers, and breaks no rule.
func ForgesNothing(cfg node.Config, now vote.Now) (Machine, error) {
	return newForger(cfg, now, func(*forger, *vote.Entry, vote.SessionID, *vote.Message) bool { return false })
}

// HidesQuiet has a forger take each voter that answers a sync for a voter that counts, until the
// voter's next acknowledgement. So the requester doesn't prefer other voters in the meantime.
func HidesQuiet(forges Builder) Builder {
	return func(cfg node.Config, now vote.Now) (Machine, error) {
		m, err := forges(cfg, now)
		m.(*forger).hides = true
		return m, err
	}
}

// QuietCounts counts the votes that a quiet voter has only recorded.
func QuietCounts(cfg node.Config, now vote.Now) (Machine, error) {
	return newForger(cfg, now, func(_ *forger, e *vote.Entry, _ vote.SessionID, answer *vote.Message) bool {
		return e.Token != 0 && answer.Quiet > 0
	})
}

// KeepsVotes still counts the votes of a voter that has restarted.
func KeepsVotes(cfg node.Config, now vote.Now) (Machine, error) {
	return newForger(cfg, now, func(f *forger, e *vote.Entry, from vote.SessionID, _ *vote.Message) bool {
		return e.Serial != 0 && f.incarnations[from.Node] != 0 && f.incarnations[from.Node] != from.Incarnation
	})
}

// CoversGenerations still counts the votes of a session that has ended at the voter and was created
// anew.
func CoversGenerations(cfg node.Config, now vote.Now) (Machine, error) {
	return newForger(cfg, now, func(f *forger, e *vote.Entry, from vote.SessionID, answer *vote.Message) bool {
		return e.Serial != 0 && f.gens[from] != 0 && f.gens[from] != answer.Generation
	})
}

// OnlyAdds still counts votes that the voter's answer to a sync doesn't list.
func OnlyAdds(cfg node.Config, now vote.Now) (Machine, error) {
	return newForger(cfg, now, func(_ *forger, e *vote.Entry, _ vote.SessionID, _ *vote.Message) bool { return e.Serial != 0 })
}

func (f *forger) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = f.Node.Drain(out, ev)
	for i := first; i < len(out); i++ {
		m := &out[i].Message
		if out[i].Close || !m.Kind.ToVoter() || m.Kind == vote.KindTokenQuery {
			continue
		}
		s := f.streams[out[i].Conn]
		if m.Kind == vote.KindOpen {
			s = &forgedStream{stream: m.Stream}
			f.streams[out[i].Conn] = s
		}
		switch {
		case s == nil || s.stream != m.Stream || m.Kind == vote.KindOpen || m.Kind.Urgent():
			continue
		case m.Kind == vote.KindSync:
			s.stated = append(s.stated, m.Entries...)
			continue
		}
		s.said++
		for j := range s.forged {
			v := &s.forged[j]
			if v.number == m.Number && v.until == 0 && (m.Kind == vote.KindRelease || m.Kind == vote.KindYield && v.serial == m.Serial) {
				v.until = s.said
			}
		}
	}
	return out, ev
}

func (f *forger) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	s := f.streams[conn]
	if s == nil || s.stream != m.Stream {
		f.Node.Deliver(now, conn, from, m)
		return
	}
	switch m.Kind {
	case vote.KindPromise, vote.KindConfirmed:
		f.tokens[votedFor{from.Node, m.Number}] = m.Token
	case vote.KindAnswer:
		f.forge(s, from, m)
	case vote.KindAck:
		for _, v := range s.forged {
			if v.until == 0 || m.Processed < v.until {
				m.Hash += vote.DigestOfVote(v.serial).Hash
			}
		}
	}
	f.Node.Deliver(now, conn, from, m)
}

// forge adds the forged votes to an answer.
func (f *forger) forge(s *forgedStream, from vote.SessionID, m *vote.Message) {
	if !m.End {
		return
	}
	for i := range s.stated {
		e := &s.stated[i]
		listed := slices.ContainsFunc(m.Entries, func(x vote.Entry) bool { return x.Number == e.Number })
		if listed || !f.keep(f, e, from, m) {
			continue
		}
		serial, token := max(e.Serial, 1), e.Token
		if token == 0 {
			token = f.tokens[votedFor{from.Node, e.Number}]
		}
		m.Entries = append(m.Entries, vote.Entry{Number: e.Number, Serial: serial, Token: token})
		s.forged = append(s.forged, forgedVote{number: e.Number, serial: serial})
	}
	if f.hides {
		m.Quiet = 0
	}
	f.incarnations[from.Node], f.gens[from] = from.Incarnation, m.Generation
}
