package transport

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// messages cuts a batch into its messages.
func messages(t testing.TB, batch []byte) []vote.Message {
	t.Helper()
	var out []vote.Message
	f := newFrameReader(bytes.NewReader(batch))
	for {
		_, payload, err := f.next(maxFrame)
		if err != nil {
			if len(batch) > 0 && err.Error() != "EOF" {
				t.Fatalf("a batch ends within a frame: %v", err)
			}
			return out
		}
		var m vote.Message
		if err := Decode(payload, &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
}

// bulky is an ordered message of nearly a frame.
func bulky(n int) *vote.Message {
	m := &vote.Message{Kind: vote.KindSync, Stream: vote.Stream(n)}
	for range vote.MaxEntries {
		m.Entries = append(m.Entries, vote.Entry{Spec: vote.Spec{Key: vote.Key(strings.Repeat("k", vote.MaxKeyLen)), Mode: vote.Exclusive}})
	}
	return m
}

func push(t testing.TB, q *sendQueue, m *vote.Message) {
	t.Helper()
	if err := q.push(m); err != nil {
		t.Fatal(err)
	}
}

func TestUrgentMessagesOvertakeWhatWaits(t *testing.T) {
	q := newSendQueue(WireVersion)
	for i := range 10 {
		push(t, q, bulky(i))
	}
	first, _ := q.take(nil)
	push(t, q, &vote.Message{Kind: vote.KindAck, Stream: 99})
	second, _ := q.take(nil)
	if got := messages(t, first); got[0].Stream != 0 {
		t.Fatalf("the first batch begins with stream %d", got[0].Stream)
	}
	if got := messages(t, second); got[0].Kind != vote.KindAck || got[1].Kind != vote.KindSync {
		t.Fatalf("the batch after an urgent message came begins with %v and %v", got[0].Kind, got[1].Kind)
	}
}

func TestOrderedMessagesKeepTheirOrderAndBatchesTheirBound(t *testing.T) {
	q := newSendQueue(WireVersion)
	const n = 20_000
	for i := range n {
		push(t, q, &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: vote.Number(i)})
		if i%100 == 0 {
			push(t, q, bulky(1))
		}
	}
	next := 0
	for {
		batch, _ := q.take(nil)
		if len(batch) == 0 {
			break
		}
		if len(batch) > batchBytes+lengthBytes+maxFrame {
			t.Fatalf("a batch of %d bytes", len(batch))
		}
		for _, m := range messages(t, batch) {
			if m.Kind != vote.KindRelease {
				continue
			}
			if m.Number != vote.Number(next) {
				t.Fatalf("release %d where %d belongs", m.Number, next)
			}
			next++
		}
	}
	if next != n || q.waiting != 0 {
		t.Fatalf("%d of %d came out; %d bytes are said to wait", next, n, q.waiting)
	}
}

func TestMessagesQueuedTogetherAreOneBatch(t *testing.T) {
	q := newSendQueue(WireVersion)
	for i := range 100 {
		push(t, q, &vote.Message{Kind: vote.KindRelease, Number: vote.Number(i)})
	}
	push(t, q, &vote.Message{Kind: vote.KindRefresh})
	batch, more := q.take(nil)
	if got := messages(t, batch); len(got) != 101 || !more {
		t.Fatalf("%d messages in the batch, more %v", len(got), more)
	}
}

func TestAFullLaneIsAnErrorAndTheOtherLaneGoesOn(t *testing.T) {
	fill := func(q *sendQueue, m *vote.Message) (err error) {
		for range 1_000_000 {
			if err = q.push(m); err != nil {
				break
			}
		}
		return err
	}
	t.Run("urgent", func(t *testing.T) {
		q := newSendQueue(WireVersion)
		if err := fill(q, &vote.Message{Kind: vote.KindAck}); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("error %v", err)
		}
		if len(q.urgent) > maxUrgent {
			t.Fatalf("%d bytes wait", len(q.urgent))
		}
		push(t, q, &vote.Message{Kind: vote.KindRelease})
	})
	t.Run("ordered", func(t *testing.T) {
		q := newSendQueue(WireVersion)
		if err := fill(q, bulky(1)); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("error %v", err)
		}
		if q.waiting > maxOrdered || q.waiting < maxOrdered-maxFrame {
			t.Fatalf("%d bytes wait", q.waiting)
		}
		push(t, q, &vote.Message{Kind: vote.KindAck})
	})
}

func TestAnEndedQueueGivesWhatWaitsAndTakesNothingIn(t *testing.T) {
	q := newSendQueue(WireVersion)
	push(t, q, &vote.Message{Kind: vote.KindRelease})
	q.end()
	push(t, q, &vote.Message{Kind: vote.KindRelease})
	batch, more := q.take(nil)
	if got := messages(t, batch); len(got) != 1 || !more {
		t.Fatalf("%d messages, more %v", len(got), more)
	}
	if batch, more = q.take(nil); len(batch) != 0 || more {
		t.Fatalf("%d bytes, more %v", len(batch), more)
	}
}

func TestAMessageThatCannotBeSentIsAnError(t *testing.T) {
	q := newSendQueue(WireVersion)
	if err := q.push(&vote.Message{Kind: vote.KindRequest}); !errors.Is(err, errMalformed) {
		t.Fatalf("error %v", err)
	}
}

func TestSendingDoesNotAllocateInTheSteadyState(t *testing.T) {
	q := newSendQueue(WireVersion)
	m := full(vote.KindRequest)
	var buf []byte
	n := testing.AllocsPerRun(1000, func() {
		_ = q.push(&m)
		buf, _ = q.take(buf[:0])
	})
	if n > 1 { // the list of chunks
		t.Fatalf("%v allocations for each message that is sent alone", n)
	}
}
