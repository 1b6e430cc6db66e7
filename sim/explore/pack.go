package explore

import (
	"encoding/binary"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// packer writes states as a few bytes, or reads them back, since a search has a million states
// waiting.
type packer struct {
	buf     []byte
	reading bool
}

func (p *packer) word(n *uint64) {
	if !p.reading {
		p.buf = binary.AppendUvarint(p.buf, *n)
		return
	}
	v, k := binary.Uvarint(p.buf)
	*n, p.buf = v, p.buf[k:]
}

func number[T ~uint8 | ~uint32 | ~uint64](p *packer, n *T) {
	w := uint64(*n)
	p.word(&w)
	*n = T(w)
}

func (p *packer) flags(all ...*bool) {
	var w uint64
	for i, b := range all {
		w |= bit(*b) << i
	}
	p.word(&w)
	for i, b := range all {
		*b = w>>i&1 != 0
	}
}

// state packs or unpacks a state of an explorer.
func (p *packer) state(s *state, x *explorer) {
	nodes, voters := len(x.names), x.o.Voters
	for i := range nodes {
		number(p, &s.nodes[i])
		number(p, &s.incarnations[i])
	}
	for c := range x.clients {
		number(p, &s.locks[c])
		for v := range voters {
			p.flags(&s.unlinkable[c][v])
			for slot := range s.conns[c][v] {
				p.conn(&s.conns[c][v][slot])
			}
		}
	}
	for v := range voters {
		for w := range voters {
			p.question(&s.asks[v][w])
		}
	}
	for _, n := range []*uint8{&s.tick, &s.ticks, &s.breaks, &s.crashes, &s.late} {
		number(p, n)
	}
	for k := range x.o.Keys {
		p.tokens(&s.tokens[k], x.sharing)
	}
}

func (p *packer) conn(k *conn) {
	p.flags(&k.client, &k.voter, &k.noticeLate)
	if !k.client && !k.voter {
		return
	}
	for _, n := range []*uint8{&k.id, &k.incarnation, &k.voterIncarnation, &k.late} {
		number(p, n)
	}
	for l := range k.lanes {
		number(p, &k.lanes[l])
	}
}

func (p *packer) question(q *question) {
	some := q.asked != 0 || q.answers != 0
	p.flags(&some, &q.askedLate, &q.answersLate)
	if some {
		number(p, &q.asked)
		number(p, &q.answers)
	}
}

func (p *packer) tokens(t *tokens, sharing bool) {
	number(p, &t.last)
	p.flags(&t.excused)
	if !sharing {
		return
	}
	t.each(func(n *vote.Token) { number(p, n) })
}
