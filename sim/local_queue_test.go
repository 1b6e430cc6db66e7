package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestARequestOfAnotherNodeIsKnownWithTheVote replays seed 8, shrunk: a holder must not hand off
// its lease if another node already waits when the holder wins. So each vote tells whether another
// node waits.
func TestARequestOfAnotherNodeIsKnownWithTheVote(t *testing.T) {
	w := New(Options{
		Seed: 3, Clients: 1, MaxTTL: 2 * time.Second,
		Net:    Net{Least: 100 * time.Millisecond, Most: 100 * time.Millisecond, Jitter: -1},
		Clocks: Clocks{Exact: true},
		Load: Load{Asks: []Ask{
			{At: 18500 * time.Millisecond, Node: "x1", Key: "key-0", Hold: 3 * time.Second},
			{At: 18500 * time.Millisecond, Node: "x1", Key: "key-0"},
			{At: 19 * time.Second, Node: "c", Key: "key-0"},
			{At: 21230 * time.Millisecond, Node: "x1", Key: "key-0"},
		}},
	})
	w.Run(22 * time.Second)
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}

// crowd is a mesh of three voters, a millisecond apart, with a number of callers on each node. All
// callers want one key all the time, and hold the key for a millisecond.
type crowd struct {
	w        *World
	by       map[string]int // how often each node was served
	messages int            // messages between nodes
}

func newCrowd(alone bool, callers map[string]int) *crowd {
	c := &crowd{by: make(map[string]int)}
	c.w = New(Options{
		Seed: 1, MaxTTL: 2 * time.Second, NoLocalQueue: alone, Observe: c,
		Net: Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1}, Clocks: Clocks{Exact: true},
	})
	c.w.RunUntil(5*time.Second, func() bool { return c.w.host("a").p.m.Ready() })
	for _, node := range []string{"a", "b", "c"} {
		for range callers[node] {
			c.w.AtNode(node, time.Millisecond, func() { c.w.Script.Lock(node, "k") })
		}
	}
	return c
}

// Granted has a holder release the key after a millisecond.
func (c *crowd) Granted(r *Request) {
	c.by[r.Node]++
	c.w.AtNode(r.Node, time.Millisecond, func() { c.w.Script.Release(r) })
}

// Ended has the caller ask again.
func (c *crowd) Ended(r *Request) {
	c.w.AtNode(r.Node, time.Microsecond, func() { c.w.Script.Lock(r.Node, "k") })
}

// Sent counts the messages that locks cost, without the refresh lane.
func (c *crowd) Sent(_, _ vote.SessionID, m *vote.Message, between bool) {
	if between && !m.Kind.Urgent() {
		c.messages++
	}
}

// TestALocalQueueIsFasterAndStarvesNoNode shows that a local queue is faster where the callers of
// one node contend, and that a caller on another node is served as often as without the local
// queue.
func TestALocalQueueIsFasterAndStarvesNoNode(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	run := func(alone bool, a, b int) *crowd {
		c := newCrowd(alone, map[string]int{"a": a, "b": b})
		c.w.Run(10 * time.Second)
		if err := c.w.Err(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	queued, alone := run(false, 16, 0), run(true, 16, 0)
	t.Logf("16 callers of one node for 10 s: %d leases, %d messages; each for itself: %d leases, %d messages", queued.by["a"], queued.messages, alone.by["a"], alone.messages)
	if queued.by["a"] < 2*alone.by["a"] || queued.messages*alone.by["a"] > alone.messages*queued.by["a"]/5 {
		t.Error("a local queue gains less than it should")
	}
	queued, alone = run(false, 16, 1), run(true, 16, 1)
	t.Logf("16 callers on a and 1 on b: %v; each for itself: %v", queued.by, alone.by)
	if queued.by["b"] < alone.by["b"] || queued.by["a"] < alone.by["a"] {
		t.Error("a caller is served less often because of a local queue")
	}
}
