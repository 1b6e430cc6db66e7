package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// refused dials and expects to be refused.
func refused(t *testing.T, from, to *side, want vote.NodeID) *RefusedError {
	t.Helper()
	c, err := from.Dial(t.Context(), to.at, want)
	var no *RefusedError
	if !errors.As(err, &no) {
		t.Fatalf("conn %d, error %v", c, err)
	}
	if n := from.Stats().Links + to.Stats().Links; n != 0 {
		t.Fatalf("%d links after a refusal", n)
	}
	return no
}

func TestASecretThatDiffersIsToldApartByEitherSide(t *testing.T) {
	a, b := open(t, config("a", secretA)), open(t, config("b", secretB))
	for _, d := range []struct {
		from, to *side
		want     vote.NodeID
	}{{a, b, "b"}, {b, a, "a"}} {
		no := refused(t, d.from, d.to, d.want)
		if no.Reason != vote.ReasonSecret || no.Peer != "" || no.Text != "the peer doesn't accept our secret" {
			t.Fatalf("got %+v", no)
		}
		testwait.Until(t, "the acceptor has counted and logged it", func() bool {
			return d.to.Stats().Refused[vote.ReasonSecret] > 0 && d.to.log.has("another secret")
		})
		if !d.from.log.has("doesn't accept our secret", d.to.at) {
			t.Fatalf("the dialer's log:\n%s", d.from.log)
		}
	}
}

func TestTLSToAPlainNodeAndPlainToASecuredOne(t *testing.T) {
	secured, plain := open(t, config("a", secretA)), open(t, config("b", nil))
	t.Run("TLS to plain", func(t *testing.T) {
		no := refused(t, secured, plain, "b")
		if no.Reason != vote.ReasonSecret || no.Text != "the peer speaks plain text: it has no secret" {
			t.Fatalf("got %+v", no)
		}
		testwait.Until(t, "the plain node has counted and logged it", func() bool {
			return plain.Stats().Refused[vote.ReasonSecret] == 1 && plain.log.has("a peer speaks TLS")
		})
	})
	t.Run("plain to TLS", func(t *testing.T) {
		no := refused(t, plain, secured, "a")
		if no.Reason != vote.ReasonSecret || !strings.Contains(no.Text, "TLS") || !strings.Contains(no.Text, "this node has none") {
			t.Fatalf("got %+v", no)
		}
		testwait.Until(t, "the secured node has counted and logged it", func() bool {
			return secured.Stats().Refused[vote.ReasonSecret] > 0 && secured.log.has("a peer speaks plain text")
		})
	})
	t.Run("gossip", func(t *testing.T) {
		for _, d := range [][2]*side{{secured, plain}, {plain, secured}} {
			_, err := d[0].Gossip().DialTimeout(d[1].at, patience)
			var no *RefusedError
			if !errors.As(err, &no) || no.Reason != vote.ReasonSecret {
				t.Fatalf("error %v", err)
			}
		}
	})
}

