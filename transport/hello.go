package transport

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The handshake, after TLS or the exchange of magic bytes: the dialer sends a hello, and the
// acceptor answers with a welcome or a refusal. Each is a frame of version 0; the payload is an
// array that begins with one of the tags below.
//
// Nodes of all versions must be able to read each other's handshake, if only to say why they can't
// continue. So the form never changes, except that elements may be appended: a node ignores,
// without parsing, all elements after the elements known to its version.
const (
	handshakeVersion = 0

	tagHello   = 1
	tagWelcome = 2
	tagRefusal = 3
)

const (
	// maxHandshake bounds a frame of the handshake: the largest electorate with the longest names
	// needs half of the bound.
	maxHandshake = 16 << 10
	// maxHandshakeFields bounds the elements of the array, including any added by later versions.
	maxHandshakeFields = 64
	// maxAddr bounds an address: the longest host name, and a port.
	maxAddr = 255 + len(":65535")
	// maxText bounds the text of a refusal. Two long lists of voters may exceed the bound and are
	// truncated.
	maxText = 4 << 10
)

// role is the purpose of a dialer's connection.
type role uint8

const (
	roleStream role = 1 // to exchange messages with the voter there
	roleProbe  role = 2 // to probe which node is there; the connection ends with the welcome
)

// hello is the dialer's message.
type hello struct {
	offer
	account vote.Account // zero from an older version, as in welcome and refusal
	role    role
	want    vote.NodeID // the acceptor's expected name; "" if the dialer doesn't know the name
}

// welcome is the acceptor's consent.
type welcome struct {
	offer
	account vote.Account
	version uint8 // the protocol version for both sides to use
}

// refusal is the acceptor's refusal. ReasonNone is for a dialer that is the acceptor itself or
// expects another node.
type refusal struct {
	self   vote.SessionID // the acceptor; its name is "" if the acceptor doesn't disclose the name
	reason vote.Reason
	text   string

	// Set where the terms differ: the acceptor's terms and account. Otherwise terms has no voters,
	// and neither is sent.
	terms   vote.Terms
	account vote.Account
}

func appendHello(b []byte, h *hello) []byte {
	b = appendArray(b, 3+offerFields+laterFields)
	b = appendUint(b, tagHello)
	b = appendOffer(b, &h.offer)
	b = appendUint(b, uint64(h.role))
	b = appendString(b, string(h.want))
	return appendLater(b, &h.account, &h.terms)
}

func appendWelcome(b []byte, w *welcome) []byte {
	b = appendArray(b, 2+offerFields+laterFields)
	b = appendUint(b, tagWelcome)
	b = appendOffer(b, &w.offer)
	b = appendUint(b, uint64(w.version))
	return appendLater(b, &w.account, &w.terms)
}

func appendRefusal(b []byte, r *refusal) []byte {
	words := refusalFields
	if r.hasTerms() {
		words += termsFields + accountFields + birthFields + longestFields
	}
	b = appendArray(b, words)
	b = appendUint(b, tagRefusal)
	b = appendString(b, string(r.self.Node))
	b = appendUint(b, uint64(r.self.Incarnation))
	b = appendUint(b, uint64(r.reason))
	b = appendString(b, cut(r.text, maxText))
	if r.hasTerms() {
		terms := r.terms
		if terms.Birth.Expect > 0 {
			// A version without births demands a founder, and needs one to know that the terms
			// differ.
			terms.Voters = []vote.NodeID{r.self.Node}
		}
		b = appendTerms(b, &terms)
		b = appendAccount(b, &r.account)
		b = appendBirth(b, terms.Birth)
		b = appendLongest(b, &r.account)
	}
	return b
}

// hasTerms reports whether the refusal has the acceptor's terms and account.
func (r *refusal) hasTerms() bool { return len(r.terms.Voters) > 0 || r.terms.Birth.Expect > 0 }

// The number of elements of each part of a handshake. Accounts and a refusal's terms were added
// later, so they follow all other parts, then births, whether a node is converting, and the longest
// TTL of the account. A refusal doesn't tell whether its sender is converting: it tells what the
// receiver differs from.
const (
	offerFields   = 9
	refusalFields = 5
	termsFields   = 3
	accountFields = 4
	birthFields   = 3

	convertingFields = 1
	longestFields    = 1

	// awareFields are the later elements of a build that knows converting nodes.
	awareFields = accountFields + birthFields + convertingFields
	laterFields = awareFields + longestFields
)

// appendLater appends what later versions have added to a hello or a welcome.
func appendLater(b []byte, a *vote.Account, t *Terms) []byte {
	b = appendAccount(b, a)
	b = appendBirth(b, t.Birth)
	b = appendBool(b, t.Converting)
	return appendLongest(b, a)
}

func appendTerms(b []byte, t *vote.Terms) []byte {
	b = appendUint(b, uint64(t.MaxTTL))
	b = appendArray(b, len(t.Voters))
	for _, v := range t.Voters {
		b = appendString(b, string(v))
	}
	return appendBool(b, t.Dynamic)
}

func appendBirth(b []byte, birth vote.Birth) []byte {
	b = appendUint(b, uint64(birth.Expect))
	b = appendUint(b, uint64(birth.MinVoters))
	return appendBool(b, birth.Register)
}

func appendLongest(b []byte, a *vote.Account) []byte {
	return appendUint(b, uint64(max(a.LongestTTL, 0)))
}

func appendAccount(b []byte, a *vote.Account) []byte {
	b = appendUint(b, uint64(a.Standing))
	b = appendUint(b, uint64(max(a.Counted, 0)))
	b = appendUint(b, uint64(max(a.Up, 0)))
	return appendString(b, cut(a.Addr, maxAddr))
}

