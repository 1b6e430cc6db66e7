package transport

import (
	"math"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxFields is the length of the longest array that a message of this version can be.
var maxFields = func() int {
	most := 0
	for k := range layouts {
		most = max(most, (layout(vote.Kind(k), true) | lateOf(vote.Kind(k), true)).words())
	}
	return most
}()

// Decode reads one message from a frame into m, replacing m's content. Decode is total: any bytes
// yield a message within the limits of package vote, or an error that wraps [errMalformed] and a
// zero m. Decode retains no part of frame and allocates no more than the message's key and entries,
// whatever lengths the bytes claim.
func Decode(frame []byte, m *vote.Message) error {
	p := parse(frame)
	*m = vote.Message{}
	n := p.array(maxFields)
	m.Kind = vote.Kind(p.upTo(math.MaxUint8, "kind"))
	if p.err == nil && !known(m.Kind) {
		p.fail("kind %d is not known", m.Kind)
	}
	if p.err == nil {
		p.message(m, n)
	}
	err := p.end()
	if err != nil {
		*m = vote.Message{}
	}
	return err
}

// message reads the fields of m's kind from an array of n elements.
func (p *parser) message(m *vote.Message, n int) {
	// The number of elements distinguishes the last chunk of an answer, which is longer than the
	// other chunks, and messages with late fields. layouts has an entry for every valid kind.
	end := n >= layout(m.Kind, true).words()
	has := layout(m.Kind, end)
	late := lateOf(m.Kind, end)
	if n == (has | late).words() {
		has |= late
	}
	if n != has.words() {
		p.fail("%d fields of kind %v", n, m.Kind)
		return
	}
	p.fields(m, has)
	if m.Kind == vote.KindAnswer && p.err == nil && m.End != end {
		p.fail("an answer of %d fields with the end mark %v", n, m.End)
	}
}

func (p *parser) fields(m *vote.Message, has fields) {
	if has&hasStream != 0 {
		m.Stream = vote.Stream(p.uint())
	}
	if has&hasEnd != 0 {
		m.End = p.bool()
	}
	if has&hasNumber != 0 {
		m.Number = vote.Number(p.uint())
	}
	if has&hasSerial != 0 {
		m.Serial = vote.Serial(p.uint())
	}
	if has&hasKey != 0 {
		least := 1
		if has&hasPrefix != 0 {
			least = 0 // the empty prefix matches every key
		}
		m.Key = vote.Key(p.string(least, vote.MaxKeyLen, "key"))
	}
	if has&hasTime != 0 {
		m.Time = vote.Micros(p.int())
	}
	if has&hasTokenHint != 0 {
		m.TokenHint = p.token()
	}
	if has&hasToken != 0 {
		m.Token = p.token()
	}
	if has&hasSpec != 0 {
		p.spec(&m.Spec)
	}
	if has&hasSlot != 0 {
		m.Slot = p.slot()
	}
	if has&hasWon != 0 {
		m.Won = p.bool()
	}
	if has&hasLost != 0 {
		m.Lost = p.bool()
	}
	if has&someMarks != 0 {
		if has&hasPermits != 0 {
			m.Permits = uint16(p.slot())
		}
		if has&hasPrefix != 0 {
			m.Prefix = p.bool()
			if m.Key == "" && !m.Prefix {
				p.fail("an empty key")
			}
		}
		if has&hasRevoke != 0 {
			m.Revoke = p.bool()
		}
		if has&hasGap != 0 {
			m.Gap = p.bool()
		}
	}
	if has&someTexts != 0 {
		if has&hasWho != 0 {
			m.Who = p.name()
		}
		if has&hasText != 0 {
			m.Text = p.string(0, vote.MaxTextLen, "text")
		}
		if has&hasVersion != 0 {
			m.Version = p.uint()
		}
		if has&hasSeq != 0 {
			m.Seq = p.uint()
		}
		if has&hasValue != 0 {
			m.Value = p.bytes(vote.MaxValueLen)
		}
		if has&hasReason != 0 {
			m.Reason = p.reason()
		}
		if has&hasNonce != 0 {
			m.Nonce = p.uint()
		}
		if has&hasCounting != 0 {
			m.Counting = p.bool()
		}
	}
	if has&someTimes != 0 {
		if has&hasTTL != 0 {
			m.TTL = p.duration()
		}
		if has&hasRTT != 0 {
			m.RTT = p.duration()
		}
		if has&hasSent != 0 {
			m.Sent = vote.Instant(p.int())
		}
	}
	if has&someState != 0 {
		if has&hasIncarnation != 0 {
			m.Incarnation = vote.Incarnation(p.uint())
		}
		if has&hasGeneration != 0 {
			m.Generation = vote.Generation(p.uint())
		}
		if has&hasReceived != 0 {
			m.Received = p.uint()
		}
		if has&hasProcessed != 0 {
			m.Processed = p.uint()
		}
		if has&hasPushed != 0 {
			m.Pushed = p.uint()
		}
		if has&hasCount != 0 {
			m.Count = p.uint()
		}
		if has&hasHash != 0 {
			m.Hash = p.uint()
		}
		if has&hasQuiet != 0 {
			m.Quiet = p.duration()
		}
		if has&hasWall != 0 {
			m.Wall = vote.Micros(p.int())
		}
		if has&hasClock != 0 {
			m.Clock = vote.Instant(p.int())
		}
	}
	if has&someLists != 0 {
		if has&hasRequests != 0 {
			m.Entries = p.requests()
		}
		if has&hasVotes != 0 {
			m.Entries = p.votes()
		}
		if has&hasViews != 0 {
			m.Views = p.views()
		}
	}
	if has&hasEpoch != 0 {
		m.Epoch = p.uint()
	}
	if has&hasDir != 0 {
		m.Dir = vote.Dir(p.uint())
	}
	if has&hasConsensus != 0 {
		m.Consensus = p.consensus()
	}
	if has&hasHeard != 0 {
		m.Heard = vote.Instant(p.int())
	}
	if has&hasVoid != 0 {
		m.Void = p.bool()
		if p.err == nil && m.Heard == 0 && !m.Void {
			p.fail("optional fields that are all zero")
		}
	}
}

func (p *parser) requests() []vote.Entry {
	n := p.array(vote.MaxEntries)
	if p.err != nil || n == 0 {
		return nil
	}
	entries := make([]vote.Entry, n)
	for i := range entries {
		if p.request(&entries[i]); p.err != nil {
			return nil
		}
	}
	return entries
}

func (p *parser) votes() []vote.Entry {
	n := p.array(vote.MaxEntries)
	if p.err != nil || n == 0 {
		return nil
	}
	entries := make([]vote.Entry, n)
	for i := range entries {
		if p.vote(&entries[i]); p.err != nil {
			return nil
		}
	}
	return entries
}

func (p *parser) spec(w *vote.Spec) {
	words := p.array(specFields)
	if p.err == nil && words < specFields-1 {
		p.fail("an array of %d elements where %d or %d belong", words, specFields-1, specFields)
	}
	w.Key = p.key()
	w.Mode = p.mode()
	w.Try = p.bool()
	w.Permits = uint16(p.slot())
	w.Beside = vote.Number(p.uint())
	w.Length = p.duration()
	w.Delay = p.duration()
	w.MinHold = p.duration()
	if words == specFields {
		w.EndsAfter = p.duration()
		if p.err == nil && w.EndsAfter == 0 {
			p.fail("a lease that ends after zero time")
		}
	}
	if p.err == nil && (w.Mode == vote.Permit) != (w.Permits > 0) {
		p.fail("%d permits with mode %v", w.Permits, w.Mode)
	}
}

func (p *parser) request(e *vote.Entry) {
	p.exactly(requestFields)
	p.spec(&e.Spec)
	e.Number = vote.Number(p.uint())
	e.Time = vote.Micros(p.int())
	e.TokenHint = p.token()
	e.Serial = vote.Serial(p.uint())
	e.Yielded = vote.Serial(p.uint())
	e.Slot = p.slot()
	e.Token = p.token()
}

func (p *parser) vote(e *vote.Entry) {
	p.exactly(voteFields)
	e.Number = vote.Number(p.uint())
	e.Serial = vote.Serial(p.uint())
	e.Slot = p.slot()
	e.Token = p.token()
}

func (p *parser) views() []vote.View {
	n := p.array(vote.MaxViews)
	if p.err != nil || n == 0 {
		return nil
	}
	views := make([]vote.View, n)
	for i := range views {
		if p.view(&views[i]); p.err != nil {
			return nil
		}
	}
	return views
}

func (p *parser) view(s *vote.View) {
	p.exactly(viewFields)
	s.State = vote.State(p.upTo(math.MaxUint8, "state of a view entry"))
	if p.err == nil && !s.State.Valid() {
		p.fail("unknown state %d of a view entry", s.State)
	}
	s.Key = p.key()
	s.Owner.Node = p.name()
	s.Owner.Incarnation = vote.Incarnation(p.uint())
	s.Number = vote.Number(p.uint())
	s.Mode = p.mode()
	s.Permits = uint16(p.slot())
	s.Slot = p.slot()
	s.Try = p.bool()
	s.Beside = vote.Number(p.uint())
	s.Token = p.token()
	s.Time = vote.Micros(p.int())
	s.For = p.duration()
	s.Left = p.duration()
	s.Version = p.uint()
	s.Value = p.bytes(vote.MaxValueLen)
}
