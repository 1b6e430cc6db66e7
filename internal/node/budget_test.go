package node

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// envWork sets the number of keys and waiters; make soak has a million.
const envWork = "LOCKMESH_WORK_KEYS"

// workKeys returns the number of keys and waiters in the tests below. A step through all keys would
// exceed the budget several times.
func workKeys(t *testing.T) int {
	const keys = 4 * Budget
	text := os.Getenv(envWork)
	if text == "" {
		return keys
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < keys {
		t.Fatalf("%s=%q: it must be a whole number of at least %d", envWork, text, keys)
	}
	return n
}

// crew is three voters and thirteen other nodes, with messages that arrive at once and in order.
// The crew counts the work of each call of a node.
type crew struct {
	t            *testing.T
	now          vote.Now
	names        []vote.NodeID
	incarnations []vote.Incarnation
	nodes        []*Node
	links        []crewLink // by number of the connection, from 1 on
	dead         map[int]bool
	under        []crewPost // messages on their way, in order

	counted bool           // steps are held against the budget
	most    map[string]int // the dearest step beyond the limit, by sort
	dearest int            // of all other steps

	granted map[int]int // events by node
	lost    map[int]int
	shown   int // queries with a result
	news    int
}

type crewLink struct {
	from, to int
	down     bool
}

type crewPost struct {
	to, number int
	out        vote.Outbound
}

const (
	crewVoters = 3
	crewNodes  = 16
	crewTTL    = 10 * time.Second
)

func newCrew(t *testing.T) *crew {
	c := &crew{
		t: t, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}, dead: map[int]bool{},
		most: map[string]int{}, granted: map[int]int{}, lost: map[int]int{},
	}
	for i := range crewNodes {
		c.names = append(c.names, vote.NodeID(fmt.Sprintf("n%02d", i)))
		c.incarnations = append(c.incarnations, vote.Incarnation(i+1))
		c.nodes = append(c.nodes, nil)
	}
	for i := range c.names {
		c.start(i)
	}
	for from := range c.names {
		for to := range crewVoters {
			if from != to {
				c.links = append(c.links, crewLink{from: from, to: to, down: true})
				c.link(len(c.links))
			}
		}
	}
	c.pass(crewTTL + 2*vote.TokenQueryTimeout)
	for i, n := range c.nodes {
		if !n.Ready() {
			t.Fatalf("%s isn't ready: %v", c.names[i], n.Voters(c.now))
		}
	}
	return c
}