func TestTermsThatDifferAreNamedInBothLogs(t *testing.T) {
	other := thisBuild
	tests := []struct {
		name   string
		change func(*Config, *build)
		words  []string
	}{
		{"mesh name", func(c *Config, _ *build) { c.Terms.Mesh = "test-bed" }, []string{"default", "test-bed"}},
		{"MaxTTL", func(c *Config, _ *build) { c.Terms.MaxTTL = 7 * time.Second }, []string{"10s", "7s"}},
		{"voters", func(c *Config, _ *build) { c.Terms.Voters = []vote.NodeID{"a", "b", "z"} }, []string{"[a b c]", "[a b z]"}},
		{"electorate", func(c *Config, _ *build) { c.Terms.Dynamic = true }, []string{"the electorate", "is fixed at a", "is dynamic at b"}},
		{"Expect", func(c *Config, _ *build) {
			c.Terms.Voters, c.Terms.Dynamic, c.Terms.Birth = nil, true, vote.Birth{Expect: 3, MinVoters: 3}
		}, []string{"Expect is 3 at b and not set at a"}},
		{"rho", func(_ *Config, b *build) { b.rhoPerMille = 11 }, []string{"5 per mille", "11 per mille"}},
		{"wire version", func(_ *Config, b *build) { b.low, b.high = 8, 9 }, []string{"version is", "8 to 9"}},
	}
	for _, m := range modes {
		for _, tt := range tests {
			t.Run(m.name+"/"+tt.name, func(t *testing.T) {
				cfg, hers := config("b", m.secret), other
				tt.change(&cfg, &hers)
				a, b := open(t, config("a", m.secret)), openBuild(t, cfg, hers)
				no := refused(t, a, b, "b")
				if no.Reason != vote.ReasonTerms || no.Peer != "b" {
					t.Fatalf("got %+v", no)
				}
				for _, w := range tt.words {
					if !strings.Contains(no.Text, w) || !a.log.has(w) || !b.log.has(w) {
						t.Fatalf("%q is missing in %q or one of the logs:\n%s%s", w, no.Text, a.log, b.log)
					}
				}
				if a.Stats().Refused[vote.ReasonTerms] != 1 || b.Stats().Refused[vote.ReasonTerms] != 1 {
					t.Fatalf("counted %v and %v", a.Stats().Refused, b.Stats().Refused)
				}
			})
		}
	}
}

func TestFixedAndDynamicElectoratesRefuseEachOther(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dynamic := config("b", m.secret)
			dynamic.Terms.Dynamic = true
			a, b := open(t, config("a", m.secret)), open(t, dynamic)
			for _, d := range []struct {
				from, to *side
				want     vote.NodeID
				text     string
			}{
				{a, b, "b", "the electorate is dynamic at b and is fixed at a"},
				{b, a, "a", "the electorate is fixed at a and is dynamic at b"},
			} {
				no := refused(t, d.from, d.to, d.want)
				if no.Reason != vote.ReasonTerms || no.Peer != d.want || no.Text != d.text {
					t.Errorf("got %+v", no)
				}
				if !d.from.log.has(d.text) || !d.to.log.has(d.text) {
					t.Errorf("%q is missing in one of the logs:\n%s%s", d.text, d.from.log, d.to.log)
				}
			}
			// Two nodes with dynamic membership agree: the field arrives.
			twin := config("c", m.secret)
			twin.Terms.Dynamic = true
			if _, err := open(t, twin).Dial(t.Context(), b.at, "b"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestANewerBuildSpeaksTheOlderVersion(t *testing.T) {
	newer := thisBuild
	newer.high = WireVersion + 4
	a, b := open(t, config("a", secretA)), openBuild(t, config("b", secretA), newer)
	if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Dial(t.Context(), a.at, "a"); err != nil {
		t.Fatal(err)
	}
	c := get(t, b.linked, "the link")
	b.Send(c.conn, &vote.Message{Kind: vote.KindProbe, Stream: 3})
	if got := get(t, a.received, "a message"); got.m.Stream != 3 {
		t.Fatalf("got %+v", got)
	}
}

func TestAnotherNodeThanTheWantedOneIsAnErrorWithBothNames(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			_, err := a.Dial(t.Context(), b.at, "c")
			var wrong *WrongNodeError
			if !errors.As(err, &wrong) || wrong.Want != "c" || wrong.Got != "b" {
				t.Fatalf("error %v", err)
			}
			if b.Stats().Accepted != 0 {
				t.Fatal("the acceptor linked nevertheless")
			}
		})
	}
}

