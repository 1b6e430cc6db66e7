package transport

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Both sides of a TLS connection prove that they know a secret. The dialer proves first, so that a
// stranger who dials learns nothing: neither a name, nor anything that depends on the secret. Each
// wrong proof costs a connection.
//
//	dialer    HMAC(link key, "dialer" || exporter)
//	acceptor  HMAC(link key, "acceptor" || exporter), by the key of the dialer's proof;
//	          32 zero bytes if no accepted key fits
//
// The exporter is the connection's own (RFC 8446, section 7.5; used as a channel binding as in RFC
// 9266): a proof made for one connection fits no other, so an attacker on the path can't relay it.
// A dialer that reaches an attacker does give the attacker a proof to test guesses with, so a
// secret must be random.

const (
	// MinSecret is the minimum length of a secret in bytes: 128 bits can't be guessed, provided
	// they are random.
	MinSecret = 16

	// MaxSecrets is how many secrets are accepted at a time: two while secrets change, and one more
	// for a change that was interrupted by another. Each costs a computation for each connection.
	MaxSecrets = 3

	proofBytes     = sha256.Size
	gossipKeyBytes = 32 // AES-256, the longest key accepted by memberlist
)

// The HKDF info strings of what is derived from a secret. Each has its own info string, so no key
// reveals anything about another.
const (
	infoGossip = "lockmesh 1 gossip key"
	infoLink   = "lockmesh 2 link key"
)

const exporterLabel = "EXPORTER-lockmesh-proof"

// The prefixes of what the two sides prove.
const (
	asDialer   = "dialer"
	asAcceptor = "acceptor"
)

// errNoSecret: the peer knows none of our secrets.
var errNoSecret = errors.New("the peer has another secret")

// ErrPlain says that a port without a secret can't get one.
var ErrPlain = errors.New("this node was started without a secret, and speaks plain text")

// errDropped says that the secret by which the link was made isn't accepted any more.
var errDropped = errors.New("the secret by which the link was made isn't accepted any more")

// key is what a node derives from one secret.
type key struct {
	link   []byte
	gossip []byte
}

func newKey(secret []byte) (*key, error) {
	var k key
	for _, d := range []struct {
		to   *[]byte
		info string
		n    int
	}{{&k.gossip, infoGossip, gossipKeyBytes}, {&k.link, infoLink, sha256.Size}} {
		var err error
		if *d.to, err = hkdf.Key(sha256.New, secret, nil, d.info, d.n); err != nil {
			return nil, err
		}
	}
	return &k, nil
}

// newKeys derives the keys of all secrets, without duplicates.
func newKeys(secrets [][]byte) (keys []*key, err error) {
	if err := checkSecrets(secrets); err != nil {
		return nil, err
	}
next:
	for _, s := range secrets {
		k, err := newKey(s)
		if err != nil {
			return nil, err
		}
		for _, other := range keys {
			if other.same(k) {
				continue next
			}
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (k *key) same(o *key) bool { return subtle.ConstantTimeCompare(k.link, o.link) == 1 }

// proof returns what a side proves about a connection.
func (k *key) proof(side string, exporter []byte) []byte {
	h := hmac.New(sha256.New, k.link)
	_, _ = h.Write([]byte(side)) // never fails
	_, _ = h.Write(exporter)
	return h.Sum(nil)
}

func exporterOf(t *tls.Conn) ([]byte, error) {
	state := t.ConnectionState()
	return state.ExportKeyingMaterial(exporterLabel, nil, sha256.Size)
}

// prove makes the dialer's proof and checks the acceptor's. It returns the key that both know.
func (id *identity) prove(t *tls.Conn) (*key, error) {
	exporter, err := exporterOf(t)
	if err != nil {
		return nil, err
	}
	k := id.all()[0]
	if _, err := t.Write(k.proof(asDialer, exporter)); err != nil {
		return nil, err
	}
	var answer, zero [proofBytes]byte
	if _, err := io.ReadFull(t, answer[:]); err != nil {
		return nil, err
	}
	switch {
	case hmac.Equal(answer[:], k.proof(asAcceptor, exporter)):
		return k, nil
	case answer == zero:
		return nil, &RefusedError{Reason: vote.ReasonSecret, Text: "the peer doesn't accept our secret"}
	}
	return nil, &RefusedError{Reason: vote.ReasonSecret, Text: "the peer has another secret than ours"}
}

// demand checks the dialer's proof and makes the acceptor's. It returns the key that both know, or
// errNoSecret.
func (id *identity) demand(t *tls.Conn) (*key, error) {
	exporter, err := exporterOf(t)
	if err != nil {
		return nil, err
	}
	var proof, zero [proofBytes]byte
	if _, err := io.ReadFull(t, proof[:]); err != nil {
		return nil, err
	}
	var known *key
	for _, k := range id.all() { // all of them, so that the time says nothing
		if hmac.Equal(proof[:], k.proof(asDialer, exporter)) {
			known = k
		}
	}
	if known == nil {
		_, _ = t.Write(zero[:])
		return nil, errNoSecret
	}
	_, err = t.Write(known.proof(asAcceptor, exporter))
	return known, err
}

// isAlert reports whether the peer aborted the TLS handshake with an alert.
func isAlert(err error, alert uint8) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" &&
		op.Err.Error() == tls.AlertError(alert).Error()
}

// GossipKeys returns the keys for memberlist's packets and streams, derived from the secrets: the
// first encrypts. Nil without a secret. The caller owns the keys.
func (p *Port) GossipKeys() [][]byte {
	if p.identity == nil {
		return nil
	}
	var keys [][]byte
	for _, k := range p.identity.all() {
		keys = append(keys, append([]byte(nil), k.gossip...))
	}
	return keys
}

// SetSecrets changes the accepted secrets; the first is sent. Links made by a secret that isn't
// accepted any more are closed. It returns the new keys for gossip. A port without a secret can't
// get one (ErrPlain), nor the reverse.
func (p *Port) SetSecrets(secrets [][]byte) (gossipKeys [][]byte, err error) {
	switch {
	case p.identity == nil:
		return nil, ErrPlain
	case len(secrets) == 0:
		return nil, errors.New("there must be a secret: this node was started with one")
	}
	keys, err := newKeys(secrets)
	if err != nil {
		return nil, err
	}
	if err := p.gossip.setKeys(keys); err != nil {
		return nil, err
	}
	p.identity.keys.Store(&keys)
	// A link that is registered from here on checks its key itself: see newLink.
	for _, l := range *p.links.Load() {
		if !p.identity.accepts(l.key) {
			l.fail(errDropped)
		}
	}
	return p.GossipKeys(), nil
}
