package node

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// lockstep is a few voters with messages that arrive at once and in order, to measure the cost of
// the cores alone.
type lockstep struct {
	tb    testing.TB
	now   vote.Now
	names []vote.NodeID
	nodes []*Node
	ends  [][2]int // of each connection: the dialer, and the dialed node
	out   []vote.Outbound
	ev    []quorum.Event

	granted, released vote.Number // of the last event of each kind
	words             int         // messages between nodes
}

func newLockstep(tb testing.TB, voters int, alone bool) *lockstep {
	l := &lockstep{tb: tb, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}}
	for i := range voters {
		l.names = append(l.names, vote.NodeID("n"+strconv.Itoa(i)))
	}
	for i, name := range l.names {
		n, err := New(Config{Name: name, Incarnation: vote.Incarnation(i + 1), Voters: l.names, TTL: 10 * time.Second, MaxTTL: 10 * time.Second, NoLocalQueue: alone}, l.now)
		if err != nil {
			tb.Fatal(err)
		}
		l.nodes = append(l.nodes, n)
	}
	for f := range l.nodes {
		for t := range l.nodes {
			if f != t {
				l.ends = append(l.ends, [2]int{f, t})
				l.nodes[f].Link(l.now, vote.Conn(len(l.ends)), l.id(t))
			}
		}
	}
	l.settle()
	for range 140 { // past the startup quarantine
		l.pass()
	}
	return l
}

func (l *lockstep) id(i int) vote.SessionID {
	return vote.SessionID{Node: l.names[i], Incarnation: vote.Incarnation(i + 1)}
}

// settle delivers messages until none is left.
func (l *lockstep) settle() {
	for busy := true; busy; {
		busy = false
		for i, n := range l.nodes {
			l.out, l.ev = n.Drain(l.out[:0], l.ev[:0])
			for j := range l.ev {
				switch l.ev[j].Kind {
				case quorum.EventGranted:
					l.granted = l.ev[j].Number
				case quorum.EventReleased:
					l.released = l.ev[j].Number
				}
			}
			for j := range l.out {
				busy = true
				l.words++
				end := l.ends[l.out[j].Conn-1]
				to := end[0] + end[1] - i
				l.nodes[to].Deliver(l.now, l.out[j].Conn, l.id(i), &l.out[j].Message)
			}
		}
	}
}

// pass lets a tenth of a second pass.
func (l *lockstep) pass() {
	l.now.Fast, l.now.Slow, l.now.Wall = l.now.Fast+1e8, l.now.Slow+1e8, l.now.Wall+1e5
	for _, n := range l.nodes {
		n.Tick(l.now)
	}
	l.settle()
}

// cycle acquires and releases a key.
func (l *lockstep) cycle(key vote.Key) {
	num, err := l.nodes[0].Lock(l.now, quorum.Exclusive(key, false))
	if err != nil {
		l.tb.Fatal(err)
	}
	l.settle()
	if l.granted != num {
		l.tb.Fatal("not granted")
	}
	l.nodes[0].Release(l.now, num)
	l.settle()
	if l.released != num {
		l.tb.Fatal("not released")
	}
}

// BenchmarkCycle acquires and releases a key, and measures the cores of all nodes together, the
// voter at the requester's node included.
func BenchmarkCycle(b *testing.B) {
	for _, voters := range []int{1, 3, 5, 7} {
		b.Run("voters="+strconv.Itoa(voters), func(b *testing.B) {
			l := newLockstep(b, voters, false)
			l.words = 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.cycle("a-key-of-thirty-two-bytes-length")
				if i%100 == 0 {
					l.pass()
				}
			}
			b.ReportMetric(float64(l.words)/float64(b.N), "words/op")
		})
	}
}

// BenchmarkLocal hands a key from caller to caller among 64 callers of a node. After its lease a
// caller joins the local queue again.
func BenchmarkLocal(b *testing.B) {
	for _, alone := range []bool{false, true} {
		b.Run("alone="+strconv.FormatBool(alone), func(b *testing.B) {
			l := newLockstep(b, 3, alone)
			hand := l.crowd(64)
			b.ReportAllocs()
			l.words = 0
			for b.Loop() {
				hand()
			}
			b.ReportMetric(float64(l.words)/float64(b.N), "words/op")
		})
	}
}

// crowd puts callers of a node into the local queue of a key. crowd returns a function that has the
// holder release the key and join the queue again.
func (l *lockstep) crowd(callers int) (hand func()) {
	const key = "a-key-of-thirty-two-bytes-length"
	stand := func() {
		if _, err := l.nodes[0].Lock(l.now, quorum.Exclusive(key, false)); err != nil {
			l.tb.Fatal(err)
		}
		l.settle()
	}
	for range callers {
		stand()
	}
	hands := 0
	return func() {
		held := l.granted
		l.nodes[0].Release(l.now, held)
		l.settle()
		if l.granted == held || l.released != held {
			l.tb.Fatal("not handed on")
		}
		stand()
		if hands++; hands%100 == 0 {
			l.pass()
		}
	}
}
