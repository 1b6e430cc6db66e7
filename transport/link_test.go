package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// pair links a to b and returns the connection on each side.
func pair(t testing.TB, a, b *side) (atA, atB vote.Conn) {
	t.Helper()
	c, err := a.Dial(context.Background(), b.at, b.own.self.Node)
	if err != nil {
		t.Fatal(err)
	}
	la, lb := get(t, a.linked, "the dialer's link"), get(t, b.linked, "the acceptor's link")
	if want := (linked{c, b.own.self, true, false}); la != want {
		t.Fatalf("the dialer was told %+v", la)
	}
	if lb.peer != a.own.self || lb.dialed {
		t.Fatalf("the acceptor was told %+v", lb)
	}
	return la.conn, lb.conn
}

func TestMessagesOfEveryKindGoBothWays(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, atB := pair(t, a, b)
			for k, names := range carried {
				sent, want := full(k), only(full(k), names)
				a.Send(atA, &sent)
				b.Send(atB, &sent)
				sent.Entries[0].Number = 99 // ours again
				for _, side := range []*side{a, b} {
					got := get(t, side.received, "a message")
					if !reflect.DeepEqual(*got.m, want) {
						t.Fatalf("got  %+v\nwant %+v", *got.m, want)
					}
				}
			}
			// just after the write
			testwait.Until(t, "a batch is counted", func() bool { return a.Stats().SentBytes > 0 })
			s := a.Stats()
			if n := uint64(len(carried)); s.SentMessages != n || s.ReceivedMessages != n || s.Links != 1 || s.Dialed != 1 {
				t.Fatalf("counted %+v", s)
			}
		})
	}
}

func TestAStreamKeepsItsOrder(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, _ := pair(t, a, b)
			const n = 5000
			for i := range n {
				a.Send(atA, &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: vote.Number(i)})
				if i%500 == 0 {
					a.Send(atA, bulky(i))
				}
			}
			for next := 0; next < n; {
				got := get(t, b.received, "a message")
				if got.m.Kind != vote.KindRelease {
					continue
				}
				if got.m.Number != vote.Number(next) {
					t.Fatalf("release %d where %d belongs", got.m.Number, next)
				}
				next++
			}
		})
	}
}

func TestManyMaySendAtOnce(t *testing.T) {
	a, b := open(t, config("a", secretA)), open(t, config("b", secretA))
	atA, _ := pair(t, a, b)
	const senders, each = 8, 200
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				a.Send(atA, &vote.Message{Kind: vote.KindRelease, Stream: vote.Stream(s), Number: vote.Number(i)})
			}
		})
	}
	wg.Wait()
	next := map[vote.Stream]vote.Number{}
	for range senders * each {
		got := get(t, b.received, "a message")
		if got.m.Number != next[got.m.Stream] {
			t.Fatalf("stream %d: %d where %d belongs", got.m.Stream, got.m.Number, next[got.m.Stream])
		}
		next[got.m.Stream]++
	}
}

func TestClosingAConnectionSendsWhatWaitsFirst(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, atB := pair(t, a, b)
			for i := range 1000 {
				a.Send(atA, &vote.Message{Kind: vote.KindRelease, Number: vote.Number(i)})
			}
			a.CloseConn(atA)
			a.CloseConn(atA)
			a.Send(atA, &vote.Message{Kind: vote.KindRelease})
			end := get(t, b.closed, "the acceptor's end")
			if end.conn != atB || !errors.Is(end.err, io.EOF) {
				t.Fatalf("the acceptor was told %+v", end)
			}
			if len(b.received) != 1000 {
				t.Fatalf("%d messages came", len(b.received))
			}
			if end := get(t, a.closed, "the dialer's end"); end.conn != atA || !errors.Is(end.err, ErrClosed) {
				t.Fatalf("the dialer was told %+v", end)
			}
			testwait.Until(t, "no link is counted", func() bool { return a.Stats().Links+b.Stats().Links == 0 })
			a.Send(atA, &vote.Message{Kind: vote.KindRelease}) // to a closed link
			a.CloseConn(atA)
		})
	}
}

func TestClosingAPortEndsEveryLinkOnce(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			for range 3 {
				pair(t, a, b)
				pair(t, b, a)
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { _ = a.Close() })
			}
			wg.Wait()
			if len(a.closed) != 6 {
				t.Fatalf("Closed was called %d times before Close returned", len(a.closed))
			}
			for range 6 {
				if end := <-a.closed; !errors.Is(end.err, ErrClosed) {
					t.Fatalf("told %v", end.err)
				}
				get(t, b.closed, "the other side's end")
			}
			_ = b.Close()
			if len(a.closed)+len(b.closed) != 0 {
				t.Fatal("Closed was called twice for a link")
			}
		})
	}
}

