package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// booth is a voter out of its startup quarantine, with sessions that send one message at a time.
// The booth allocates nothing, so that a benchmark measures the voter alone.
type booth struct {
	tb       testing.TB
	v        *Voter
	now      vote.Now
	pace     time.Duration // the time between two messages
	sessions []*caller
	out      []vote.Outbound
	m        vote.Message
}

type caller struct {
	id     vote.SessionID
	conn   vote.Conn
	pushed uint64
	number vote.Number
	serial vote.Serial // of the newest promise
	token  vote.Token
}

func newBooth(tb testing.TB, sessions int) *booth {
	b := &booth{tb: tb, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}, pace: time.Microsecond}
	b.v = New(Config{Self: vote.SessionID{Node: "v0", Incarnation: 9}, Electorate: fixed([]vote.NodeID{"v0"}), MaxTTL: 10 * time.Second}, b.now)
	b.pass(10 * time.Second)
	if q := b.v.Quiet(); q != 0 {
		tb.Fatalf("quiet for %v", q)
	}
	for i := range sessions {
		c := &caller{id: vote.SessionID{Node: vote.NodeID(fmt.Sprintf("node-%d", i)), Incarnation: vote.Incarnation(i + 1)}, conn: vote.Conn(i + 1)}
		b.sessions = append(b.sessions, c)
		b.say(c, vote.Message{Kind: vote.KindOpen, TTL: 10 * time.Second, RTT: time.Millisecond})
		b.say(c, vote.Message{Kind: vote.KindSync, End: true})
	}
	return b
}

// pass lets time go by without a message.
func (b *booth) pass(d time.Duration) {
	b.now.Fast, b.now.Slow, b.now.Wall = b.now.Fast.Add(d), b.now.Slow.Add(d), b.now.Wall+vote.Micros(d.Microseconds())
	b.hear(b.v.Tick(b.now, b.out[:0]))
	for b.v.Next() <= b.now.Slow {
		b.hear(b.v.Tick(b.now, b.out[:0]))
	}
}

// say sends a message to the voter, and the answers to the sender.
func (b *booth) say(c *caller, m vote.Message) {
	b.now.Fast, b.now.Slow, b.now.Wall = b.now.Fast.Add(b.pace), b.now.Slow.Add(b.pace), b.now.Wall+vote.Micros(b.pace.Microseconds())
	m.Stream = 1
	b.m = m
	b.hear(b.v.Step(b.now, c.conn, c.id, &b.m, b.out[:0]))
}

func (b *booth) hear(out []vote.Outbound) {
	for i := range out {
		m := &out[i].Message
		if m.Kind.Urgent() || m.Kind == vote.KindAnswer || int(out[i].Conn) > len(b.sessions) {
			continue
		}
		c := b.sessions[out[i].Conn-1]
		c.pushed++
		if m.Kind == vote.KindPromise {
			c.serial, c.token = m.Serial, m.Token
		}
	}
	b.out = out
}

func (b *booth) ask(c *caller, key vote.Key) {
	c.number++
	b.say(c, vote.Message{
		Kind: vote.KindRequest, Number: c.number, Spec: vote.Spec{Key: key, Mode: vote.Exclusive}, Time: b.now.Wall, TokenHint: vote.TokenAt(b.now.Wall),
	})
}

func (b *booth) win(c *caller) {
	b.say(c, vote.Message{Kind: vote.KindConfirm, Number: c.number, Serial: c.serial, Token: c.token, Won: true})
}

func (b *booth) giveBack(c *caller, n vote.Number) {
	b.say(c, vote.Message{Kind: vote.KindRelease, Number: n})
}

// cycle acquires a key and releases the key.
func (b *booth) cycle(c *caller, key vote.Key) {
	b.ask(c, key)
	b.win(c)
	b.giveBack(c, c.number)
}

func (b *booth) refresh(c *caller) {
	b.say(c, vote.Message{Kind: vote.KindRefresh, Received: c.pushed, RTT: time.Millisecond})
}

// refreshAll must be called at least once per TTL.
func (b *booth) refreshAll() {
	for _, c := range b.sessions {
		b.refresh(c)
	}
}

// names returns keys of 32 bytes.
func names(n int) []vote.Key {
	all := make([]vote.Key, n)
	for i := range all {
		all[i] = vote.Key(fmt.Sprintf("a-key-of-thirty-two-bytes-%06d", i))
	}
	return all
}

// BenchmarkVoter measures a voter's work for messages that arrive singly.
func BenchmarkVoter(b *testing.B) {
	cycles := func(sessions, keys int, pace time.Duration) func(b *testing.B) {
		return func(b *testing.B) {
			t := newBooth(b, sessions)
			t.pace = pace
			names := names(keys)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				t.cycle(t.sessions[i%sessions], names[i%keys])
				if i%5000 == 0 {
					t.refreshAll()
				}
			}
		}
	}
	b.Run("cycle/keys=1", cycles(1, 1, time.Microsecond))
	b.Run("cycle/keys=10000", cycles(1, 10_000, time.Microsecond))
	b.Run("cycle/keys=10000/sessions=200", cycles(200, 10_000, time.Microsecond))
	// each key is forgotten before its next use
	b.Run("cycle/keys=forgotten", cycles(1, 1<<16, 30*time.Microsecond))
	b.Run("cycle/keys=forgotten/sessions=200", cycles(200, 1<<16, 30*time.Microsecond))
	b.Run("handover/waiters=16", func(b *testing.B) {
		t := newBooth(b, 16)
		key := names(1)[0]
		for _, c := range t.sessions {
			t.ask(c, key)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c := t.sessions[i%16]
			t.win(c)
			n := c.number
			t.ask(c, key)
			t.giveBack(c, n)
			if i%5000 == 0 {
				t.refreshAll()
			}
		}
	})
	for _, leases := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("refresh/leases=%d", leases), func(b *testing.B) {
			t := newBooth(b, 1)
			for _, name := range names(leases) {
				t.ask(t.sessions[0], name)
				t.win(t.sessions[0])
			}
			b.ReportAllocs()
			for b.Loop() {
				t.refresh(t.sessions[0])
			}
		})
	}
}
