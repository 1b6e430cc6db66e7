package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// leafLife is the validity claimed by a process's certificate. No peer checks the certificate; the
// short validity tells a human reader that it isn't meant to be kept.
const leafLife = 7 * 24 * time.Hour

// The application protocols (ALPN) that share the port under TLS.
const (
	protoLocks  = "lockmesh/2"
	protoGossip = "lockmesh-gossip/2"

	protoPrefix = "lockmesh" // of all versions
)

// errOtherVersion: the peer speaks TLS, and another version of the protocols.
var errOtherVersion = errors.New("the peer speaks another version of lockmesh's handshake")

// identity holds what a process proves itself with: a certificate that says nothing, for the
// encryption by TLS, and the keys of the secrets, for the proofs that follow: see proof.go.
type identity struct {
	cert tls.Certificate
	keys atomic.Pointer[[]*key] // those that are accepted; the first is sent
}

func newIdentity(secrets [][]byte, now time.Time) (*identity, error) {
	keys, err := newKeys(secrets)
	if err != nil {
		return nil, err
	}
	cert, err := newCertificate(now)
	if err != nil {
		return nil, err
	}
	id := &identity{cert: cert}
	id.keys.Store(&keys)
	return id, nil
}

// newCertificate generates a fresh key and a certificate signed by the key itself. The certificate
// names nothing, and nothing in it depends on the secret: the acceptor sends its certificate to
// peers that have proved nothing yet.
func newCertificate(now time.Time) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: "lockmesh"},
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// all returns the accepted keys; the first is sent.
func (id *identity) all() []*key { return *id.keys.Load() }

// accepts reports whether a key is still accepted.
func (id *identity) accepts(k *key) bool {
	for _, other := range id.all() {
		if other.same(k) {
			return true
		}
	}
	return false
}

// serverConfig returns the TLS configuration for incoming connections.
func (id *identity) serverConfig() *tls.Config {
	c := id.config()
	c.Certificates = []tls.Certificate{id.cert}
	c.NextProtos = []string{protoLocks, protoGossip}
	return c
}

// clientConfig returns the TLS configuration for a dialed connection.
func (id *identity) clientConfig(proto string) *tls.Config {
	c := id.config()
	// The acceptor's certificate proves nothing. The proofs do, and they are bound to the
	// connection.
	c.InsecureSkipVerify = true
	c.NextProtos = []string{proto}
	return c
}

func (id *identity) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// A resumed session would need a proof of its own, and tickets are dated by the wall clock.
		SessionTicketsDisabled: true,
		// Batches are large enough already; small first records would only add system calls.
		DynamicRecordSizingDisabled: true,
	}
}

// isOtherVersion reports whether a TLS handshake failed because the two sides have no protocol in
// common.
func isOtherVersion(err error) bool {
	const noApplicationProtocol = 120 // RFC 7301, section 3.2
	var alert tls.AlertError
	return errors.As(err, &alert) && alert == noApplicationProtocol ||
		isAlert(err, noApplicationProtocol)
}

// isOtherProto reports whether a dialer offers protocols of lockmesh, and none that this build
// speaks.
func isOtherProto(offered []string) bool {
	ours := func(proto string) bool { return proto == protoLocks || proto == protoGossip }
	return !slices.ContainsFunc(offered, ours) &&
		slices.ContainsFunc(offered, func(proto string) bool { return strings.HasPrefix(proto, protoPrefix) })
}

// checkSecrets returns what is wrong with a list of secrets.
func checkSecrets(secrets [][]byte) error {
	if len(secrets) > MaxSecrets {
		return fmt.Errorf("there are %d secrets; at most %d are accepted at a time",
			len(secrets), MaxSecrets)
	}
	for _, s := range secrets {
		if len(s) < MinSecret {
			return fmt.Errorf("the secret has %d bytes; it needs %d at least", len(s), MinSecret)
		}
	}
	return nil
}
