package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func identityOf(t testing.TB, secret []byte, name vote.NodeID, now time.Time) *identity {
	t.Helper()
	id, err := newIdentity(secret, name, now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func leafOf(t testing.TB, id *identity) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(id.leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEqualSecretsMakeEqualKeysAndOthersOthers(t *testing.T) {
	now := time.Now()
	one, two, other := identityOf(t, secretA, "a", now), identityOf(t, secretA, "b", now), identityOf(t, secretB, "a", now)
	if !bytes.Equal(one.gossip, two.gossip) || !one.roots.Equal(two.roots) {
		t.Fatal("one secret made two gossip keys or authorities")
	}
	if bytes.Equal(one.gossip, other.gossip) || one.roots.Equal(other.roots) {
		t.Fatal("two secrets made one gossip key or authority")
	}
	if len(one.gossip) != gossipKeyBytes {
		t.Fatalf("a gossip key of %d bytes", len(one.gossip))
	}
	if again := identityOf(t, secretA, "a", now); leafOf(t, again).PublicKey.(ed25519.PublicKey).Equal(leafOf(t, one).PublicKey) {
		t.Fatal("two starts share a key")
	}
}

func TestTheGossipKeyIsNotTheAuthoritysKey(t *testing.T) {
	id := identityOf(t, secretA, "a", time.Now())
	seeded, err := newAuthority(ed25519.NewKeyFromSeed(id.gossip))
	if err != nil {
		t.Fatal(err)
	}
	if err := leafOf(t, id).CheckSignatureFrom(seeded); err == nil {
		t.Fatal("whoever has the gossip key can sign certificates")
	}
}

func TestAShortSecretIsAnError(t *testing.T) {
	if _, err := newIdentity(make([]byte, MinSecret-1), "a", time.Now()); err == nil {
		t.Fatal("it was taken")
	}
}

func TestCertificatesCarryEveryName(t *testing.T) {
	for _, name := range []vote.NodeID{"a", "edge-1", "node 7/β%2f", "/x", "..", "a?b#c", "x@y:1", vote.NodeID(bytes.Repeat([]byte("n"), vote.MaxNameLen))} {
		if got := certName(leafOf(t, identityOf(t, secretA, name, time.Now()))); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// shake does the handshake of TLS over a pipe and returns what each side says.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		s := tls.Server(c, server)
		err = s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		served <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := tls.Client(c, client)
	if clientErr = s.Handshake(); clientErr == nil {
		_, clientErr = s.Read(make([]byte, 1)) // in TLS 1.3 a client hears only here that it was refused
	}
	return clientErr, get(t, served, "the server")
}

func TestWrongClocksDontKeepNodesApart(t *testing.T) {
	epoch, late := time.Unix(0, 0), time.Date(2399, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, times := range map[string][2]time.Time{
		"the dialer in 1970":   {epoch, time.Now()},
		"the acceptor in 1970": {time.Now(), epoch},
		"both far off":         {late, epoch},
	} {
		t.Run(name, func(t *testing.T) {
			var a, b vote.NodeID
			client := identityOf(t, secretA, "a", times[0]).clientConfig(protoLocks, &b)
			server := identityOf(t, secretA, "b", times[1]).serverConfig(&a)
			client.Time, server.Time = func() time.Time { return times[0] }, func() time.Time { return times[1] }
			if c, s := shake(t, client, server); c != nil || s != nil {
				t.Fatalf("client: %v; server: %v", c, s)
			}
			if a != "a" || b != "b" {
				t.Fatalf("the names are %q and %q", a, b)
			}
		})
	}
}

func TestStrangersFailOnEitherSide(t *testing.T) {
	now := time.Now()
	ours, theirs := identityOf(t, secretA, "a", now), identityOf(t, secretB, "mallory", now)
	credulous := func(c *tls.Config) *tls.Config {
		c.VerifyConnection = nil
		return c
	}
	t.Run("a dialer who checks nothing", func(t *testing.T) {
		var seen, ignored vote.NodeID
		c, s := shake(t, credulous(theirs.clientConfig(protoLocks, &ignored)), ours.serverConfig(&seen))
		if !errors.Is(s, errStranger) || !isBadCertificate(c) || seen != "mallory" {
			t.Fatalf("server: %v, seen %q; client: %v", s, seen, c)
		}
	})
	t.Run("an acceptor who checks nothing", func(t *testing.T) {
		var seen, ignored vote.NodeID
		c, s := shake(t, ours.clientConfig(protoLocks, &seen), credulous(theirs.serverConfig(&ignored)))
		if !errors.Is(c, errStranger) || !isBadCertificate(s) || seen != "mallory" {
			t.Fatalf("client: %v, seen %q; server: %v", c, seen, s)
		}
	})
	t.Run("a dialer without a certificate", func(t *testing.T) {
		var seen, ignored vote.NodeID
		client := credulous(theirs.clientConfig(protoLocks, &ignored))
		client.Certificates = nil
		if _, s := shake(t, client, ours.serverConfig(&seen)); s == nil {
			t.Fatal("it was taken")
		}
	})
	t.Run("a certificate that a node has signed", func(t *testing.T) {
		// Whoever steals a node's key, but not the secret, must not become an authority.
		parent := leafOf(t, ours)
		der, err := sign(leafOf(t, theirs), parent, leafOf(t, theirs).PublicKey.(ed25519.PublicKey), ours.leaf.PrivateKey.(ed25519.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		var seen, ignored vote.NodeID
		client := credulous(theirs.clientConfig(protoLocks, &ignored))
		client.Certificates = []tls.Certificate{{
			Certificate: [][]byte{der, ours.leaf.Certificate[0]}, PrivateKey: theirs.leaf.PrivateKey,
		}}
		if _, s := shake(t, client, ours.serverConfig(&seen)); !errors.Is(s, errStranger) {
			t.Fatalf("server: %v", s)
		}
	})
	t.Run("TLS 1.2", func(t *testing.T) {
		var seen, ignored vote.NodeID
		client := ours.clientConfig(protoLocks, &ignored)
		client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		if _, s := shake(t, client, ours.serverConfig(&seen)); s == nil {
			t.Fatal("it was taken")
		}
	})
}
