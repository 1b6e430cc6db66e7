package explore

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// forger counts votes that a voter's answer doesn't list: the votes in the requester's sync for
// which keep holds. A forger changes the messages between nodes only, so a client that is also a
// voter receives its own voter's genuine answers.
type forger struct {
	Machine
	keep    func(f *forger, e *vote.Entry, from vote.SessionID, answer *vote.Message) bool
	streams map[vote.Conn]*forgedStream
	lives   map[vote.NodeID]vote.Incarnation // of the last answers
	gens    map[vote.SessionID]vote.Generation
	tokens  map[votedFor]vote.Token // named by voters
}

type votedFor struct {
	voter  vote.NodeID
	number vote.Number
}

type forgedStream struct {
	stream vote.Stream
	stated []vote.Entry
	said   uint64 // ordered messages behind the sync
	forged []forgedVote
}

// forgedVote is a vote that the voter doesn't know. Acknowledgements are changed to include the
// vote.
type forgedVote struct {
	number vote.Number
	serial vote.Serial
	until  uint64 // the ordered message that gives the vote back; zero if there is none
}

func newForger(cfg node.Config, now vote.Now) (*forger, error) {
	n, err := node.New(cfg, now)
	return &forger{
		Machine: n, streams: map[vote.Conn]*forgedStream{}, lives: map[vote.NodeID]vote.Incarnation{},
		gens: map[vote.SessionID]vote.Generation{}, tokens: map[votedFor]vote.Token{},
	}, err
}

// quietCounts counts the votes that a quiet voter has only recorded.
func quietCounts(cfg node.Config, now vote.Now) (Machine, error) {
	f, err := newForger(cfg, now)
	f.keep = func(_ *forger, e *vote.Entry, _ vote.SessionID, answer *vote.Message) bool {
		return e.Token != 0 && answer.Quiet > 0
	}
	return f, err
}

// keepsVotes still counts the votes of a voter that has restarted.
func keepsVotes(cfg node.Config, now vote.Now) (Machine, error) {
	f, err := newForger(cfg, now)
	f.keep = func(f *forger, e *vote.Entry, from vote.SessionID, _ *vote.Message) bool {
		return e.Serial != 0 && f.lives[from.Node] != 0 && f.lives[from.Node] != from.Incarnation
	}
	return f, err
}

// coversGenerations still counts the votes of a session that has ended at the voter and was created
// anew.
func coversGenerations(cfg node.Config, now vote.Now) (Machine, error) {
	f, err := newForger(cfg, now)
	f.keep = func(f *forger, e *vote.Entry, from vote.SessionID, answer *vote.Message) bool {
		return e.Serial != 0 && f.gens[from] != 0 && f.gens[from] != answer.Generation
	}
	return f, err
}

// onlyAdds still counts votes that the voter's answer to a sync doesn't list.
func onlyAdds(cfg node.Config, now vote.Now) (Machine, error) {
	f, err := newForger(cfg, now)
	f.keep = func(_ *forger, e *vote.Entry, _ vote.SessionID, _ *vote.Message) bool { return e.Serial != 0 }
	return f, err
}

func (f *forger) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = f.Machine.Drain(out, ev)
	for i := first; i < len(out); i++ {
		m := &out[i].Message
		if out[i].Close || !m.Kind.ToVoter() || m.Kind == vote.KindAsk {
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
		f.Machine.Deliver(now, conn, from, m)
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
	f.Machine.Deliver(now, conn, from, m)
}

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
	f.lives[from.Node], f.gens[from] = from.Incarnation, m.Generation
}
