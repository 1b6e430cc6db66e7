package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// numbered is an ordered message, with its place as the number.
func numbered(n int) *vote.Message {
	return &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: vote.Number(n)}
}

func TestOneWritesAtATime(t *testing.T) {
	q := newSendQueue(WireVersion)
	if q.claim() {
		t.Fatal("claimed with nothing to write")
	}
	push(t, q, numbered(1))
	if !q.claim() || q.claim() {
		t.Fatal("not claimed, or by two")
	}
	if q.takeOver() {
		t.Fatal("the writer takes over from somebody who is at it")
	}
	push(t, q, numbered(2))
	if q.claim() {
		t.Fatal("claimed by two")
	}
	if batch, more := q.take(nil); len(messages(t, batch)) != 2 || !more {
		t.Fatal("what came meanwhile isn't found")
	}
	if q.claim() {
		t.Fatal("claimed before the other has found that nothing is left")
	}
	if batch, more := q.take(nil); len(batch) != 0 || !more {
		t.Fatal("something is left")
	}
	push(t, q, &vote.Message{Kind: vote.KindAck})
	if !q.claim() {
		t.Fatal("something urgent waits, and nobody is at it")
	}
}

func TestWhatIsHandedOverIsTheWritersAlone(t *testing.T) {
	q := newSendQueue(WireVersion)
	push(t, q, numbered(1))
	q.claim()
	q.handOver()
	select {
	case <-q.wake:
	default:
		t.Fatal("the writer isn't woken")
	}
	push(t, q, numbered(2))
	if q.claim() {
		t.Fatal("claimed though it was handed over")
	}
	if !q.takeOver() || q.takeOver() {
		t.Fatal("the writer doesn't take over once")
	}
	if q.claim() {
		t.Fatal("claimed while the writer is at it")
	}
	q.take(nil)
	q.take(nil)
	if q.over() {
		t.Fatal("over before its end")
	}
	push(t, q, numbered(3))
	if !q.claim() {
		t.Fatal("not claimed after the writer has done")
	}
}

func TestTheEndOfAQueueIsTheWriters(t *testing.T) {
	t.Run("nobody writes", func(t *testing.T) {
		q := newSendQueue(WireVersion)
		push(t, q, numbered(1))
		q.end()
		<-q.wake
		if q.over() || !q.takeOver() || q.over() {
			t.Fatal("it is over with something to write, or the writer doesn't see to it")
		}
		q.take(nil)
		if q.over() {
			t.Fatal("over while somebody writes")
		}
		q.take(nil)
		if !q.over() {
			t.Fatal("not over with nothing left")
		}
	})
	t.Run("somebody writes", func(t *testing.T) {
		q := newSendQueue(WireVersion)
		push(t, q, numbered(1))
		q.claim()
		q.end()
		<-q.wake
		if q.takeOver() || q.over() {
			t.Fatal("two write")
		}
		q.take(nil)
		q.take(nil)
		<-q.wake // or no goroutine would end the queue
		if !q.over() || !q.takeOver() {
			t.Fatal("not over with nothing left")
		}
	})
	t.Run("the connection has broken", func(t *testing.T) {
		q := newSendQueue(WireVersion)
		push(t, q, numbered(1))
		push(t, q, &vote.Message{Kind: vote.KindAck})
		q.claim()
		q.end()
		q.drop()
		if !q.over() || q.claim() || q.waiting != 0 {
			t.Fatal("something is left to be written to a connection that has broken")
		}
	})
}

// wordsFrom reads the messages of a link to an impostor, and calls f with each.
func wordsFrom(t *testing.T, s *session, f func(m *vote.Message) (more bool)) {
	t.Helper()
	for more := true; more; {
		_, payload, err := s.frames.next(maxFrame)
		if err != nil {
			t.Error(err)
			return
		}
		var m vote.Message
		if err := Decode(payload, &m); err != nil {
			t.Error(err)
			return
		}
		more = f(&m)
	}
}

