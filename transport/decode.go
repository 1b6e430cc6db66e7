package transport

import (
	"math"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxWords is the longest array that a message of this version can be.
var maxWords = func() int {
	most := 0
	for k := range layouts {
		most = max(most, layout(vote.Kind(k), true).words())
	}
	return most
}()

// Decode reads one message from a frame into m, replacing what m held. It is total: any bytes give a message within the limits
// of package vote, or an error that wraps [ErrMalformed] and a zero m. It keeps nothing of frame and allocates no more than
// the message's key and entries, whatever lengths the bytes claim.
func Decode(frame []byte, m *vote.Message) error {
	p := parse(frame)
	defer p.done()
	*m = vote.Message{}
	n := p.array(maxWords)
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

// message reads the fields of m's kind, which came in an array of n words.
func (p *parser) message(m *vote.Message, n int) {
	// Only an answer has two lengths, and its length tells which. A valid kind is in the table.
	end := n == layout(m.Kind, true).words()
	has := layout(m.Kind, end)
	if n != has.words() {
		p.fail("%d words of kind %v", n, m.Kind)
		return
	}
	p.fields(m, has)
	if m.Kind == vote.KindAnswer && p.err == nil && m.End != end {
		p.fail("an answer of %d words whose end mark is %v", n, m.End)
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
		m.Key = p.key()
	}
	if has&hasTime != 0 {
		m.Time = vote.Micros(p.int())
	}
	if has&hasBid != 0 {
		m.Bid = p.token()
	}
	if has&hasToken != 0 {
		m.Token = p.token()
	}
	if has&hasMode != 0 {
		m.Mode = p.mode()
	}
	if has&hasTry != 0 {
		m.Try = p.bool()
	}
	if has&hasWon != 0 {
		m.Won = p.bool()
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
	if has&hasTTL != 0 {
		m.TTL = p.duration()
	}
	if has&hasRTT != 0 {
		m.RTT = p.duration()
	}
	if has&hasSent != 0 {
		m.Sent = vote.Instant(p.int())
	}
	if has&hasLife != 0 {
		m.Life = vote.Life(p.uint())
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
	if has&hasRequests != 0 {
		m.Entries = p.entries((*parser).request)
	}
	if has&hasVotes != 0 {
		m.Entries = p.entries((*parser).vote)
	}
}

func (p *parser) entries(one func(*parser, *vote.Entry)) []vote.Entry {
	n := p.array(vote.MaxEntries)
	if p.err != nil || n == 0 {
		return nil
	}
	entries := make([]vote.Entry, n)
	for i := range entries {
		if one(p, &entries[i]); p.err != nil {
			return nil
		}
	}
	return entries
}

func (p *parser) request(e *vote.Entry) {
	p.exactly(requestWords)
	e.Number = vote.Number(p.uint())
	e.Key = p.key()
	e.Time = vote.Micros(p.int())
	e.Bid = p.token()
	e.Mode = p.mode()
	e.Try = p.bool()
	e.Serial = vote.Serial(p.uint())
	e.Yielded = vote.Serial(p.uint())
	e.Token = p.token()
}

func (p *parser) vote(e *vote.Entry) {
	p.exactly(voteWords)
	e.Number = vote.Number(p.uint())
	e.Serial = vote.Serial(p.uint())
	e.Token = p.token()
}