func (c *crew) start(i int) {
	n, err := New(Config{
		Name: c.names[i], Incarnation: c.incarnations[i], Voters: c.names[:crewVoters], TTL: crewTTL, MaxTTL: crewTTL,
	}, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
}

func (c *crew) id(i int) vote.SessionID {
	return vote.SessionID{Node: c.names[i], Incarnation: c.incarnations[i]}
}

// step makes a call of a node. The sort is the name under which a step beyond the limit is
// reported.
func (c *crew) step(i int, sort string, call func(n *Node)) {
	n := c.nodes[i]
	before := n.Work()
	call(n)
	cost := int(n.Work() - before)
	switch {
	case !c.counted:
	case cost > stepMax:
		c.most[sort] = max(c.most[sort], cost)
	default:
		c.dearest = max(c.dearest, cost)
	}
	c.collect(i)
}

// stepMax is the limit on the cost of a step: the budget, and the rest of the last piece of work.
const stepMax = Budget + Budget/8

// collect takes a node's events and messages, and puts the messages on their way.
func (c *crew) collect(i int) {
	out, events := c.nodes[i].Drain(nil, nil)
	for j := range events {
		switch e := &events[j]; e.Kind {
		case quorum.EventGranted:
			c.granted[i]++
		case quorum.EventLost:
			c.lost[i]++
		case quorum.EventQueryDone:
			if e.Result == nil {
				c.t.Errorf("a query has no result: %s", e.Wait.Text)
			}
			c.shown++
		case quorum.EventNews:
			c.news++
		case quorum.EventAlarm, quorum.EventDrift:
			c.t.Errorf("%s: %s", c.names[i], e.Text)
		}
	}
	for j := range out {
		l := c.links[out[j].Conn-1]
		c.under = append(c.under, crewPost{l.from + l.to - i, int(out[j].Conn), out[j]})
	}
}

// settle delivers all messages, and does all work due now.
func (c *crew) settle() {
	for busy := true; busy; {
		busy = false
		for len(c.under) > 0 {
			batch := c.under
			c.under = nil
			for j := range batch {
				c.arrive(&batch[j])
			}
		}
		for i, n := range c.nodes {
			if !c.dead[i] && n.Next(c.now) <= 0 {
				c.step(i, "tick", func(n *Node) { n.Tick(c.now) })
				busy = true
			}
		}
	}
}

func (c *crew) arrive(p *crewPost) {
	l := c.links[p.number-1]
	if l.down || c.dead[p.to] {
		return
	}
	from, m := l.from+l.to-p.to, &p.out.Message
	if p.out.Close {
		c.t.Fatalf("%s closes its connection with %s", c.names[from], c.names[p.to])
	}
	c.step(p.to, "deliver "+m.Kind.String(), func(n *Node) {
		n.Deliver(c.now, vote.Conn(p.number), c.id(from), m)
	})
}

// cut ends a connection, and unlinks both ends.
func (c *crew) cut(number int) {
	l := &c.links[number-1]
	if l.down {
		return
	}
	l.down = true
	for _, i := range []int{l.from, l.to} {
		if !c.dead[i] {
			c.step(i, "unlink", func(n *Node) { n.Unlink(c.now, vote.Conn(number)) })
		}
	}
}

func (c *crew) link(number int) {
	l := &c.links[number-1]
	l.down = false
	c.step(l.from, "link", func(n *Node) { n.Link(c.now, vote.Conn(number), c.id(l.to)) })
	c.settle()
}

// linkOf returns the number of the connection from a node to another.
func (c *crew) linkOf(from, to int) int {
	return 1 + slices.IndexFunc(c.links, func(l crewLink) bool { return l.from == from && l.to == to })
}

// kill ends a process, and unlinks the other ends of its connections.
func (c *crew) kill(i int) {
	c.dead[i] = true
	for number := range c.links {
		if l := c.links[number]; l.from == i || l.to == i {
			c.cut(number + 1)
		}
	}
}

// pass lets time pass, from an instant at which a node is due to the next, at least a millisecond
// later.
func (c *crew) pass(d time.Duration) {
	for d > 0 {
		next := 100 * time.Millisecond
		for i, n := range c.nodes {
			if !c.dead[i] {
				next = min(next, n.Next(c.now))
			}
		}
		next = min(max(next, time.Millisecond), d)
		d -= next
		c.now.Fast, c.now.Slow = c.now.Fast.Add(next), c.now.Slow.Add(next)
		c.now.Wall += vote.Micros(next.Microseconds())
		c.settle()
	}
}

// ask has a node make n requests, and lets time pass meanwhile.
func (c *crew) ask(i, n int, spec func(j int) vote.Spec) {
	for j := range n {
		c.step(i, "lock", func(n *Node) {
			if _, err := n.Lock(c.now, quorum.RequestOptions{Spec: spec(j)}); err != nil {
				c.t.Fatal(err)
			}
		})
		c.settle()
		if j%1000 == 999 {
			c.pass(100 * time.Millisecond)
		}
	}
}

func (c *crew) key(i, j int) vote.Key {
	return vote.Key(fmt.Sprintf("%s/%07d", c.names[i], j))
}

// hold has a node hold n keys.
func (c *crew) hold(i, n int) {
	was := c.granted[i]
	c.ask(i, n, func(j int) vote.Spec {
		return vote.Spec{Key: c.key(i, j), Mode: vote.Exclusive}
	})
	c.pass(time.Second)
	if got := c.granted[i] - was; got != n {
		c.t.Fatalf("%d of %d keys are granted", got, n)
	}
}

// within compares the dearest steps with the exceptions: for each sort of step known to be done in
// one piece, the largest cost allowed. A step within the limit is no exception.
func (c *crew) within(known map[string]int) {
	c.t.Helper()
	c.t.Logf("the dearest step costs %d of %d units; in one piece: %v", c.dearest, Budget, c.most)
	for _, sort := range slices.Sorted(maps.Keys(c.most)) {
		if most := known[sort]; c.most[sort] > most {
			c.t.Errorf("%s costs %d units in one step, of a budget of %d; known: %d",
				sort, c.most[sort], Budget, most)
		}
	}
	for _, sort := range slices.Sorted(maps.Keys(known)) {
		if c.most[sort] == 0 {
			c.t.Errorf("%s is done in pieces, and is still listed as done in one piece", sort)
		}
	}
	for i := range c.nodes {
		if c.lost[i] > 0 {
			c.t.Errorf("%s has lost %d leases", c.names[i], c.lost[i])
		}
	}
}

// A node does the most expensive work, voter and requester together, and the test counts the cost
// of each call. Work known to be done in one piece is listed with its cost.
func TestNoStepOfANodeExceedsItsBudget(t *testing.T) {
	sampled.Computes(t)
	keys := workKeys(t)
	const holder, other = crewNodes - 1, crewNodes - 2
	for _, worst := range []struct {
		name  string
		run   func(c *crew)
		known map[string]int
	}{
		{"others look at all keys", func(c *crew) {
			c.hold(holder, keys)
			c.counted = true
			for i := range 2 {
				c.step(other-i, "look", func(n *Node) { n.InspectForWatch(c.now, "", true) })
				c.step(other-i, "watch", func(n *Node) { n.Watch(c.now, "", true) })
			}
			c.pass(crewTTL)
			if c.shown != 2 {
				c.t.Errorf("%d of 2 queries have a result", c.shown)
			}
		}, map[string]int{
			// Merging the answers of two or three voters.
			"deliver query-result": costMergedEach * min(keys, shownMost),
		}},
		{"a process with many waiters dies", func(c *crew) {
			permit := func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Permit, Permits: 1} }
			c.ask(other, 1, permit)
			c.ask(holder, keys, permit)
			c.ask(other-1, 1, permit)
			c.counted = true
			c.kill(holder)
			c.pass(2 * crewTTL)
			for i := range crewVoters {
				if got := c.nodes[i].Voter().Size(); got.Requests != 2 {
					c.t.Errorf("%s keeps %+v", c.names[i], got)
				}
			}
		}, overBudget("tick", keys/queuedForAUnit+4)},
		{"a writer gives way to many readers, and their process dies", func(c *crew) {
			c.ask(other, 1, func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Exclusive} })
			c.ask(holder, keys, func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Shared} })
			c.counted = true
			c.step(other, "release", func(n *Node) { n.Release(c.now, 1) })
			c.pass(time.Second)
			if got := c.granted[holder]; got != keys {
				c.t.Errorf("%d of %d readers have the key", got, keys)
			}
			c.ask(other, 1, func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Exclusive} })
			c.kill(holder)
			c.pass(2 * crewTTL)
			if got := c.granted[other]; got != 2 {
				c.t.Errorf("the writer has the key %d times", got)
			}
			for i := range crewVoters {
				if got := c.nodes[i].Voter().Size(); got.Requests != 1 {
					c.t.Errorf("%s keeps %+v", c.names[i], got)
				}
			}
		}, nil},
		{"a link of a node with many readers breaks", func(c *crew) {
			reads := func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Shared} }
			c.ask(holder, keys, reads)
			c.pass(time.Second)
			c.ask(other, 1, func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Exclusive} })
			c.counted = true
			c.again(holder)
		}, nil},
		{"a process with many leases dies", func(c *crew) {
			c.hold(holder, keys)
			c.counted = true
			c.kill(holder)
			c.pass(2 * crewTTL)
			for i := range crewVoters {
				if got := c.nodes[i].Voter().Size(); got.Requests != 0 {
					c.t.Errorf("%s keeps %+v", c.names[i], got)
				}
			}
		}, nil},
		{"many watches on each node", func(c *crew) {
			const each = 1024
			for i := range c.nodes {
				for range each {
					c.step(i, "watch", func(n *Node) { n.Watch(c.now, "w/", true) })
				}
				c.settle()
			}
			c.counted, c.news = true, 0
			c.ask(holder, 1, func(int) vote.Spec { return vote.Spec{Key: "w/x", Mode: vote.Exclusive} })
			c.pass(time.Second)
			if least := crewNodes * each * (crewVoters/2 + 1); c.news < least {
				c.t.Errorf("%d reports of a lock, fewer than %d", c.news, least)
			}
			for i := range c.nodes[crewVoters:] {
				c.cut(c.linkOf(crewVoters+i, 0))
				c.link(c.linkOf(crewVoters+i, 0))
			}
			c.pass(time.Second)
		}, nil},
		{"a stream of a holder begins anew", func(c *crew) {
			c.hold(holder, keys)
			c.counted = true
			c.again(holder)
		}, nil},
		{"a stream of a voter that is a holder begins anew", func(c *crew) {
			c.hold(0, keys)
			c.counted = true
			c.again(0)
		}, nil},
		{"a voter starts anew", func(c *crew) {
			c.hold(holder, keys)
			c.counted = true
			c.kill(1)
			c.pass(time.Second)
			c.dead[1] = false
			c.incarnations[1] += 1000
			c.start(1)
			for number := range c.links {
				if l := c.links[number]; l.from == 1 || l.to == 1 {
					c.link(number + 1)
				}
			}
			c.pass(2 * crewTTL)
			c.backed(holder, keys)
		}, nil},
		{"a link of a node with many waiters breaks", func(c *crew) {
			permit := func(int) vote.Spec { return vote.Spec{Key: "k", Mode: vote.Permit, Permits: 1} }
			c.ask(other, 1, permit)
			c.ask(holder, keys, permit)
			c.counted = true
			c.again(holder)
		}, nil},
		{"a node loses all its leases", func(c *crew) {
			c.hold(holder, keys)
			c.counted = true
			for v := range crewVoters {
				c.cut(c.linkOf(holder, v))
			}
			c.pass(2 * crewTTL)
			if c.lost[holder] != keys {
				c.t.Errorf("%d of %d leases are lost", c.lost[holder], keys)
			}
			c.lost[holder] = 0
		}, map[string]int{
			"tick": 2 * keys,
		}},
		{"a node gives leases with lengths of their own back", func(c *crew) {
			n := keys / 4 // each costs messages of its own
			c.ask(holder, n, func(j int) vote.Spec {
				return vote.Spec{Key: c.key(holder, j), Mode: vote.Exclusive, Length: crewTTL / 2}
			})
			c.counted = true
			for j := range n { // not in the order of acquisition
				c.step(holder, "release", func(node *Node) { node.Release(c.now, vote.Number(1+(j*7919)%n)) })
			}
			c.pass(time.Second)
			for i := range crewVoters {
				if got := c.nodes[i].Voter().Size(); got.Requests != 0 {
					c.t.Errorf("%s keeps %+v", c.names[i], got)
				}
			}
		}, nil},
	} {
		t.Run(worst.name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			worst.run(c)
			c.within(worst.known)
		})
	}
}