func TestOurOwnAddressIsAnErrorOfItsOwn(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a := open(t, config("a", m.secret))
			for _, want := range []vote.NodeID{"a", "b"} {
				if _, err := a.Dial(t.Context(), a.at, want); !errors.Is(err, ErrSelf) {
					t.Fatalf("error %v", err)
				}
			}
			if _, err := a.Probe(t.Context(), a.at); !errors.Is(err, ErrSelf) {
				t.Fatalf("error %v", err)
			}
			if a.Stats().Links != 0 || len(a.linked) != 0 {
				t.Fatal("it linked with itself")
			}
		})
	}
}

func TestAProbeNamesTheNodeAndMakesNoLink(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			twin := config("b", m.secret)
			twin.Self.Incarnation++
			b2 := open(t, twin)
			// a second process of the same name may probe the first
			for _, from := range []*side{a, b2} {
				who, err := from.Probe(t.Context(), b.at)
				if err != nil || who != config("b", nil).Self {
					t.Fatalf("got %v, error %v", who, err)
				}
			}
			testwait.Until(t, "both probes are counted", func() bool { return b.Stats().Probed == 2 })
			if len(a.linked)+len(b.linked) != 0 {
				t.Fatal("a probe was linked")
			}
		})
	}
}

// A refusal tells another mesh from other terms of the same mesh.
func TestARefusalTellsAnotherMesh(t *testing.T) {
	b := open(t, config("b", nil))
	for foreign, edit := range map[bool]func(*Terms){
		true:  func(terms *Terms) { terms.Mesh = "another" },
		false: func(terms *Terms) { terms.MaxTTL *= 2 },
	} {
		cfg := config("a", nil)
		edit(&cfg.Terms)
		var no *RefusedError
		if _, err := open(t, cfg).Probe(t.Context(), b.at); !errors.As(err, &no) || no.Foreign != foreign {
			t.Errorf("foreign %v is wanted: %v", foreign, err)
		}
	}
}

func TestDialRequiresAName(t *testing.T) {
	a := open(t, config("a", nil))
	if _, err := a.Dial(t.Context(), a.at, ""); err == nil {
		t.Fatal("it dialed")
	}
}

// talk connects to a port, writes, and returns all received bytes until the port closes the
// connection.
func talk(t *testing.T, to *side, words []byte) string {
	t.Helper()
	c, err := net.Dial("tcp", to.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(words); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the port never hung up")
	}
	return string(answer)
}

func TestGarbageIsDroppedAndCounted(t *testing.T) {
	hello := func(version uint8, fill func([]byte) []byte) []byte {
		b, err := appendFrame([]byte(magicLocks), version, func(b []byte) ([]byte, error) { return fill(b), nil })
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ok := func(b []byte) []byte { h := largest(); return appendHello(b, &h) }
	tests := []struct {
		name   string
		secret []byte
		words  []byte
	}{
		{"HTTP to a plain node", nil, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"HTTP to a secured node", secretA, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"nearly our magic", nil, []byte("LOCKSMITH")},
		{"zeroes", secretA, make([]byte, 100)},
		{"a hello too long", nil, append([]byte(magicLocks), 0, 0, 0xff, 0xff, 0)},
		{"a hello of four gigabytes", nil, append([]byte(magicLocks), 0xff, 0xff, 0xff, 0xff, 0)},
		{"a hello of another form", nil, hello(1, ok)},
		{"a hello that is none", nil, hello(0, func(b []byte) []byte { return append(b, 0xc0) })},
		{"deeply nested", nil, hello(0, func(b []byte) []byte { return append(b, strings.Repeat("\x91", 10_000)...) })},
		{"half of TLS", secretA, []byte("\x16\x03\x01\x00\x05hello\x16\x03\x01\x00\x05hello")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := open(t, config("a", tt.secret))
			talk(t, p, tt.words)
			testwait.Until(t, "it is counted and logged", func() bool {
				return p.Stats().Garbage == 1 && p.log.has("isn't lockmesh's")
			})
			if len(p.linked) != 0 {
				t.Fatal("it was linked")
			}
		})
	}
	t.Run("TLS without our protocol", func(t *testing.T) {
		p := open(t, config("a", secretA))
		id := identityOf(t, time.Now(), secretA)
		for _, proto := range []string{"h2", ""} {
			cfg := id.clientConfig(proto)
			if proto == "" {
				cfg.NextProtos = nil
			}
			c, err := tls.Dial("tcp", p.at, cfg)
			if err == nil {
				_, err = c.Read(make([]byte, 1))
				_ = c.Close()
			}
			if err == nil {
				t.Fatalf("protocol %q was served", proto)
			}
		}
		testwait.Until(t, "both are counted", func() bool { return p.Stats().Garbage == 2 })
	})
}

