package transport

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The handshake, once the two sides have proved what they are: the dialer sends a hello, the acceptor answers with a welcome or a
// refusal. Each is a frame of version 0 whose payload is an array that begins with one of the tags below.
//
// Nodes of all versions must be able to read each other's, if only to say why they can't go on. So the form never
// changes, except that words may be added at the end: what stands behind the words that a node knows is ignored, unparsed.
const (
	handshakeVersion = 0

	tagHello   = 1
	tagWelcome = 2
	tagRefusal = 3
)

const (
	// maxHandshake bounds a frame of the handshake: the largest electorate with the longest names needs half of it.
	maxHandshake = 16 << 10
	// maxHandshakeWords bounds what later versions may add.
	maxHandshakeWords = 64
	// maxText bounds the text of a refusal. Two long lists of voters may exceed it and are cut.
	maxText = 4 << 10
)

// role is what a dialer wants a connection for.
type role uint8

const (
	roleStream role = 1 // to speak to the voter there
	roleGreet  role = 2 // to learn who is there; the connection ends with the welcome
)

// hello is the dialer's word.
type hello struct {
	offer
	role role
	want vote.NodeID // whom the dialer takes the acceptor for; "" if it doesn't know
}

// welcome is the acceptor's consent.
type welcome struct {
	offer
	version uint8 // what both will speak
}

// refusal is the acceptor's no. ReasonNone goes with a dialer that is the acceptor itself or looks for somebody else.
type refusal struct {
	self   vote.SessionID // who refuses; its name is "" when it doesn't tell
	reason vote.Reason
	text   string
}

func appendHello(b []byte, h *hello) []byte {
	b = appendArray(b, 3+offerWords)
	b = appendUint(b, tagHello)
	b = appendOffer(b, &h.offer)
	b = appendUint(b, uint64(h.role))
	return appendString(b, string(h.want))
}

func appendWelcome(b []byte, w *welcome) []byte {
	b = appendArray(b, 2+offerWords)
	b = appendUint(b, tagWelcome)
	b = appendOffer(b, &w.offer)
	return appendUint(b, uint64(w.version))
}

func appendRefusal(b []byte, r *refusal) []byte {
	b = appendArray(b, 5)
	b = appendUint(b, tagRefusal)
	b = appendString(b, string(r.self.Node))
	b = appendUint(b, uint64(r.self.Life))
	b = appendUint(b, uint64(r.reason))
	return appendString(b, cut(r.text, maxText))
}

const offerWords = 9

func appendOffer(b []byte, o *offer) []byte {
	b = appendUint(b, uint64(o.low))
	b = appendUint(b, uint64(o.high))
	b = appendString(b, string(o.self.Node))
	b = appendUint(b, uint64(o.self.Life))
	b = appendString(b, o.terms.Mesh)
	b = appendUint(b, uint64(o.terms.MaxTTL))
	b = appendUint(b, o.rhoPerMille)
	b = appendArray(b, len(o.terms.Voters))
	for _, v := range o.terms.Voters {
		b = appendString(b, string(v))
	}
	return appendBool(b, o.terms.Following)
}

// cut shortens a text to at most n bytes, between two characters, and shows that it did.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	const mark = "..."
	s = s[:n-len(mark)]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + mark
}

// decodeHello reads a dialer's word. Like Decode it is total.
func decodeHello(frame []byte) (h hello, err error) {
	p := parse(frame)
	n := p.handshake(3 + offerWords)
	if tag := p.uint(); tag != tagHello {
		p.fail("a handshake that begins with %d", tag)
	}
	p.offer(&h.offer)
	h.role = role(p.upTo(math.MaxUint8, "role"))
	if p.err == nil && h.role != roleStream && h.role != roleGreet {
		p.fail("role %d is not known", h.role)
	}
	h.want = vote.NodeID(p.string(0, vote.MaxNameLen, "node name"))
	if err := p.tail(n, 3+offerWords); err != nil {
		return hello{}, err
	}
	return h, nil
}

// decodeAnswer reads an acceptor's word: exactly one of the two is returned, or an error.
func decodeAnswer(frame []byte) (*welcome, *refusal, error) {
	p := parse(frame)
	n := p.handshake(2)
	switch tag := p.uint(); {
	case p.err != nil:
		return nil, nil, p.err
	case tag == tagWelcome:
		var w welcome
		p.offer(&w.offer)
		w.version = uint8(p.upTo(math.MaxUint8, "wire version"))
		if err := p.tail(n, 2+offerWords); err != nil {
			return nil, nil, err
		}
		return &w, nil, nil
	case tag == tagRefusal:
		var r refusal
		r.self.Node = vote.NodeID(p.string(0, vote.MaxNameLen, "node name"))
		r.self.Life = vote.Life(p.uint())
		r.reason = vote.Reason(p.upTo(math.MaxUint8, "reason"))
		if !r.reason.Valid() {
			r.reason = vote.ReasonTerms // a later version's; its text says more
		}
		r.text = p.string(0, maxText, "text")
		if err := p.tail(n, 5); err != nil {
			return nil, nil, err
		}
		return nil, &r, nil
	default:
		return nil, nil, fmt.Errorf("%w: a handshake that begins with %d", ErrMalformed, tag)
	}
}

// handshake reads the array's header.
func (p *parser) handshake(least int) int {
	n := p.array(maxHandshakeWords)
	if p.err == nil && n < least {
		p.fail("a handshake of %d words", n)
	}
	return n
}

// tail ends the parsing of an array of n words of which we know so many. What a later version has added is left alone.
func (p *parser) tail(n, know int) error {
	if p.err == nil && n < know {
		p.fail("a handshake of %d words", n)
	}
	if n > know {
		return p.err
	}
	return p.end()
}

func (p *parser) offer(o *offer) {
	o.low = uint8(p.upTo(math.MaxUint8, "wire version"))
	o.high = uint8(p.upTo(math.MaxUint8, "wire version"))
	if p.err == nil && (o.low > o.high || o.low == handshakeVersion) {
		p.fail("wire versions %d to %d", o.low, o.high)
	}
	o.self.Node = p.name()
	o.self.Life = vote.Life(p.uint())
	o.terms.Mesh = p.string(1, MaxMeshLen, "mesh name")
	o.terms.MaxTTL = p.duration()
	o.rhoPerMille = p.upTo(1000, "rho")
	o.terms.Voters = p.voters()
	o.terms.Following = p.bool()
}

func (p *parser) voters() []vote.NodeID {
	n := p.array(vote.MaxVoters)
	if p.err != nil {
		return nil
	}
	voters := make([]vote.NodeID, n)
	for i := range voters {
		voters[i] = p.name()
	}
	for i := 1; i < len(voters) && p.err == nil; i++ {
		if voters[i-1] >= voters[i] {
			p.fail("a list of voters that isn't sorted, or names one twice")
		}
	}
	return voters
}
