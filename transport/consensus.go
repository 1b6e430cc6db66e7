package transport

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The encoding of messages about electorates. An invalid electorate ends the connection, so
// receivers can rely on the form of an electorate; whether an electorate may succeed another is not
// for the codec to decide.

// checkConsensus applies the receiver's limits to an outgoing Consensus.
func checkConsensus(e *vote.Consensus) error {
	if e == nil {
		return fmt.Errorf("%w: the fields about the electorate are missing", errMalformed)
	}
	if err := e.Electorate.Check(); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if len(e.Contacts) > vote.MaxVoters {
		return fmt.Errorf("%w: contact with %d nodes, more than %d", errMalformed, len(e.Contacts), vote.MaxVoters)
	}
	if e.MaxTTL != 0 && (e.MaxTTL < vote.MinTTL || e.MaxTTL > vote.LongestTTL) {
		return fmt.Errorf("%w: MaxTTL is %v, and may be 0, or %v to %v", errMalformed, e.MaxTTL, vote.MinTTL, vote.LongestTTL)
	}
	if e.MaxVoters < 0 || e.MaxVoters > vote.MaxVoters {
		return fmt.Errorf("%w: MaxVoters is %d, and may be 0 to %d", errMalformed, e.MaxVoters, vote.MaxVoters)
	}
	return nil
}

// withoutMaxTTL returns a message as wire version 1 has it. An electorate with a decided maximum
// TTL can't be told in it.
func withoutMaxTTL(m *vote.Message) (*vote.Message, error) {
	if m.Consensus.Electorate.MaxTTL != 0 {
		return nil, fmt.Errorf("%w: wire version 1 knows no electorate with a MaxTTL", errMalformed)
	}
	old, e := *m, *m.Consensus
	e.MaxTTL = 0
	old.Consensus = &e
	return &old, nil
}

func appendConsensus(b []byte, e *vote.Consensus) []byte {
	words := consensusFields
	switch {
	case e.MaxTTL != 0:
	case len(e.Contacts) > 0:
		words--
	default:
		words -= 2
	}
	b = appendArray(b, words)
	b = appendBallot(b, e.Ballot)
	b = appendBallot(b, e.Promised)
	b = appendBallot(b, e.Accepted)
	b = appendElectorate(b, &e.Electorate)
	b = appendUint(b, uint64(e.Dir))
	b = appendUint(b, e.Writes)
	b = appendUint(b, uint64(e.MaxVoters))
	b = appendBool(b, e.Founding)
	b = appendBool(b, e.Stuck)
	b = appendBool(b, e.Leaving)
	if words >= consensusFields-1 {
		b = appendElectors(b, e.Contacts)
	}
	if words == consensusFields {
		b = appendUint(b, uint64(e.MaxTTL))
	}
	return b
}

func appendBallot(b []byte, a vote.Ballot) []byte {
	b = appendArray(b, ballotFields)
	b = appendUint(b, a.Counter)
	return appendUint(b, uint64(a.By))
}

func appendElectorate(b []byte, e *vote.Electorate) []byte {
	words := electorateFields
	switch {
	case e.MaxTTL != 0:
	case e.Most != 0:
		words -= 2
	default:
		words -= 3
	}
	b = appendArray(b, words)
	b = appendUint(b, e.Version)
	b = appendUint(b, e.Lineage)
	b = appendUint(b, uint64(e.MinToken))
	b = appendElectors(b, e.Voters)
	b = appendElectors(b, e.Old)
	if words >= electorateFields-2 {
		b = appendUint(b, uint64(e.Most))
	}
	if words == electorateFields {
		b = appendUint(b, uint64(e.MaxTTL))
		b = appendUint(b, uint64(e.OldMaxTTL))
	}
	return b
}

func appendElectors(b []byte, all []vote.Elector) []byte {
	b = appendArray(b, len(all))
	for _, v := range all {
		b = appendArray(b, electorFields)
		b = appendString(b, string(v.Name))
		b = appendUint(b, uint64(v.Dir))
	}
	return b
}

func (p *parser) consensus() *vote.Consensus {
	words := p.lastMayLack(consensusFields, 2)
	e := &vote.Consensus{Ballot: p.ballot(), Promised: p.ballot(), Accepted: p.ballot(), Electorate: p.electorate()}
	e.Dir = vote.Dir(p.uint())
	e.Writes = p.uint()
	e.MaxVoters = int(p.upTo(vote.MaxVoters, "size of an electorate"))
	e.Founding = p.bool()
	e.Stuck = p.bool()
	e.Leaving = p.bool()
	if words >= consensusFields-1 {
		if e.Contacts = p.electors(); p.err == nil && e.Contacts == nil && words < consensusFields {
			p.fail("a list of contacts without the sender")
		}
	}
	if words == consensusFields {
		e.MaxTTL = p.setTTL()
	}
	if p.err != nil {
		return nil
	}
	return e
}

func (p *parser) ballot() (a vote.Ballot) {
	p.exactly(ballotFields)
	a.Counter = p.uint()
	a.By = vote.Incarnation(p.uint())
	return a
}

func (p *parser) electorate() (e vote.Electorate) {
	words := p.lastMayLack(electorateFields, 3)
	e.Version = p.uint()
	e.Lineage = p.uint()
	e.MinToken = p.token()
	e.Voters = p.electors()
	e.Old = p.electors()
	if p.err == nil && words == electorateFields-1 {
		p.fail("an electorate of %d elements", words)
	}
	if words >= electorateFields-2 {
		if e.Most = int(p.upTo(vote.MaxVoters, "size of an electorate")); p.err == nil && e.Most == 0 && words < electorateFields {
			p.fail("an electorate of up to 0 voters")
		}
	}
	if words == electorateFields {
		e.MaxTTL, e.OldMaxTTL = p.setTTL(), p.duration()
	}
	if p.err == nil {
		if err := e.Check(); err != nil {
			p.fail("%v", err)
		}
	}
	return e
}

// setTTL reads a maximum TTL, which is left out rather than zero.
func (p *parser) setTTL() time.Duration {
	d := p.duration()
	if p.err == nil && (d < vote.MinTTL || d > vote.LongestTTL) {
		p.fail("a MaxTTL of %v", d)
	}
	return d
}

func (p *parser) electors() []vote.Elector {
	n := p.array(vote.MaxVoters)
	if p.err != nil || n == 0 {
		return nil
	}
	all := make([]vote.Elector, n)
	for i := range all {
		p.exactly(electorFields)
		all[i].Name = p.name()
		all[i].Dir = vote.Dir(p.uint())
	}
	return all
}