// A peer that resets its connection, before or within a message, is not a stranger: the log has no
// line above Debug about the peer.
func TestAConnectionThatIsResetIsNoStrangers(t *testing.T) {
	for name, tt := range map[string]struct {
		secret []byte
		words  string
	}{
		"before a word":                 {nil, ""},
		"after one byte of our magic":   {nil, magicLocks[:1]},
		"after one byte of TLS":         {secretA, "\x16"},
		"after one byte of no protocol": {nil, "x"},
		"in the middle of our magic":    {nil, magicLocks[:3]},
		"after our magic":               {nil, magicLocks},
		"in the middle of a hello":      {nil, magicLocks + "\x00\x00\x00\x20"},
		"in the middle of TLS":          {secretA, "\x16\x03\x01\x02\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, config("a", tt.secret))
			c, err := net.Dial("tcp", p.at)
			if err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, "it is let in", func() bool { return p.Stats().Admission.Open == 1 })
			if _, err := c.Write([]byte(tt.words)); err != nil {
				t.Fatal(err)
			}
			if err := c.(*net.TCPConn).SetLinger(0); err != nil { // Close then resets the connection
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, "it is over", func() bool { return p.Stats().Admission.Open == 0 })
			if p.Stats().Garbage != 0 || p.log.has("level=") {
				t.Errorf("it counts as a stranger's: %+v", p.Stats())
			}
		})
	}
}

func TestAFloodOfGarbageIsAFewLinesInTheLog(t *testing.T) {
	p := open(t, config("a", nil))
	now := time.Now()
	// the port's logger writes there; held so that the clock is changed before the first log line
	p.log.mu.Lock()
	p.Port.log.now = func() time.Time { return now }
	p.log.mu.Unlock()
	for range 20 {
		talk(t, p, []byte("GET / HTTP/1.1"))
	}
	testwait.Until(t, "all are counted", func() bool { return p.Stats().Garbage == 20 })
	if n := strings.Count(p.log.String(), "\n"); n != 1 {
		t.Fatalf("%d lines:\n%s", n, p.log)
	}
}

func TestAMuteConnectionIsDropped(t *testing.T) {
	sampled.Waits(t)
	hasty := thisBuild
	hasty.handshakeTimeout = 20 * time.Millisecond
	for _, words := range []string{"", "L", magicLocks, "\x16\x03\x01"} {
		for _, m := range modes {
			t.Run(fmt.Sprintf("%s/%d bytes", m.name, len(words)), func(t *testing.T) {
				p := openBuild(t, config("a", m.secret), hasty)
				talk(t, p, []byte(words))
			})
		}
	}
}

func TestTooManyBytesBeforeTheHandshakesEndAreAnError(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go func() { _, _ = there.Write(make([]byte, 2*earlyBytes)) }()
	e := newEarlyConn(here)
	if _, err := e.look(10); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, e)
	if !errors.Is(err, errTooMuch) || n != earlyBytes+10 {
		t.Fatalf("%d bytes, error %v", n, err)
	}
	e.trust()
	if _, err := e.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// listener is a server of a test without lockmesh's protocol, and hands over its connections.
func listener(t *testing.T) (addr string, conns <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan net.Conn, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out <- c
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		close(out)
		for c := range out {
			_ = c.Close()
		}
	})
	return l.Addr().String(), out
}