func TestAMessageBeyondTheLimitsBreaksTheLink(t *testing.T) {
	a, b := open(t, config("a", secretA)), open(t, config("b", secretA))
	atA, _ := pair(t, a, b)
	a.Send(atA, &vote.Message{Kind: vote.KindRequest})
	if end := get(t, a.closed, "the end"); !errors.Is(end.err, errMalformed) {
		t.Fatalf("told %v", end.err)
	}
}

// impostor is a peer that completes the handshake and then sends arbitrary bytes.
func impostor(t *testing.T, secret []byte, to *side) (*session, linked) {
	t.Helper()
	x := open(t, config("x", secret))
	s, err := x.approach(t.Context(), to.at, to.own.self.Node, roleStream)
	if err != nil {
		t.Fatal(err)
	}
	return s, get(t, to.linked, "the link")
}

func TestBadBytesAfterTheHandshakeEndTheLink(t *testing.T) {
	good := func(payload []byte) []byte { return frameOf(t, payload) }
	long := good(encode(t, *bulky(1)))
	tests := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"random bytes", []byte("GET / HTTP/1.1\r\n\r\n"), errMalformed},
		{"a frame too long", []byte{0, 1, 0, 1, WireVersion}, errMalformed},
		{"a frame of four gigabytes", []byte{0xff, 0xff, 0xff, 0xff, WireVersion}, errMalformed},
		{"a frame of nothing", []byte{0, 0, 0, 0}, errMalformed},
		{"another version", func() []byte { b := good([]byte{0x92, byte(vote.KindProbe), 1}); b[lengthBytes]++; return b }(), errMalformed},
		{"a payload of nothing", good(nil), errMalformed},
		{"deeply nested", good(bytes.Repeat([]byte{0x91}, 60_000)), errMalformed},
		{"an array of four billion", good([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}), errMalformed},
		{"an unknown kind", good(pack(t, 99, 1)), errMalformed},
		{"a truncated frame", long[:len(long)-1], io.ErrUnexpectedEOF},
		{"a truncated length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"nothing more", nil, io.EOF},
	}
	for _, m := range modes {
		for _, tt := range tests {
			t.Run(m.name+"/"+tt.name, func(t *testing.T) {
				b := open(t, config("b", m.secret))
				s, l := impostor(t, m.secret, b)
				probe := good(encode(t, vote.Message{Kind: vote.KindProbeReply, Stream: 1}))
				if _, err := s.stream.Write(append(probe, tt.bytes...)); err != nil {
					t.Fatal(err)
				}
				if tt.want != errMalformed {
					_ = s.socket.CloseWrite()
				}
				end := get(t, b.closed, "the end")
				if end.conn != l.conn || !errors.Is(end.err, tt.want) {
					t.Fatalf("told %v", end.err)
				}
				if len(b.received) != 1 {
					t.Fatalf("%d messages came; the one before belongs to the handler", len(b.received))
				}
				if bad := b.Stats().Malformed == 1; bad != (tt.want == errMalformed) {
					t.Fatalf("counted %+v", b.Stats())
				}
			})
		}
	}
}

func TestAPeerThatTakesNothingOverflowsTheQueue(t *testing.T) {
	b := open(t, config("b", nil))
	_, l := impostor(t, nil, b)
	m := bulky(1)
	for range maxOrdered/maxFrame*2 + 100 { // enough, whatever the system's buffers hold
		b.Send(l.conn, m)
	}
	if end := get(t, b.closed, "the end"); !errors.Is(end.err, ErrQueueFull) {
		t.Fatalf("told %v", end.err)
	}
	if s := b.Stats(); s.QueueFull != 1 {
		t.Fatalf("counted %+v", s)
	}
}

func TestAPeerThatStopsReadingIsCutOff(t *testing.T) {
	hasty := thisBuild
	hasty.writeTimeout = 20 * time.Millisecond
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			b := openBuild(t, config("b", m.secret), hasty)
			_, l := impostor(t, m.secret, b)
			for range 400 {
				b.Send(l.conn, bulky(1))
			}
			if end := get(t, b.closed, "the end"); !errors.Is(end.err, errStalled) {
				t.Fatalf("told %v", end.err)
			}
			if s := b.Stats(); s.Stalled != 1 {
				t.Fatalf("counted %+v", s)
			}
		})
	}
}