// While a peer reads nothing, only the connection's writer waits for the peer. Once the peer reads,
// all messages arrive in order.
func TestSendingToAPeerThatReadsNothingDoesNotWait(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			b := open(t, config("b", m.secret))
			s, at := impostor(t, m.secret, b)
			const each, bulk, senders = 400, 40, 4 // far more than the system buffers
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				var all sync.WaitGroup
				for i := range senders {
					all.Go(func() {
						for n := range each {
							b.Queue(at.conn, &vote.Message{Kind: vote.KindRelease, Stream: vote.Stream(i), Number: vote.Number(n)})
							b.Flush(at.conn, n%3 == 0)
							if n%bulk == 0 {
								b.Send(at.conn, bulky(senders+i))
							}
						}
					})
				}
				all.Wait()
			}()
			get(t, sent, "those who send to a peer that reads nothing")
			next := make(map[vote.Stream]vote.Number)
			left := senders * (each + each/bulk)
			wordsFrom(t, s, func(m *vote.Message) bool {
				if m.Kind == vote.KindRelease {
					if m.Number != next[m.Stream] {
						t.Errorf("stream %d: %d where %d belongs", m.Stream, m.Number, next[m.Stream])
						return false
					}
					next[m.Stream]++
				}
				left--
				return left > 0
			})
			if s := b.Stats(); s.Stalled+s.QueueFull+s.Malformed != 0 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// The same while the peer reads: senders write some messages, the writer writes others, and each
// goes on at the place where the other has stopped.
func TestMessagesKeepTheirOrderUnderAnyWriter(t *testing.T) {
	sampled.Computes(t)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			b := open(t, config("b", m.secret))
			s, at := impostor(t, m.secret, b)
			const n, ahead = 800, 60 // so far ahead of the reader that the connection is full now and then
			room := make(chan struct{}, ahead)
			go func() {
				for i := range n {
					room <- struct{}{}
					m := numbered(i)
					if i%4 != 0 {
						m = bulky(0)
						m.Number, m.Kind = vote.Number(i), vote.KindSync
						m.Stream = vote.Stream(i)
					}
					b.Queue(at.conn, m)
					b.Flush(at.conn, i%7 == 0)
				}
			}()
			next := 0
			wordsFrom(t, s, func(m *vote.Message) bool {
				got := int(m.Number)
				if m.Kind == vote.KindSync {
					got = int(m.Stream)
				}
				if got != next {
					t.Errorf("%d where %d belongs", got, next)
					return false
				}
				<-room
				next++
				return next < n
			})
		})
	}
}

// coalesce queues a message for write coalescing, and stops the timer that would have the message
// written.
func coalesce(t *testing.T, s *side, c vote.Conn, m *vote.Message) *link {
	t.Helper()
	l := s.find(c)
	s.Queue(c, m)
	s.Flush(c, true)
	if !l.flushTimer.Stop() {
		return nil // a slow machine: the message has been written already
	}
	return l
}

func TestAWordThatMayWaitGoesAlongWithTheNext(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, _ := pair(t, a, b)
			next, waited := vote.Number(0), 0
			for range 50 {
				l := coalesce(t, a, atA, numbered(int(next)))
				if l != nil {
					waited++
					if len(l.out.ordered) != 1 || len(messages(t, l.out.ordered[0])) != 1 {
						t.Fatal("it was written at once")
					}
				}
				a.Send(atA, numbered(int(next)+1))
				for range 2 {
					if got := get(t, b.received, "a word"); got.m.Number != next {
						t.Fatalf("%d where %d belongs", got.m.Number, next)
					}
					next++
				}
				if l != nil {
					l.flushScheduled.Store(false) // as if the timer had fired and found no message
				}
			}
			if waited == 0 {
				t.Error("no word has waited")
			}
		})
	}
}

func TestAWordThatMayWaitGoesByItselfInTheEnd(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, _ := pair(t, a, b)
			for i := range 20 { // each message sets the timer anew
				a.Queue(atA, numbered(i))
				a.Flush(atA, true)
				if got := get(t, b.received, "a word that nothing else carries along"); got.m.Number != vote.Number(i) {
					t.Fatalf("%d where %d belongs", got.m.Number, i)
				}
			}
		})
	}
}

