package transport

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// What is said about electorates, on the wire. An electorate that makes no sense ends the connection, so whoever is told one can rely on
// its form; whether it may follow upon another is not for the codec to say.

// checkElecting holds what goes out to what the receiver enforces.
func checkElecting(e *vote.Electing) error {
	if e == nil {
		return fmt.Errorf("%w: nothing is said about the electorate", ErrMalformed)
	}
	if err := e.Electorate.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if e.Most < 0 || e.Most > vote.MaxVoters {
		return fmt.Errorf("%w: an electorate of up to %d", ErrMalformed, e.Most)
	}
	return nil
}

func appendElecting(b []byte, e *vote.Electing) []byte {
	b = appendArray(b, electingWords)
	b = appendAttempt(b, e.Attempt)
	b = appendAttempt(b, e.Promised)
	b = appendAttempt(b, e.Accepted)
	b = appendElectorate(b, &e.Electorate)
	b = appendUint(b, uint64(e.Dir))
	b = appendUint(b, e.Writes)
	b = appendUint(b, uint64(e.Most))
	b = appendBool(b, e.Founding)
	b = appendBool(b, e.Stuck)
	return appendBool(b, e.Leaving)
}

func appendAttempt(b []byte, a vote.Attempt) []byte {
	b = appendArray(b, attemptWords)
	b = appendUint(b, a.Number)
	return appendUint(b, uint64(a.By))
}

func appendElectorate(b []byte, e *vote.Electorate) []byte {
	b = appendArray(b, electorateWords)
	b = appendUint(b, e.Version)
	b = appendUint(b, e.Lineage)
	b = appendUint(b, uint64(e.Floor))
	b = appendElectors(b, e.Voters)
	return appendElectors(b, e.Old)
}

func appendElectors(b []byte, all []vote.Elector) []byte {
	b = appendArray(b, len(all))
	for _, v := range all {
		b = appendArray(b, electorWords)
		b = appendString(b, string(v.Name))
		b = appendUint(b, uint64(v.Dir))
	}
	return b
}

func (p *parser) electing() *vote.Electing {
	p.exactly(electingWords)
	e := &vote.Electing{Attempt: p.attempt(), Promised: p.attempt(), Accepted: p.attempt(), Electorate: p.electorate()}
	e.Dir = vote.Dir(p.uint())
	e.Writes = p.uint()
	e.Most = int(p.upTo(vote.MaxVoters, "size of an electorate"))
	e.Founding = p.bool()
	e.Stuck = p.bool()
	e.Leaving = p.bool()
	if p.err != nil {
		return nil
	}
	return e
}

func (p *parser) attempt() (a vote.Attempt) {
	p.exactly(attemptWords)
	a.Number = p.uint()
	a.By = vote.Life(p.uint())
	return a
}

func (p *parser) electorate() (e vote.Electorate) {
	p.exactly(electorateWords)
	e.Version = p.uint()
	e.Lineage = p.uint()
	e.Floor = p.token()
	e.Voters = p.electors()
	e.Old = p.electors()
	if p.err == nil {
		if err := e.Check(); err != nil {
			p.fail("%v", err)
		}
	}
	return e
}

func (p *parser) electors() []vote.Elector {
	n := p.array(vote.MaxVoters)
	if p.err != nil || n == 0 {
		return nil
	}
	all := make([]vote.Elector, n)
	for i := range all {
		p.exactly(electorWords)
		all[i].Name = p.name()
		all[i].Dir = vote.Dir(p.uint())
	}
	return all
}
