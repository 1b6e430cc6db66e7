package transport

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// MinSecret is the minimum length of a secret in bytes: 128 bits can't be guessed, provided they
// are random.
const MinSecret = 16

// The HKDF info strings of the keys derived from the secret. Each key has its own info string, so
// no key reveals anything about another.
const (
	infoGossip    = "lockmesh 1 gossip key"
	infoAuthority = "lockmesh 1 certificate authority"
)

const (
	gossipKeyBytes = 32 // AES-256, the longest key accepted by memberlist

	// leafLife is the validity claimed by a node's certificate. No peer checks the validity (see
	// identity.verify); the short validity tells a human reader that the certificate isn't meant to
	// be kept.
	leafLife = 7 * 24 * time.Hour
)

// The application protocols (ALPN) that share the port under TLS.
const (
	protoLocks  = "lockmesh/1"
	protoGossip = "lockmesh-gossip/1"
)

// errStranger : the peer's certificate wasn't signed by the mesh's secret.
var errStranger = errors.New("the certificate wasn't signed by the mesh's secret")

// identity holds the keys that a node derives from the secret: the gossip key, and a certificate
// that proves knowledge of the secret.
//
// The secret yields the key of a certificate authority, the same on each node, so every node can
// verify the certificates of all nodes. Each process generates a fresh key when it starts and signs
// a certificate for the key with the node's name. So a certificate proves knowledge of the secret
// only; the name is a claim, and every process that knows the secret can claim any name.
type identity struct {
	gossip []byte
	roots  *x509.CertPool
	leaf   tls.Certificate
}

func newIdentity(secret []byte, name vote.NodeID, now time.Time) (*identity, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret has %d bytes; it needs %d at least", len(secret), MinSecret)
	}
	gossip, err := hkdf.Key(sha256.New, secret, nil, infoGossip, gossipKeyBytes)
	if err != nil {
		return nil, err
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, infoAuthority, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	authority, err := newAuthority(key)
	if err != nil {
		return nil, err
	}
	leaf, err := newLeaf(authority, key, name, now)
	if err != nil {
		return nil, err
	}
	id := &identity{gossip: gossip, roots: x509.NewCertPool(), leaf: leaf}
	id.roots.AddCert(authority)
	return id, nil
}

// newAuthority creates the certificate of the authority. All its fields are fixed, and Ed25519
// signs without randomness, so every node creates the same certificate. The validity includes any
// time that a broken clock may show.
func newAuthority(key ed25519.PrivateKey) (*x509.Certificate, error) {
	public := key.Public().(ed25519.PublicKey)
	keyID := sha256.Sum256(public)
	der, err := sign(&x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "lockmesh secret"},
		NotBefore:             time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // the authority signs leaves only
		KeyUsage:              x509.KeyUsageCertSign,
		SubjectKeyId:          keyID[:20],
	}, nil, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newLeaf generates a fresh key and a certificate for the key that carries the node's name.
func newLeaf(authority *x509.Certificate, by ed25519.PrivateKey, name vote.NodeID, now time.Time) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := sign(&x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: "lockmesh node"},
		URIs:         []*url.URL{nodeURI(name)},
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, authority, public, by)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// sign creates a certificate; without a parent the certificate is self-signed.
func sign(template, parent *x509.Certificate, public ed25519.PublicKey, by crypto.Signer) ([]byte, error) {
	if parent == nil {
		parent = template
	}
	return x509.CreateCertificate(rand.Reader, template, parent, public, by)
}

// nodeURI encodes a name as the URI in a certificate: a common name is limited to 64 characters,
// and a DNS name to an alphabet.
func nodeURI(name vote.NodeID) *url.URL {
	return &url.URL{Scheme: "lockmesh", Host: "node", Path: "/" + string(name)}
}

// certName returns the name claimed by a certificate; "" if there is none, or none valid.
func certName(cert *x509.Certificate) vote.NodeID {
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != "lockmesh" || cert.URIs[0].Host != "node" {
		return ""
	}
	name := strings.TrimPrefix(cert.URIs[0].Path, "/")
	if len(name) > vote.MaxNameLen || !utf8.ValidString(name) {
		return ""
	}
	return vote.NodeID(name)
}

// verify returns the name in the certificate of a peer that knows the secret. For any other peer,
// verify returns the claimed name and an error.
//
// The chain is verified as of the leaf's own date, not the present: an edge machine with a wall
// clock wrong by hours or years must still find its mesh, or the mesh would refuse nodes for their
// clocks. Expiry would gain nothing here. Expiry limits how long a stolen key serves, but a node's
// key exists only in its process's memory, beside the secret, and an attacker able to read both can
// create certificates of any date. To exclude a node, change the secret.
func (id *identity) verify(state *tls.ConnectionState) (vote.NodeID, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errStranger
	}
	leaf := state.PeerCertificates[0]
	name := certName(leaf)
	_, err := leaf.Verify(x509.VerifyOptions{
		// without intermediates: other certificates from the peer are ignored
		Roots:       id.roots,
		CurrentTime: leaf.NotBefore,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return name, fmt.Errorf("%w: %w", errStranger, err)
	}
	if name == "" {
		return "", fmt.Errorf("%w: it carries no name", errStranger)
	}
	return name, nil
}

// serverConfig returns the TLS configuration for one incoming connection. The name claimed by the
// peer's certificate, proved or not, is stored in seen.
func (id *identity) serverConfig(seen *vote.NodeID) *tls.Config {
	c := id.config(seen)
	c.ClientAuth = tls.RequireAnyClientCert // VerifyConnection verifies the certificate
	c.NextProtos = []string{protoLocks, protoGossip}
	return c
}

// clientConfig returns the TLS configuration for one dialed connection.
func (id *identity) clientConfig(proto string, seen *vote.NodeID) *tls.Config {
	c := id.config(seen)
	// The library's verification needs host names and the wall clock. VerifyConnection replaces it
	// and always runs.
	c.InsecureSkipVerify = true
	c.NextProtos = []string{proto}
	return c
}

func (id *identity) config(seen *vote.NodeID) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{id.leaf},
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			*seen, err = id.verify(&state)
			return err
		},
		// A resumed session would skip certificates, and tickets are dated by the wall clock.
		SessionTicketsDisabled: true,
		// Batches are large enough already; small first records would only add system calls.
		DynamicRecordSizingDisabled: true,
	}
}