func TestDialingSomethingElseIsAClearError(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			addr, conns := listener(t)
			a := open(t, config("a", m.secret))
			done := make(chan error, 1)
			go func() {
				_, err := a.Dial(t.Context(), addr, "b")
				done <- err
			}()
			c := get(t, conns, "the connection")
			_, _ = io.WriteString(c, "220 mail.example.org ESMTP\r\n")
			if err := get(t, done, "Dial"); !errors.Is(err, errNotLockmesh) {
				t.Fatalf("error %v", err)
			}
			_ = c.Close()
			go func() {
				_, err := a.Dial(t.Context(), addr, "b")
				done <- err
			}()
			_ = get(t, conns, "the connection").Close()
			if err := get(t, done, "Dial"); err == nil {
				t.Fatal("linked with nobody")
			}
		})
	}
}

func TestAnAddressWithoutAListenerIsNamedInTheError(t *testing.T) {
	a, b := open(t, config("a", nil)), open(t, config("b", nil))
	_ = b.Close()
	if _, err := a.Dial(t.Context(), b.at, "b"); err == nil || !strings.Contains(err.Error(), b.at) {
		t.Fatalf("error %v", err)
	}
}

func TestDialEndsWithItsContextWithThePortAndByItself(t *testing.T) {
	for _, m := range modes {
		start := func(t *testing.T) (a *side, cancel func(), done chan error) {
			addr, conns := listener(t)
			a = open(t, config("a", m.secret))
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			done = make(chan error, 1)
			go func() {
				_, err := a.Dial(ctx, addr, "b")
				done <- err
			}()
			c := get(t, conns, "the connection")
			t.Cleanup(func() { _ = c.Close() })
			return a, cancel, done
		}
		t.Run(m.name+"/context", func(t *testing.T) {
			_, cancel, done := start(t)
			cancel()
			if err := get(t, done, "Dial"); !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v", err)
			}
		})
		t.Run(m.name+"/port", func(t *testing.T) {
			a, _, done := start(t)
			_ = a.Close()
			if err := get(t, done, "Dial"); !errors.Is(err, ErrClosed) {
				t.Fatalf("error %v", err)
			}
			if _, err := a.Dial(t.Context(), a.at, "b"); !errors.Is(err, ErrClosed) {
				t.Fatalf("error %v", err)
			}
		})
		t.Run(m.name+"/timeout", func(t *testing.T) {
			hasty := thisBuild
			hasty.handshakeTimeout = 20 * time.Millisecond
			addr, _ := listener(t) // on a busy machine the time is over before there is a connection
			a := openBuild(t, config("a", m.secret), hasty)
			if _, err := a.Dial(t.Context(), addr, "b"); !errors.Is(err, errSlow) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

// A dialer's timer may fire a moment before the timer of the context with the same deadline.
func TestATimeoutNamesItsReason(t *testing.T) {
	a := open(t, config("a", nil))
	expired := func(ctx context.Context) (*session, error) {
		until, _ := ctx.Deadline()
		time.Sleep(time.Until(until))
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	if _, err := a.within(t.Context(), 20*time.Millisecond, expired); !errors.Is(err, errSlow) {
		t.Errorf("of the handshake: error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.within(ctx, time.Hour, expired); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSlow) {
		t.Errorf("of the caller: error %v", err)
	}
}

func TestCloseDoesntWaitForHandshakes(t *testing.T) {
	lazy := thisBuild
	lazy.handshakeTimeout = time.Hour
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			p := openBuild(t, config("a", m.secret), lazy)
			c, err := net.Dial("tcp", p.at)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			testwait.Until(t, "the connection is in its handshake", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.sockets) == 1
			})
			done := make(chan error, 1)
			go func() { done <- p.Close() }()
			get(t, done, "Close")
		})
	}
}