func TestClosingAConnectionWritesWhatWaitsForOthers(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a, b := open(t, config("a", m.secret)), open(t, config("b", m.secret))
			atA, _ := pair(t, a, b)
			l := a.find(atA)
			coalesce(t, a, atA, numbered(7))
			a.CloseConn(atA)
			if end := get(t, b.closed, "the end"); !errors.Is(end.err, io.EOF) {
				t.Fatalf("told %v", end.err)
			}
			if len(b.received) != 1 || (<-b.received).m.Number != 7 {
				t.Fatal("the word that waited is lost")
			}
			get(t, a.closed, "the end")
			if l.flushTimer.Stop() {
				t.Error("a timer runs for a link that has ended")
			}
		})
	}
}

// A link that breaks stops its timer.
func TestNothingWaitsForALinkThatIsGone(t *testing.T) {
	a, b := open(t, config("a", nil)), open(t, config("b", nil))
	atA, _ := pair(t, a, b)
	l := a.find(atA)
	a.Queue(atA, numbered(1))
	l.flushScheduled.Store(true)
	l.flushTimer.Reset(patience) // a timer that wouldn't fire in this test
	_ = a.Close()
	if l.flushTimer.Stop() {
		t.Error("a timer runs for a link that has ended")
	}
	a.Flush(atA, true) // to a closed link
	a.Flush(atA, false)
	if l.flushTimer.Stop() {
		t.Error("a timer runs for a link that has ended")
	}
}

// reading is a link that only reads a stream.
func reading(r io.Reader) *link {
	return &link{port: &Port{}, frames: newFrameReader(r), version: WireVersion}
}

// stream returns the frames of some messages.
func stream(t *testing.T, all ...*vote.Message) (b []byte) {
	t.Helper()
	for _, m := range all {
		var err error
		if b, err = appendMessage(b, WireVersion, m); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// batchesOf reads batches until an error, and returns the number of messages of each batch; the
// last batch goes with the error.
func batchesOf(t *testing.T, l *link) (sizes []int, err error) {
	t.Helper()
	next := vote.Number(0)
	for err == nil {
		b := NewBatch()
		err = l.receive(b)
		for i := range b.Messages {
			m := &b.Messages[i]
			if m.Kind == vote.KindSync {
				m.Number = vote.Number(m.Stream)
			}
			if m.Number != next {
				t.Fatalf("%d where %d belongs", m.Number, next)
			}
			next++
		}
		sizes = append(sizes, len(b.Messages))
		b.Free()
	}
	return sizes, err
}

func TestWhatHasComeTogetherIsOneBatch(t *testing.T) {
	var many []*vote.Message
	for i := range 2*batchMessages + 5 {
		many = append(many, numbered(i))
	}
	mixed := []*vote.Message{numbered(0), numbered(1), bulky(2), numbered(3), numbered(4), bulky(5), bulky(6)}
	sum := func(sizes []int) (n int) {
		for _, k := range sizes {
			n += k
		}
		return n
	}
	for _, row := range []struct {
		name string
		from io.Reader
		want []int // nil: as it comes
		n    int
	}{
		{"many", bytes.NewReader(stream(t, many...)), []int{batchMessages, batchMessages, 5, 0}, len(many)},
		{"many, byte by byte", iotest.OneByteReader(bytes.NewReader(stream(t, many...))), nil, len(many)},
		{"many, half by half", iotest.HalfReader(bytes.NewReader(stream(t, many...))), nil, len(many)},
		{"many, with the end on", iotest.DataErrReader(bytes.NewReader(stream(t, many...))), []int{batchMessages, batchMessages, 5, 0}, len(many)},
		{"longer than a read", bytes.NewReader(stream(t, mixed...)), nil, len(mixed)},
		{"longer than a read, half by half", iotest.HalfReader(bytes.NewReader(stream(t, mixed...))), nil, len(mixed)},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := reading(row.from)
			sizes, err := batchesOf(t, l)
			if err != io.EOF || sum(sizes) != row.n {
				t.Fatalf("batches of %v, error %v", sizes, err)
			}
			for i, k := range sizes {
				if k > batchMessages || k == 0 && i < len(sizes)-1 || row.want != nil && (i >= len(row.want) || k != row.want[i]) {
					t.Fatalf("batches of %v", sizes)
				}
			}
			if got := l.port.count.receivedMessages.Load(); got != uint64(row.n) {
				t.Errorf("%d are counted", got)
			}
		})
	}
}