func appendOffer(b []byte, o *offer) []byte {
	b = appendUint(b, uint64(o.low))
	b = appendUint(b, uint64(o.high))
	b = appendString(b, string(o.self.Node))
	b = appendUint(b, uint64(o.self.Incarnation))
	b = appendString(b, o.terms.Mesh)
	b = appendUint(b, uint64(o.terms.MaxTTL))
	b = appendUint(b, o.rhoPerMille)
	b = appendArray(b, len(o.terms.Voters))
	for _, v := range o.terms.Voters {
		b = appendString(b, string(v))
	}
	return appendBool(b, o.terms.Dynamic)
}

// cut shortens a text to at most n bytes, between two characters, and appends an ellipsis.
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

// decodeHello decodes a dialer's message. Like Decode it is total.
func decodeHello(frame []byte) (h hello, err error) {
	p := parse(frame)
	n := p.handshake(3 + offerFields)
	if tag := p.uint(); tag != tagHello {
		p.fail("a handshake that begins with %d", tag)
	}
	p.offer(&h.offer)
	h.role = role(p.upTo(math.MaxUint8, "role"))
	if p.err == nil && h.role != roleStream && h.role != roleProbe {
		p.fail("role %d is not known", h.role)
	}
	h.want = vote.NodeID(p.string(0, vote.MaxNameLen, "node name"))
	know := p.later(n, 3+offerFields, &h.account, &h.terms.Birth, &h.terms.Converting)
	h.unaware = know < 3+offerFields+awareFields
	if err := p.tail(n, know); err != nil {
		return hello{}, err
	}
	return h, nil
}

// decodeAnswer decodes an acceptor's message: it returns either a welcome, or a refusal, or an
// error.
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
		know := p.later(n, 2+offerFields, &w.account, &w.terms.Birth, &w.terms.Converting)
		w.unaware = know < 2+offerFields+awareFields
		if err := p.tail(n, know); err != nil {
			return nil, nil, err
		}
		return &w, nil, nil
	case tag == tagRefusal:
		var r refusal
		r.self.Node = vote.NodeID(p.string(0, vote.MaxNameLen, "node name"))
		r.self.Incarnation = vote.Incarnation(p.uint())
		r.reason = vote.Reason(p.upTo(math.MaxUint8, "reason"))
		if !r.reason.Valid() {
			r.reason = vote.ReasonTerms // a reason of a later version; the text says more
		}
		r.text = p.string(0, maxText, "text")
		know := refusalFields
		if n >= refusalFields+termsFields {
			r.terms.MaxTTL, r.terms.Voters, r.terms.Dynamic = p.duration(), p.voters(), p.bool()
			if p.err == nil && !r.hasTerms() {
				p.fail("terms without voters")
			}
			know = p.later(n, refusalFields+termsFields, &r.account, &r.terms.Birth, nil)
			if r.terms.Birth.Expect > 0 {
				r.terms.Voters = nil // see appendRefusal
			}
		}
		if err := p.tail(n, know); err != nil {
			return nil, nil, err
		}
		return nil, &r, nil
	default:
		return nil, nil, fmt.Errorf("%w: a handshake that begins with %d", errMalformed, tag)
	}
}

// account reads a node's account, which follows the first elements, if n elements are enough to
// include an account. It returns how many elements are read in all.
func (p *parser) account(n, first int, a *vote.Account) int {
	if p.err != nil || n < first+accountFields {
		return first
	}
	if a.Standing = vote.Standing(p.upTo(math.MaxUint8, "standing")); !a.Standing.Valid() {
		a.Standing = vote.StandingUnknown // a standing of a later version
	}
	a.Counted, a.Up = p.duration(), p.duration()
	a.Addr = p.string(0, maxAddr, "address")
	return first + accountFields
}

// later reads what later versions have added: an account, a birth after it, unless converting is
// nil whether the sender is converting, and the account's longest TTL. It returns how many elements
// are read in all.
func (p *parser) later(n, first int, a *vote.Account, b *vote.Birth, converting *bool) int {
	know := p.account(n, first, a)
	const withoutRegister = birthFields - 1 // as the first version with births has it
	if p.err != nil || n < first+accountFields+withoutRegister {
		return know
	}
	b.Expect, b.MinVoters = int(p.upTo(vote.MaxVoters, "Expect")), int(p.upTo(vote.MaxVoters, "MinVoters"))
	if n < first+accountFields+birthFields {
		return know + withoutRegister
	}
	b.Register = p.bool()
	know += birthFields
	if converting != nil && n > know {
		*converting = p.bool()
		know += convertingFields
	}
	if n > know {
		a.LongestTTL = p.duration()
		know += longestFields
	}
	return know
}

// handshake reads the header of the array, which needs at least least elements.
func (p *parser) handshake(least int) int {
	n := p.array(maxHandshakeFields)
	if p.err == nil && n < least {
		p.fail("a handshake of %d fields", n)
	}
	return n
}

// tail ends the parsing of an array of n elements, know of them known. Elements added by a later
// version are ignored.
func (p *parser) tail(n, know int) error {
	if p.err == nil && n < know {
		p.fail("a handshake of %d fields", n)
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
	o.self.Incarnation = vote.Incarnation(p.uint())
	o.terms.Mesh = p.string(1, maxMeshLen, "mesh name")
	o.terms.MaxTTL = p.duration()
	o.rhoPerMille = p.upTo(1000, "rho")
	o.terms.Voters = p.voters()
	o.terms.Dynamic = p.bool()
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
			p.fail("a list of voters that isn't sorted, or names a voter twice")
		}
	}
	return voters
}
