package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func identityOf(t testing.TB, now time.Time, secrets ...[]byte) *identity {
	t.Helper()
	id, err := newIdentity(secrets, now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestEqualSecretsMakeEqualKeysAndOthersOthers(t *testing.T) {
	now := time.Now()
	one, two, other := identityOf(t, now, secretA).all()[0], identityOf(t, now, secretA).all()[0], identityOf(t, now, secretB).all()[0]
	if !bytes.Equal(one.gossip, two.gossip) || !one.same(two) {
		t.Error("one secret made two keys")
	}
	if bytes.Equal(one.gossip, other.gossip) || one.same(other) {
		t.Error("two secrets made one key")
	}
	if len(one.gossip) != gossipKeyBytes || bytes.Equal(one.gossip, one.link) {
		t.Error("the keys of one secret depend on each other")
	}
	if keys := identityOf(t, now, secretA, secretB, secretA).all(); len(keys) != 2 {
		t.Errorf("%d keys of two secrets", len(keys))
	}
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	for _, secrets := range [][][]byte{{make([]byte, MinSecret-1)}, {secretA, nil}, make([][]byte, MaxSecrets+1)} {
		if _, err := newIdentity(secrets, time.Now()); err == nil {
			t.Errorf("%q were taken", secrets)
		}
	}
}

// stranger opens a TLS connection, as a dialing stranger does.
func stranger(t *testing.T, at, proto string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// The bytes shown to a stranger don't depend on the node's name or secret.
func TestAStrangerThatDialsLearnsNothing(t *testing.T) {
	for _, proto := range []string{protoLocks, protoGossip} {
		shown := make(map[string]bool)
		for _, cfg := range []Config{config("a", secretA), config("another", secretB)} {
			p := open(t, cfg)
			c := stranger(t, p.at, proto)
			cert := c.ConnectionState().PeerCertificates[0]
			if got := cert.Subject.String() + cert.Issuer.String(); got != "CN=lockmeshCN=lockmesh" || len(cert.URIs)+len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) != 0 {
				t.Errorf("the certificate says %s", got)
			}
			if err := cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
				t.Errorf("the certificate isn't signed by itself, but by something else: %v", err)
			}
			if _, err := c.Write(bytes.Repeat([]byte{7}, proofBytes)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			shown[string(answer)] = true
			testwait.Until(t, "it is counted and logged", func() bool {
				return p.Stats().Refused[vote.ReasonSecret] == 1 && p.log.has("a peer has another secret")
			})
			if len(p.linked) != 0 {
				t.Error("it was linked")
			}
		}
		if len(shown) != 1 || !shown[string(make([]byte, proofBytes))] {
			t.Errorf("it was shown %v", shown)
		}
	}
}

func TestTwoStartsHaveTwoCertificates(t *testing.T) {
	one, two := identityOf(t, time.Now(), secretA), identityOf(t, time.Now(), secretA)
	if bytes.Equal(one.cert.Certificate[0], two.cert.Certificate[0]) {
		t.Error("one certificate")
	}
	if _, err := x509.ParseCertificate(one.cert.Certificate[0]); err != nil {
		t.Error(err)
	}
}

// shake runs the handshakes in memory and returns the results of both sides.
func shake(t *testing.T, dialer, acceptor *identity, through func(client, server net.Conn)) (dialed, accepted *key, dialErr, acceptErr error) {
	t.Helper()
	clientSide, serverSide := net.Pipe()
	if through != nil {
		relayClient, relayServer := net.Pipe()
		go through(serverSide, relayClient)
		serverSide = relayServer
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer serverSide.Close()
		s := tls.Server(serverSide, acceptor.serverConfig())
		if acceptErr = s.Handshake(); acceptErr == nil {
			accepted, acceptErr = acceptor.demand(s)
		}
	}()
	c := tls.Client(clientSide, dialer.clientConfig(protoLocks))
	if dialErr = c.Handshake(); dialErr == nil {
		dialed, dialErr = dialer.prove(c)
	}
	_ = clientSide.Close()
	get(t, done, "the acceptor")
	return dialed, accepted, dialErr, acceptErr
}

func TestBothSidesProveTheSecretThatTheDialerSends(t *testing.T) {
	secretC := []byte("a third secret, also of bytes")
	for _, row := range []struct {
		dialer, acceptor [][]byte
		ok               bool
	}{
		{[][]byte{secretA}, [][]byte{secretA}, true},
		{[][]byte{secretA}, [][]byte{secretB, secretA}, true},
		{[][]byte{secretA, secretB}, [][]byte{secretB, secretC, secretA}, true},
		{[][]byte{secretB, secretA}, [][]byte{secretA}, false}, // the first is sent, and no other
		{[][]byte{secretA}, [][]byte{secretB}, false},
	} {
		dialer, acceptor := identityOf(t, time.Now(), row.dialer...), identityOf(t, time.Now(), row.acceptor...)
		dialed, accepted, dialErr, acceptErr := shake(t, dialer, acceptor, nil)
		if row.ok {
			if dialErr != nil || acceptErr != nil || !dialed.same(accepted) || !dialed.same(dialer.all()[0]) {
				t.Errorf("%q to %q: %v, %v", row.dialer, row.acceptor, dialErr, acceptErr)
			}
			continue
		}
		var no *RefusedError
		if !errors.As(dialErr, &no) || no.Reason != vote.ReasonSecret || !errors.Is(acceptErr, errNoSecret) {
			t.Errorf("%q to %q: %v, %v", row.dialer, row.acceptor, dialErr, acceptErr)
		}
	}
}

// An attacker on the path ends TLS on both sides, and forwards the proof of each side.
func TestProofsCannotBeRelayed(t *testing.T) {
	attacker := identityOf(t, time.Now(), []byte("the attacker's own secret"))
	relay := func(client, server net.Conn) {
		defer client.Close()
		defer server.Close()
		in, out := tls.Server(client, attacker.serverConfig()), tls.Client(server, attacker.clientConfig(protoLocks))
		if in.Handshake() != nil || out.Handshake() != nil {
			return
		}
		proof := make([]byte, proofBytes)
		if _, err := io.ReadFull(in, proof); err != nil {
			return
		}
		_, _ = out.Write(proof)
		if _, err := io.ReadFull(out, proof); err == nil {
			_, _ = in.Write(proof)
		}
	}
	_, _, dialErr, acceptErr := shake(t, identityOf(t, time.Now(), secretA), identityOf(t, time.Now(), secretA), relay)
	var no *RefusedError
	if !errors.As(dialErr, &no) || no.Reason != vote.ReasonSecret || !errors.Is(acceptErr, errNoSecret) {
		t.Errorf("dialer: %v; acceptor: %v", dialErr, acceptErr)
	}
}

// An acceptor that doesn't know the secret answers with the dialer's own proof, or with any bytes.
func TestAnAcceptorMustProveTheSecret(t *testing.T) {
	for name, answer := range map[string]func(proof []byte) []byte{
		"the dialer's own": func(proof []byte) []byte { return proof },
		"noise":            func([]byte) []byte { return bytes.Repeat([]byte{9}, proofBytes) },
		"too short":        func([]byte) []byte { return []byte{1} },
		"nothing":          func([]byte) []byte { return nil },
	} {
		dialer, fake := identityOf(t, time.Now(), secretA), identityOf(t, time.Now(), secretB)
		a, b := net.Pipe()
		go func() {
			defer b.Close()
			s := tls.Server(b, fake.serverConfig())
			proof := make([]byte, proofBytes)
			if s.Handshake() == nil {
				if _, err := io.ReadFull(s, proof); err == nil {
					_, _ = s.Write(answer(proof))
				}
			}
		}()
		c := tls.Client(a, dialer.clientConfig(protoLocks))
		err := c.Handshake()
		if err == nil {
			_, err = dialer.prove(c)
		}
		if err == nil {
			t.Errorf("%s was taken for a proof", name)
		}
		_ = a.Close()
	}
}

func TestWrongClocksDontKeepNodesApart(t *testing.T) {
	epoch, late := time.Unix(0, 0), time.Date(2399, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, times := range [][2]time.Time{{epoch, time.Now()}, {time.Now(), epoch}, {late, epoch}} {
		if _, _, c, s := shake(t, identityOf(t, times[0], secretA), identityOf(t, times[1], secretA), nil); c != nil || s != nil {
			t.Errorf("%v: %v, %v", times, c, s)
		}
	}
}

func TestAnotherVersionOfTheHandshakeIsNamed(t *testing.T) {
	p := open(t, config("a", secretA))
	_, err := tls.Dial("tcp", p.at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"lockmesh/1"}})
	if !isOtherVersion(err) {
		t.Errorf("%v isn't taken for another version", err)
	}
	testwait.Until(t, "the acceptor names it, too", func() bool {
		return p.Stats().Refused[vote.ReasonTerms] == 1 && p.log.has("refused a peer", "another version of lockmesh's handshake")
	})
	if p.Stats().Garbage != 0 {
		t.Error("a peer of another version is counted as garbage")
	}
	if _, err := tls.Dial("tcp", p.at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protoLocks}, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was served")
	}
}