func TestClosingAConnectionDoesntWaitLongForAPeerThatTakesNothing(t *testing.T) {
	hasty := thisBuild
	hasty.flushTime, hasty.writeTimeout = 20*time.Millisecond, time.Hour
	b := openBuild(t, config("b", secretA), hasty)
	_, l := impostor(t, secretA, b)
	for range 400 {
		b.Send(l.conn, bulky(1))
	}
	b.CloseConn(l.conn)
	if end := get(t, b.closed, "the end"); !errors.Is(end.err, ErrClosed) {
		t.Fatalf("told %v", end.err)
	}
}

// Finish delivers what was sent just before, though Close follows at once, and doesn't wait long
// for a peer that reads nothing.
func TestFinishDeliversTheLastMessages(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, atB := pair(t, a, b)
			const last = 3000
			for n := range vote.Stream(last) {
				a.Queue(atA, &vote.Message{Kind: vote.KindProbe, Stream: n + 1})
				b.Send(atB, &vote.Message{Kind: vote.KindProbe, Stream: n + 1}) // a hasn't read all of it at its end
			}
			a.Flush(atA, true)
			a.Finish()
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			for n := range vote.Stream(last) {
				if got := get(t, b.received, "a message"); got.m.Stream != n+1 {
					t.Fatalf("message %d, want %d", got.m.Stream, n+1)
				}
			}
			get(t, b.closed, "the end")
		})
	}
}

func TestFinishDoesntWaitLongForAPeerThatReadsNothing(t *testing.T) {
	hasty := thisBuild
	hasty.flushTime, hasty.writeTimeout = 20*time.Millisecond, time.Hour
	for _, messages := range []int{0, 400} {
		b := openBuild(t, config("b", secretA), hasty)
		_, l := impostor(t, secretA, b)
		for range messages {
			b.Send(l.conn, bulky(1))
		}
		b.Finish()
		if end := get(t, b.closed, "the end"); !errors.Is(end.err, ErrClosed) {
			t.Fatalf("told %v", end.err)
		}
	}
}

// While a port waits for a peer that reads nothing, others make no links with the port.
func TestNoLinkIsMadeWithAPortThatFinishes(t *testing.T) {
	hasty := thisBuild
	hasty.flushTime = 100 * time.Millisecond
	a, b := openBuild(t, config("a", nil), hasty), open(t, config("b", nil))
	impostor(t, nil, a) // reads nothing
	finished := make(chan struct{})
	go func() { defer close(finished); a.Finish() }()
	testwait.Until(t, "the port finishes", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.isFinishing })
	if _, err := b.Dial(t.Context(), a.at, "a"); err == nil {
		t.Error("b has a link")
	}
	<-finished
}

// slow is a Handler with a Received that waits for letGo.
type slow struct {
	*witness
	entered chan struct{}
	letGo   chan struct{}
}

func (s *slow) Received(c vote.Conn, peer vote.SessionID, b *Batch) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.letGo
	s.witness.Received(c, peer, b)
}

func TestASlowHandlerHoldsUpItsConnectionOnly(t *testing.T) {
	h := &slow{newWitness(), make(chan struct{}, 1), make(chan struct{})}
	cfg := config("b", nil)
	cfg.Handler = h
	p, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := &side{Port: p, witness: h.witness, at: p.Addr().String()}
	a := open(t, config("a", nil))
	atA, _ := pair(t, a, b)
	a.Send(atA, &vote.Message{Kind: vote.KindRelease})
	get(t, h.entered, "the handler")
	_, atB := pair(t, a, b) // a second connection while the first one's handler waits
	b.Send(atB, &vote.Message{Kind: vote.KindProbe, Stream: 5})
	if got := get(t, a.received, "a message"); got.m.Stream != 5 {
		t.Fatalf("got %+v", got.m)
	}
	close(h.letGo)
	get(t, h.received, "the message that waited")
}

func BenchmarkLink(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			x, y := open(b, config("a", m.secret)), open(b, config("b", m.secret))
			atX, _ := pair(b, x, y)
			msg := full(vote.KindConfirm)
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				x.Send(atX, &msg)
				if sent++; sent%1000 == 0 {
					for range 1000 {
						<-y.received
					}
				}
			}
		})
	}
}
