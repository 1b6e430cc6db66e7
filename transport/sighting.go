package transport

import "github.com/lockmesh/lockmesh/internal/vote"

// ownAccount returns this node's account for peers.
func (p *Port) ownAccount() vote.Account {
	var a vote.Account
	if p.account != nil {
		a = p.account()
	}
	a.Addr = p.advertise
	return a
}

// offer returns what this node offers in a handshake that begins now.
func (p *Port) offer() offer {
	o := p.own
	if p.versions != nil {
		o.low, o.high = p.versions()
	}
	if o.terms.Converting && p.converted != nil && p.converted() {
		o.terms.Dynamic, o.terms.Converting = true, false
	}
	return o
}

// reportPeer reports to Config.Met a peer of this mesh, under whatever terms, that has proved
// knowledge of the secret. Without a secret the peer's claims are taken on trust.
func (p *Port) reportPeer(s *session, a vote.Account) {
	peer := &s.peer
	if p.met == nil || peer.self == p.own.self || peer.terms.Mesh != p.own.terms.Mesh {
		return
	}
	terms := peer.terms.common()
	if _, differences := compare(&s.own, peer); differences == "" {
		// Both are configured alike in all that must be equal. A converting node counts as one of
		// either kind.
		terms = p.own.terms.common()
	}
	p.met(&vote.Sighting{Peer: peer.self, Terms: terms, Account: a})
}

// reportRefuser likewise reports a peer that has refused this node because of the terms.
func (p *Port) reportRefuser(no *refusal) {
	if p.met == nil || no.self.Node == "" || no.self == p.own.self || !no.hasTerms() {
		return
	}
	p.met(&vote.Sighting{Peer: no.self, Terms: no.terms, Account: no.account})
}

// common converts the terms to the type shared by all layers.
func (t *Terms) common() vote.Terms {
	return vote.Terms{Voters: t.Voters, MaxTTL: t.MaxTTL, Dynamic: t.Dynamic, Birth: t.Birth}
}

// isFixed reports whether this node is converting and the peer's electorate is fixed.
func (p *Port) isFixed(s *session) bool { return p.own.terms.Converting && s.peer.terms.isFixed() }

// barred returns a refusal if this node accepts no more links.
func (p *Port) barred() *refusal {
	if p.bars == nil {
		return nil
	}
	if text := p.bars(); text != "" {
		return &refusal{self: p.own.self, reason: vote.ReasonNameTaken, text: text}
	}
	return nil
}