// A batch doesn't wait for the rest of a partial frame.
func TestABatchDoesNotWaitForMore(t *testing.T) {
	all := stream(t, numbered(0), numbered(1), numbered(2))
	for cut := len(stream(t, numbered(0))); cut < len(all); cut++ {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write(all[:cut])
			_, _ = w.Write(all[cut:]) // needs another read
			_ = w.Close()
		}()
		l := reading(r)
		b := NewBatch()
		if err := l.receive(b); err != nil {
			t.Fatal(err)
		}
		want := 1
		if cut >= len(stream(t, numbered(0), numbered(1))) {
			want = 2
		}
		if len(b.Messages) != want {
			t.Fatalf("cut at %d: %d messages, want %d", cut, len(b.Messages), want)
		}
		_, _ = io.Copy(io.Discard, r)
	}
}

func TestGoodMessagesBeforeABadOneAreDelivered(t *testing.T) {
	for name, bad := range map[string][]byte{
		"a length of zero":      {0, 0, 0, 0},
		"too long":              {0xff, 0xff, 0xff, 0xff, WireVersion},
		"another version":       {0, 0, 0, 2, WireVersion + 1, 1},
		"no message":            frameOf(t, []byte{0xc1}),
		"a message, and more":   frameOf(t, append(encode(t, *numbered(3)), 0, 0)),
		"what is cut off":       stream(t, numbered(3))[:8],
		"what is cut off early": {0, 0},
	} {
		good := stream(t, numbered(0), numbered(1), numbered(2))
		sizes, err := batchesOf(t, reading(bytes.NewReader(append(good, bad...))))
		n := 0
		for _, k := range sizes {
			n += k
		}
		if cut := strings.HasPrefix(name, "what is cut"); n != 3 || cut != errors.Is(err, io.ErrUnexpectedEOF) || cut == errors.Is(err, errMalformed) {
			t.Errorf("%s: batches of %v, error %v", name, sizes, err)
		}
	}
}

// teller is a Handler that keeps the order of its calls.
type teller struct {
	*witness
	told chan string
}

func (h *teller) Received(_ vote.Conn, _ vote.SessionID, b *Batch) {
	for i := range b.Messages {
		h.told <- b.Messages[i].Kind.String()
	}
	b.Free()
}

func (h *teller) Closed(vote.Conn, vote.SessionID, error) { h.told <- "closed" }

func TestALinkThatGetsABadFrameDeliversTheGoodOnesAndEnds(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			h := &teller{newWitness(), make(chan string, 100)}
			cfg := config("b", m.secret)
			cfg.Handler = h
			p, err := Listen(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			x := open(t, config("x", m.secret))
			s, err := x.approach(context.Background(), p.Addr().String(), "b", roleStream)
			if err != nil {
				t.Fatal(err)
			}
			get(t, h.linked, "the link")
			if _, err := s.stream.Write(append(stream(t, numbered(0), numbered(1)), 0, 0, 0, 0)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{vote.KindRelease.String(), vote.KindRelease.String(), "closed"} {
				if got := get(t, h.told, "what the link gives"); got != want {
					t.Fatalf("told %s where %s belongs", got, want)
				}
			}
			if p.Stats().Malformed != 1 {
				t.Errorf("counted %+v", p.Stats())
			}
		})
	}
}
