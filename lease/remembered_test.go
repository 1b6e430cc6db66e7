package lease

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// far is a watch of a node far away: each answer is delivered, and the next question comes late.
type far struct {
	b           *booth
	key         vote.Key
	seq         uint64
	incarnation vote.Incarnation
}

// ask asks for the events since the last answer. It returns the number of events told at once, and
// whether a gap is told.
func (f *far) ask() (events int, gap bool) {
	m := vote.Message{Kind: vote.KindWatch, Nonce: 7, Spec: vote.Spec{Key: f.key}, Incarnation: f.incarnation, Seq: f.seq}
	return f.take(f.b.v.Step(f.b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil))
}

// take takes an answer to the watch out of the voter's messages.
func (f *far) take(out []vote.Outbound) (events int, gap bool) {
	for _, o := range out {
		if m := &o.Message; m.Kind == vote.KindEvents && m.Nonce == 7 {
			f.seq, f.incarnation = m.Seq, m.Incarnation
			events, gap = events+len(m.Views), gap || m.Gap
		}
	}
	return events, gap
}

// begins has a watch wait for events of a key.
func (b *booth) begins(key vote.Key) *far {
	f := &far{b: b, key: key}
	if _, gap := f.ask(); !gap {
		b.tb.Fatal("a new watch begins with a gap")
	}
	b.cycle(b.sessions[0], "other") // so the voter's newest event isn't the watch's point
	if n, gap := f.ask(); n != 0 || gap {
		b.tb.Fatalf("a watch of a free key is told %d events, a gap: %t", n, gap)
	}
	return f
}

// burst has so many leases of another key begin and end that the voter forgets all older events.
func (b *booth) burst() {
	for range newsMax {
		b.cycle(b.sessions[0], "busy")
	}
	b.refreshAll()
}

// A watch that waits misses nothing, however many events of other keys the voter has forgotten.
func TestAWaitingWatchHasNoGapAfterABurst(t *testing.T) {
	b := newBooth(t, 1)
	f := b.begins("quiet")
	b.burst()
	b.ask(b.sessions[0], "quiet")
	b.win(b.sessions[0])
	if n, gap := f.take(b.out); n != 1 || gap {
		t.Errorf("the watch is told %d events, a gap: %t", n, gap)
	}
}

// A watch that waits misses nothing, even if the voter has forgotten events of other watched keys.
func TestAWaitingWatchHasNoGapThoughEventsOfOtherWatchesAreForgotten(t *testing.T) {
	b := newBooth(t, 1)
	f := b.begins("quiet")
	b.watch("busy", false)
	for range 3 {
		b.burst()
	}
	if lost := b.v.news.lost; lost <= f.seq {
		t.Fatalf("no event after %d is forgotten, the newest such is %d", f.seq, lost)
	}
	b.ask(b.sessions[0], "quiet")
	b.win(b.sessions[0])
	if n, gap := f.take(b.out); n != 1 || gap {
		t.Errorf("the watch is told %d events, a gap: %t", n, gap)
	}
}

// Events of a watched key are remembered while the watch is away, between an answer and the next
// question, though a burst of events of other keys pushes them out.
func TestAWatchThatIsAwayHasNoGapAfterABurst(t *testing.T) {
	sampled.Computes(t)
	for name, c := range map[string]struct {
		away time.Duration
		gap  bool
	}{
		"a round trip":         {0, false},
		"longer than MaxTTL":   {11 * time.Second, true},
		"its connection broke": {-1, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooth(t, 1)
			f := b.begins("quiet")
			if c.away < 0 {
				b.hear(b.v.Unlink(b.now, 99, nil))
			} else {
				b.ask(b.sessions[0], "quiet")
				b.win(b.sessions[0])
				if n, gap := f.take(b.out); n != 1 || gap {
					t.Fatalf("the watch is told %d events, a gap: %t", n, gap)
				}
				b.giveBack(b.sessions[0], b.sessions[0].number) // the watch is away
			}
			for range 3 {
				b.cycle(b.sessions[0], "quiet")
			}
			for waited := time.Duration(0); waited < c.away; waited += time.Second {
				b.pass(time.Second)
				b.refreshAll()
			}
			b.burst()
			b.burst()
			want := 7 // the end of the first lease, and two events of each of three
			if c.away < 0 {
				want = 6
			}
			if c.gap {
				want = 0
			}
			if n, gap := f.ask(); n != want || gap != c.gap {
				t.Errorf("the watch is told %d events, a gap: %t; want %d", n, gap, want)
			}
			b.cycle(b.sessions[0], "quiet")
			if n, gap := f.ask(); !c.gap && (n != 2 || gap) {
				t.Errorf("and then %d events, a gap: %t", n, gap)
			}
		})
	}
}

// A watch that has waited for long asks again from its old point, since its connection broke, or on
// the same connection after a resync. It has missed nothing in between.
func TestAWatchAsksAgainFromItsOldPoint(t *testing.T) {
	sampled.Computes(t)
	for _, breaks := range []bool{false, true} {
		b := newBooth(t, 1)
		f := b.begins("quiet")
		for range 25 {
			b.pass(time.Second) // the interest no longer counts by itself
			b.refreshAll()
		}
		b.burst()
		b.burst()
		if breaks {
			b.hear(b.v.Unlink(b.now, 99, nil))
		}
		if n, gap := f.ask(); n != 0 || gap {
			t.Errorf("connection broke: %t; the watch is told %d events, a gap: %t", breaks, n, gap)
		}
		b.ask(b.sessions[0], "quiet")
		b.win(b.sessions[0])
		if n, gap := f.take(b.out); n != 1 || gap {
			t.Errorf("connection broke: %t; of the next lease the watch is told %d events, a gap: %t", breaks, n, gap)
		}
	}
}

// Of watched keys, too, only so many events are remembered: a watch that is away for longer is told
// of a gap. Answers of many events are cut, and lose none.
func TestEventsOfWatchedKeysAreBounded(t *testing.T) {
	b := newBooth(t, 1)
	f := b.begins("busy")
	b.ask(b.sessions[0], "busy")
	b.win(b.sessions[0])
	if n, _ := f.take(b.out); n != 1 {
		t.Fatalf("told %d events", n)
	}
	b.giveBack(b.sessions[0], b.sessions[0].number)
	from := f.seq
	for range newsMax * 3 / 4 {
		b.cycle(b.sessions[0], "busy")
	}
	if len(b.v.news.older) == 0 {
		t.Fatal("no event was pushed out")
	}
	total := 0
	for {
		n, gap := f.ask()
		if gap {
			t.Fatalf("a gap after %d events", total)
		}
		if n == 0 {
			break
		}
		total += n
	}
	if want := int(b.v.news.seq - from); total != want {
		t.Errorf("told %d events of %d", total, want)
	}
	b.ask(b.sessions[0], "busy") // the watch is away again
	b.win(b.sessions[0])
	f.take(b.out)
	for range 2 * newsMax {
		b.giveBack(b.sessions[0], b.sessions[0].number)
		b.ask(b.sessions[0], "busy")
		b.win(b.sessions[0])
	}
	if n := len(b.v.news.older); n > newsMax {
		t.Errorf("%d older events are remembered", n)
	}
	if _, gap := f.ask(); !gap {
		t.Error("the voter has forgotten events that the watch missed, and tells no gap")
	}
}