func TestTheDialerChecksTheTermsToo(t *testing.T) {
	a := open(t, config("a", nil))
	tests := []struct {
		name  string
		spoil func(*welcome)
		right func(error) bool
	}{
		{"other terms", func(w *welcome) { w.terms.MaxTTL = time.Second }, isTerms},
		{"another kind of electorate", func(w *welcome) { w.terms.Dynamic = true }, isTerms},
		{"no version in common", func(w *welcome) { w.low, w.high, w.version = 7, 7, 7 }, isTerms},
		{"a version that wasn't agreed", func(w *welcome) { w.version = 1 }, isTerms},
		{"another name", func(w *welcome) { w.self.Node = "z" }, func(err error) bool {
			var wrong *WrongNodeError
			return errors.As(err, &wrong) && wrong.Got == "z" && wrong.Want == "b"
		}},
		{"our own life", func(w *welcome) { w.self = a.own.self }, func(err error) bool { return errors.Is(err, ErrSelf) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, conns := listener(t)
			done := make(chan error, 1)
			go func() {
				_, err := a.Dial(t.Context(), addr, "b")
				done <- err
			}()
			w := welcome{offer: offerOf("b"), version: WireVersion}
			tt.spoil(&w)
			b, err := appendFrame([]byte(magicLocks), handshakeVersion, func(b []byte) ([]byte, error) { return appendWelcome(b, &w), nil })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, conns, "the connection").Write(b); err != nil {
				t.Fatal(err)
			}
			if err := get(t, done, "Dial"); !tt.right(err) {
				t.Fatalf("error %v", err)
			}
		})
	}
	if len(a.linked) != 0 {
		t.Fatal("it linked")
	}
}

func isTerms(err error) bool {
	var no *RefusedError
	return errors.As(err, &no) && no.Reason == vote.ReasonTerms && no.Peer == "b"
}

// When a handshake is refused for its terms, each side learns the terms and the standing of the
// other side: the acceptor from the hello, the dialer from the refusal. The same holds for an
// accepted handshake.
func TestBothSidesLearnTheOthersStanding(t *testing.T) {
	for _, differ := range []bool{false, true} {
		met := map[vote.NodeID]chan vote.Sighting{"a": make(chan vote.Sighting, 4), "b": make(chan vote.Sighting, 4)}
		start := func(name string, standing vote.Standing, voters ...vote.NodeID) *side {
			cfg := config(name, secretA)
			cfg.Terms.Voters = voters
			cfg.Account = func() vote.Account { return vote.Account{Standing: standing, Counted: 3, Up: 5, LongestTTL: 7} }
			cfg.Met = func(s *vote.Sighting) { met[vote.NodeID(name)] <- *s }
			return open(t, cfg)
		}
		theirs := []vote.NodeID{"a", "b"}
		if differ {
			theirs = []vote.NodeID{"b"}
		}
		a, b := start("a", vote.StandingQuiet, "a", "b"), start("b", vote.StandingCounting, theirs...)
		_, err := a.Probe(t.Context(), b.AdvertiseAddr())
		var refused *RefusedError
		if errors.As(err, &refused) != differ {
			t.Fatalf("differ %v: error %v", differ, err)
		}
		want := map[vote.NodeID]vote.Sighting{
			"a": {Peer: b.own.self, Terms: b.own.terms.common(), Account: vote.Account{Standing: vote.StandingCounting, Counted: 3, Up: 5, LongestTTL: 7, Addr: b.AdvertiseAddr()}},
			"b": {Peer: a.own.self, Terms: a.own.terms.common(), Account: vote.Account{Standing: vote.StandingQuiet, Counted: 3, Up: 5, LongestTTL: 7, Addr: a.AdvertiseAddr()}},
		}
		for name, c := range met {
			if got := get(t, c, "what "+string(name)+" learns"); !reflect.DeepEqual(got, want[name]) {
				t.Errorf("%s learned %+v, want %+v", name, got, want[name])
			}
		}
	}
}