// knows reports whether places are reserved for an address.
func (s *side) knows(addr netip.Addr) bool {
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	_, known := s.admission.known[addr]
	return known
}

// The secrets change between a dialer's proof and its link: the link is closed, like all other
// links by the dropped secret.
func TestALinkMadeWhileItsSecretIsDroppedIsClosed(t *testing.T) {
	var port atomic.Pointer[side]
	cfg := config("b", secretA)
	cfg.Met = func(*vote.Sighting) {
		if _, err := port.Load().SetSecrets([][]byte{secretB}); err != nil {
			t.Error(err)
		}
	}
	b := open(t, cfg)
	port.Store(b)
	a := open(t, config("a", secretA))
	_, _ = a.Dial(t.Context(), b.at, "b") // the link may be closed before or after Dial returns
	if end := get(t, b.closed, "the end of the link"); !errors.Is(end.err, errDropped) {
		t.Errorf("the link ended with %v", end.err)
	}
}

// The three steps from one secret to another: accept both, send the new secret, drop the old
// secret.
func TestSecretsAreChangedWhileLinksStay(t *testing.T) {
	a, b := open(t, config("a", secretA)), open(t, config("b", secretA))
	link := func(from, to *side, name vote.NodeID) {
		t.Helper()
		if _, err := from.Dial(t.Context(), to.at, name); err != nil {
			t.Fatal(err)
		}
	}
	set := func(p *side, secrets ...[]byte) {
		t.Helper()
		keys, err := p.SetSecrets(secrets)
		if err != nil || len(keys) != len(secrets) {
			t.Fatalf("%d keys: %v", len(keys), err)
		}
	}
	// by returns how many links were made by a secret.
	by := func(p *side, secret []byte) (n int) {
		k := identityOf(t, time.Now(), secret).all()[0]
		for _, l := range *p.links.Load() {
			if l.key.same(k) {
				n++
			}
		}
		return n
	}
	link(a, b, "b")
	testwait.Until(t, "b has the link", func() bool { return b.Stats().Links == 1 })
	if here := netip.MustParseAddr("127.0.0.1"); !b.knows(here) {
		t.Error("the address of a peer that has proved the secret has no reserved place")
	}

	set(a, secretA, secretB)
	link(a, b, "b") // b doesn't know the new secret yet
	set(b, secretA, secretB)
	set(a, secretB, secretA)
	link(a, b, "b")
	testwait.Until(t, "b has all links", func() bool { return b.Stats().Links == 3 })
	set(b, secretB, secretA)
	if old, fresh := by(b, secretA), by(b, secretB); old != 2 || fresh != 1 {
		t.Errorf("b has %d links by the old secret, and %d by the new one", old, fresh)
	}
	link(b, a, "a")

	set(b, secretB)
	testwait.Until(t, "the links by the old secret are closed", func() bool { return b.Stats().Links == 2 && a.Stats().Links == 2 })
	if old, fresh := by(b, secretA), by(b, secretB); old != 0 || fresh != 2 {
		t.Errorf("b has %d links by the old secret, and %d by the new one", old, fresh)
	}
	set(a, secretA) // by mistake
	testwait.Until(t, "all links are closed", func() bool { return a.Stats().Links+b.Stats().Links == 0 })
	if no := refused(t, a, b, "b"); no == nil || no.Reason != vote.ReasonSecret {
		t.Errorf("%v", no)
	}
	set(a, secretB)
	link(a, b, "b")

	for name, secrets := range map[string][][]byte{"none": nil, "a short one": {[]byte("x")}, "too many": make([][]byte, MaxSecrets+1)} {
		if _, err := a.SetSecrets(secrets); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := open(t, config("c", nil)).SetSecrets([][]byte{secretA}); err == nil {
		t.Error("a plain node got a secret")
	}
}