// again begins a new stream of a node to a voter, on a new connection.
func (c *crew) again(i int) {
	number := c.linkOf(i, 1)
	c.cut(number)
	c.pass(100 * time.Millisecond)
	c.link(number)
	c.pass(time.Second)
	if n := c.nodes[i]; !n.Ready() || n.Spare() != 1 {
		c.t.Errorf("%s: %v", c.names[i], n.Voters(c.now))
	}
}

// backed checks that all voters have voted for all leases of a node.
func (c *crew) backed(i, leases int) {
	for v := range crewVoters {
		for j := range leases {
			got, ok := c.nodes[v].Voter().Vote(c.key(i, j))
			if !ok || got.Owner.Node != c.names[i] {
				c.t.Fatalf("%s has voted for %+v", c.names[v], got)
			}
		}
	}
}

const (
	// costMergedEach is the cost of merging the answers of three voters, for each request.
	costMergedEach = 6
	// shownMost is the largest number of requests in an answer.
	shownMost = 65_536
	// queuedForAUnit is how many requests waiting for a key a voter passes for a unit of work when
	// a session ends. The requests leave the key in one pass: within the budget up to 131,072.
	queuedForAUnit = 32
)

// overBudget lists a sort of step as done in one piece if its cost exceeds the budget.
func overBudget(sort string, cost int) map[string]int {
	if cost <= Budget {
		return nil
	}
	return map[string]int{sort: cost}
}
