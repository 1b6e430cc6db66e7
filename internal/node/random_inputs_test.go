package node

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// wild is a few nodes with messages that arrive in a random order: each direction of each
// connection keeps its own order, with the refresh lane beside, and nothing else keeps an order.
// wild checks every grant against the standing leases.
type wild struct {
	t            *testing.T
	rng          *rand.Rand
	now          vote.Now
	names        []vote.NodeID
	voters       []vote.NodeID
	nodes        map[vote.NodeID]*Node
	conns        map[vote.Conn]link
	last         vote.Conn
	under        []*lane
	slow         time.Duration // how long a message may be under way
	leases       []*held       // the standing leases
	specs        map[requestID]quorum.RequestOptions
	served       map[requestID]quorum.Event // the outcome of each request
	past         map[vote.Key][]*held       // all leases so far
	noise        []string
	calls        int      // messages sent or received by voters at this instant
	tail         []string // the newest of these messages
	kinds        map[vote.Kind]int
	how          manner
	incarnations map[vote.NodeID]vote.Incarnation
	keep         bool                                // leases aren't released at the end
	mute         func(from vote.NodeID, l link) bool // drops the messages of a node
	disks        map[vote.NodeID]*disk               // with dynamic membership
	turn         int                                 // see Config.Turn
	most         int                                 // the largest number of open requests
}

type requestID struct {
	node   vote.NodeID
	number vote.Number
}

type held struct {
	requestID
	vote.Spec
	slot  vote.Slot
	token vote.Token  // the first of its token block
	seat  vote.Number // the alias known to the voters
}

type lane struct {
	conn     vote.Conn
	from, to vote.NodeID
	urgent   bool
	queue    []posted
}

type posted struct {
	at vote.Instant
	m  vote.Message
}

// More seeds and steps find more: go test ./internal/node -run Anything -wild.seeds 4000
// -wild.steps 1000 takes minutes.
var (
	wildSeeds = flag.Int("wild.seeds", sampled.Count(12, 64), "how many orders TestAnythingInAnyOrder draws in each manner")
	wildSteps = flag.Int("wild.steps", 300, "how many things are done in each")
)

// manner is the sort of faults in a mesh, besides messages that arrive in any order.
type manner string

const (
	calm     manner = "calm"
	breaks   manner = "breaks"   // connections break and come back, and lose their messages
	restarts manner = "restarts" // nodes stop without a message and restart, voters as well
	dynamic  manner = "dynamic"  // the same, links break, saves are slow, the voters change
)

func (m manner) ttl() time.Duration {
	if m == restarts || m == dynamic {
		return time.Second // so a restarted voter isn't quiet for most of the test
	}
	return 10 * time.Second
}

func newWild(t *testing.T, how manner, seed uint64, voters, nodes int) *wild {
	return newWildInPieces(t, how, seed, voters, nodes, 0)
}

// newWildInPieces is newWild with long work done in pieces of a turn.
func newWildInPieces(t *testing.T, how manner, seed uint64, voters, nodes, turn int) *wild {
	w := &wild{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: vote.Now{Fast: 1e9, Slow: 1e9, Wall: 1_700_000_000_000_000},
		nodes: map[vote.NodeID]*Node{}, conns: map[vote.Conn]link{}, slow: []time.Duration{30e6, 100e6, 300e6, 3e6}[seed%4],
		specs: map[requestID]quorum.RequestOptions{}, served: map[requestID]quorum.Event{}, past: map[vote.Key][]*held{},
		kinds: map[vote.Kind]int{}, how: how, incarnations: map[vote.NodeID]vote.Incarnation{},
		mute: func(vote.NodeID, link) bool { return false }, turn: turn, most: 14,
	}
	if how == dynamic {
		w.disks = map[vote.NodeID]*disk{}
	}
	if how == restarts || how == dynamic {
		w.slow = min(w.slow, 30*time.Millisecond)
	}
	for i := range nodes {
		w.names = append(w.names, vote.NodeID(rune('a'+i)))
	}
	w.voters = slices.Clone(w.names[:voters])
	for _, name := range w.names {
		w.begin(name)
	}
	for _, from := range w.names {
		for _, to := range w.names {
			if from != to && (how == dynamic || slices.Contains(w.voters, to)) {
				w.link(from, to)
			}
		}
	}
	w.gossip()
	w.idle(how.ttl() + 2*vote.TokenQueryTimeout)
	for _, name := range w.names {
		if !w.nodes[name].Ready() {
			t.Fatalf("%s isn't ready: %v", name, w.nodes[name].Voters(w.now))
		}
	}
	return w
}

// begin starts an incarnation of a node.
func (w *wild) begin(name vote.NodeID) {
	w.incarnations[name]++
	cfg := Config{Name: name, Incarnation: w.incarnations[name], Voters: w.voters, TTL: w.how.ttl(), MaxTTL: w.how.ttl(), Turn: w.turn}
	if w.how == dynamic {
		cfg.Incarnation += vote.Incarnation(name[0]) << 32 // no two nodes have the same incarnation
		w.incarnations[name] = cfg.Incarnation
		cfg.Dynamic = w.dynamicConfig(name)
	}
	n, err := New(cfg, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[name] = n
	n.Tap(func(c vote.Conn, m *vote.Message) { w.heard(name, c, m) })
}

// restart ends a node's incarnation without a message, with all its requests and leases, and begins
// another.
func (w *wild) restart(name vote.NodeID) {
	w.forget(name)
	var ends []link
	for _, c := range w.open() {
		l := w.conns[c]
		if l.from != name && l.to != name {
			continue
		}
		ends = append(ends, l)
		delete(w.conns, c)
		w.under = slices.DeleteFunc(w.under, func(q *lane) bool { return q.conn == c })
		other := l.from
		if other == name {
			other = l.to
		}
		w.nodes[other].Unlink(w.now, c)
		w.collect(other)
	}
	w.begin(name)
	for _, l := range ends {
		w.link(l.from, l.to)
	}
	w.collect(name)
}

// forget drops all requests and leases of a node.
func (w *wild) forget(name vote.NodeID) {
	w.leases = slices.DeleteFunc(w.leases, func(h *held) bool { return h.node == name })
	for id := range w.specs {
		if id.node == name {
			delete(w.specs, id)
			delete(w.served, id)
		}
	}
}

// open lists the connections in an order that depends on the seed alone.
func (w *wild) open() []vote.Conn {
	conns := make([]vote.Conn, 0, len(w.conns))
	for c := range w.conns {
		conns = append(conns, c)
	}
	slices.Sort(conns)
	return conns
}

// heard finds an endless conversation of a node with its own voter.
func (w *wild) heard(name vote.NodeID, c vote.Conn, m *vote.Message) {
	w.calls++
	w.kinds[m.Kind]++
	if w.calls > 100_000 {
		w.tail = append(w.tail, fmt.Sprintf("%s (conn %d) %+v", name, c, *m))
		if len(w.tail) > 12 {
			for _, l := range w.tail {
				w.t.Log(l)
			}
			panic("no end of it")
		}
	}
}

func (w *wild) link(from, to vote.NodeID) {
	w.last++
	w.conns[w.last] = link{from, to}
	w.nodes[from].Link(w.now, w.last, vote.SessionID{Node: to, Incarnation: w.incarnations[to]})
	w.collect(from)
}

// cut ends a connection with all messages under way, and opens another.
func (w *wild) cut(c vote.Conn) {
	l, ok := w.conns[c]
	if !ok {
		return
	}
	delete(w.conns, c)
	w.under = slices.DeleteFunc(w.under, func(q *lane) bool { return q.conn == c })
	for _, end := range []vote.NodeID{l.from, l.to} {
		w.nodes[end].Unlink(w.now, c)
		w.collect(end)
	}
	if w.mute(l.from, l) || w.mute(l.to, l) { // the link can't be dialed
		return
	}
	w.link(l.from, l.to)
}

// collect takes a node's saves, messages and events.
func (w *wild) collect(name vote.NodeID) {
	if d := w.disks[name]; d != nil {
		d.saves = append(d.saves, w.nodes[name].Saves()...)
	}
	out, events := w.nodes[name].Drain(nil, nil)
	for _, o := range out {
		l, ok := w.conns[o.Conn]
		if !ok {
			continue
		}
		if o.Close {
			w.noise = append(w.noise, fmt.Sprintf("%s closes its connection with %v", name, l))
			w.cut(o.Conn)
			continue
		}
		to := l.to
		if to == name {
			to = l.from
		}
		if w.mute(name, l) {
			continue
		}
		urgent := o.Message.Kind.Urgent()
		i := slices.IndexFunc(w.under, func(q *lane) bool { return q.conn == o.Conn && q.from == name && q.urgent == urgent })
		if i < 0 {
			i = len(w.under)
			w.under = append(w.under, &lane{conn: o.Conn, from: name, to: to, urgent: urgent})
		}
		w.under[i].queue = append(w.under[i].queue, posted{w.now.Fast, o.Message})
	}
	for _, e := range events {
		w.happened(name, e)
	}
}

func (w *wild) happened(name vote.NodeID, e quorum.Event) {
	id := requestID{name, e.Number}
	switch e.Kind {
	case quorum.EventAlarm, quorum.EventDrift:
		if w.how == dynamic && strings.HasPrefix(e.Text, "the state directory can't be written") {
			break // the test failed this save
		}
		w.t.Errorf("%s: %s", name, e.Text)
	case quorum.EventGranted:
		w.granted(id, e)
	case quorum.EventLost:
		w.over(id)
	}
	switch e.Kind {
	case quorum.EventGranted, quorum.EventLost, quorum.EventFailed, quorum.EventReleased:
		w.served[id] = e
	}
}

func (w *wild) over(id requestID) {
	w.leases = slices.DeleteFunc(w.leases, func(h *held) bool { return h.requestID == id })
}

// granted checks a new lease against all others.
func (w *wild) granted(id requestID, e quorum.Event) {
	ask, ok := w.specs[id]
	if !ok {
		w.t.Fatalf("%v is granted and wasn't asked for", id)
	}
	g := &held{id, ask.Spec, e.Slot, e.Token, w.nodes[id.node].Alias(id.number)}
	holders := 0
	for _, h := range w.leases {
		if h.Key != g.Key {
			continue
		}
		holders++
		switch {
		case g.Mode == vote.Shared && h.Mode == vote.Shared:
		case g.Mode == vote.Permit && h.Mode == vote.Permit && g.slot != h.slot:
		case g.Beside != 0 && h.number == g.Beside && h.node == g.node && h.Mode == vote.Shared:
		default:
			w.t.Fatalf("%v %+v is granted (slot %d) while %v %+v stands (slot %d)", g.requestID, g.Spec, g.slot, h.requestID, h.Spec, h.slot)
		}
	}
	if g.Mode == vote.Permit && (holders >= int(g.Permits) || g.slot == 0 || int(g.slot) > int(g.Permits)) {
		w.t.Fatalf("%v is granted slot %d of %d beside %d holders", g.requestID, g.slot, g.Permits, holders)
	}
	for _, h := range w.past[g.Key] {
		sameRun := g.node == h.node && g.seat == h.seat // a hand-off
		if g.token == h.token || !sameRun && g.token < h.token+vote.BlockSize && h.token < g.token+vote.BlockSize {
			w.t.Fatalf("%v has tokens from %d on, and %v from %d", g.requestID, g.token, h.requestID, h.token)
		}
		if g.token < h.token && (g.Mode == vote.Exclusive || h.Mode == vote.Exclusive) && h.Beside == 0 {
			w.t.Fatalf("%v %v has tokens from %d on, the earlier %v %v from %d", g.requestID, g.Mode, g.token, h.requestID, h.Mode, h.token)
		}
	}
	w.leases = append(w.leases, g)
	w.past[g.Key] = append(w.past[g.Key], g)
}

func (w *wild) lock(name vote.NodeID, ask quorum.RequestOptions) vote.Number {
	// A node may be granted a key during the call, so the request is recorded first.
	next := vote.Number(w.nodes[name].Requester().Counters().Requests + 1)
	w.specs[requestID{name, next}] = ask
	n, err := w.nodes[name].Lock(w.now, ask)
	if err != nil || n != next {
		w.t.Fatalf("number %d, %v", n, err)
	}
	w.collect(name)
	return n
}

func (w *wild) release(id requestID) {
	w.over(id)
	w.nodes[id.node].Release(w.now, id.number)
	w.collect(id.node)
}

// deliver delivers a message of a random lane; false if no message is under way.
func (w *wild) deliver() bool {
	w.under = slices.DeleteFunc(w.under, func(q *lane) bool { return len(q.queue) == 0 })
	if len(w.under) == 0 {
		return false
	}
	w.arrive(w.under[w.rng.IntN(len(w.under))])
	return true
}

func (w *wild) arrive(q *lane) {
	p := q.queue[0]
	q.queue = q.queue[1:]
	if _, ok := w.conns[q.conn]; !ok {
		return
	}
	w.nodes[q.to].Deliver(w.now, q.conn, vote.SessionID{Node: q.from, Incarnation: w.incarnations[q.from]}, &p.m)
	w.collect(q.to)
}

// step lets time pass, once all messages under way for too long have arrived.
func (w *wild) step(d time.Duration) {
	for again := true; again; {
		again = false
		for _, q := range slices.Clone(w.under) {
			for len(q.queue) > 0 && w.now.Fast.Sub(q.queue[0].at) >= w.slow {
				w.arrive(q)
				again = true
			}
		}
	}
	w.calls = 0
	w.store()
	w.now.Fast, w.now.Slow, w.now.Wall = w.now.Fast.Add(d), w.now.Slow.Add(d), w.now.Wall+vote.Micros(d.Microseconds())
	for _, name := range w.names {
		if w.nodes[name].Next(w.now) <= 0 {
			w.nodes[name].Tick(w.now)
			w.collect(name)
		}
		if v := w.nodes[name].Voter(); v != nil {
			if err := v.Audit(); err != nil {
				w.t.Fatalf("the voter of %s: %v", name, err)
			}
		}
		if err := w.nodes[name].Requester().Audit(); err != nil {
			w.t.Fatalf("the requester of %s: %v", name, err)
		}
	}
}

// pass lets time pass while messages arrive.
func (w *wild) pass(d time.Duration) {
	for ; d > 0; d -= time.Millisecond {
		for range w.rng.IntN(40) {
			w.deliver()
		}
		w.step(time.Millisecond)
	}
}

// idle lets much time pass with little activity.
func (w *wild) idle(d time.Duration) {
	const long = 20 * time.Millisecond
	for ; d > 0; d -= long {
		for w.deliver() {
		}
		w.step(long)
	}
}

// quiescent checks that no trace of any request is left.
func (w *wild) quiescent() {
	w.t.Helper()
	for _, name := range w.names {
		n := w.nodes[name]
		if left := n.Requester().Open(); left != 0 {
			w.t.Errorf("%s: %d requests are left", name, left)
		}
		c := n.Requester().Counters()
		if c.Mismatches != 0 || w.how == calm && int(c.Resyncs) != len(w.voters) {
			w.t.Errorf("%s: %d acknowledgements didn't match, %d syncs of %d voters", name, c.Mismatches, c.Resyncs, len(w.voters))
		}
		if v := n.Voter(); v != nil {
			if s := v.Size(); s.Keys != 0 || s.Requests != 0 || s.Residuals != 0 {
				w.t.Errorf("%s keeps %+v", name, s)
				for _, k := range wildKeys {
					if votes := v.Votes(k); len(votes) > 0 {
						w.t.Errorf("%s: %q is promised: %+v", name, k, votes)
					}
				}
			}
		}
	}
	if w.how == calm && len(w.noise) > 0 {
		w.t.Errorf("%q", w.noise)
	}
}

var wildKeys = []vote.Key{"k", "s", "p", "l"}

// monkey takes a number of random steps.
func (w *wild) monkey(steps int, asks func(name vote.NodeID) (quorum.RequestOptions, bool)) {
	open := func() []requestID { // in an order that depends on the seed alone
		var all []requestID
		for id := range w.specs {
			if k := w.served[id].Kind; k == quorum.EventNone || k == quorum.EventGranted {
				all = append(all, id)
			}
		}
		slices.SortFunc(all, func(a, b requestID) int {
			if a.node != b.node {
				return int(a.node[0]) - int(b.node[0])
			}
			return int(a.number) - int(b.number)
		})
		return all
	}
	for range steps {
		name := w.names[w.rng.IntN(len(w.names))]
		n := w.nodes[name]
		ids := open()
		switch w.rng.IntN(16) {
		case 0, 1, 2, 3:
			if ask, ok := asks(name); ok && len(ids) < w.most {
				w.lock(name, ask)
			}
		case 4, 5, 6, 7, 8:
			if len(ids) > 0 {
				id := ids[w.rng.IntN(len(ids))]
				if w.served[id].Kind == quorum.EventGranted || w.rng.IntN(6) == 0 {
					w.release(id)
				}
			}
		case 9:
			for _, h := range w.leases {
				if h.node == name && h.Mode == vote.Exclusive && w.rng.IntN(2) == 0 {
					if n.Downgrade(w.now, h.number) {
						h.Mode, h.Beside = vote.Shared, 0
					}
					w.collect(name)
					break
				}
			}
		case 10:
			for _, h := range slices.Clone(w.leases) {
				if h.Mode == vote.Shared && w.rng.IntN(2) == 0 {
					w.lock(h.node, quorum.RequestOptions{Spec: vote.Spec{Key: h.Key, Mode: vote.Exclusive, Beside: h.number, Try: w.rng.IntN(4) == 0}})
				}
			}
		case 11:
			if len(ids) > 0 {
				id := ids[w.rng.IntN(len(ids))]
				w.nodes[id.node].SetValue(w.now, id.number, []byte(fmt.Sprint(w.rng.IntN(100))))
				w.collect(id.node)
			}
		case 12:
			n.Query(w.now, wildKeys[w.rng.IntN(len(wildKeys))])
			w.collect(name)
		case 13:
			n.Revoke(w.now, wildKeys[w.rng.IntN(len(wildKeys))], "please")
			w.collect(name)
		case 14:
			if w.rng.IntN(10) == 0 {
				n.Watch(w.now, "", true)
				w.collect(name)
			}
		case 15:
			switch {
			case w.how == breaks && w.rng.IntN(3) == 0:
				conns := w.open()
				w.cut(conns[w.rng.IntN(len(conns))])
			case w.how == restarts && w.rng.IntN(3) == 0 && w.counting(name):
				w.restart(name)
			}
		}
		if w.how == dynamic {
			w.shuffle(name)
			w.pass(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		}
		if w.how == restarts {
			w.pass(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		}
		for range w.rng.IntN(1 + 1000*int(time.Millisecond)/int(w.slow)) {
			w.deliver()
		}
		for range w.rng.IntN(5) {
			w.step(time.Millisecond)
		}
		if w.t.Failed() {
			return
		}
		// An upgrade replaces the shared lease beside.
		for _, h := range slices.Clone(w.leases) {
			if h.Beside != 0 && w.served[requestID{h.node, h.Beside}].Kind == quorum.EventGranted {
				w.release(requestID{h.node, h.Beside})
			}
		}
	}
	if w.keep {
		return
	}
	for _, id := range open() {
		w.release(id)
	}
}

// counting reports whether all other voters count, so that the given node may be taken away.
func (w *wild) counting(but vote.NodeID) bool {
	for _, name := range w.voters {
		if name != but && w.nodes[name] != nil && w.nodes[name].Quiet() > 0 {
			return false
		}
	}
	return true
}

// anything draws a request of any sort.
func (w *wild) anything(vote.NodeID) (quorum.RequestOptions, bool) {
	ask := quorum.RequestOptions{Spec: vote.Spec{Key: wildKeys[w.rng.IntN(len(wildKeys))], Mode: vote.Exclusive, Try: w.rng.IntN(5) == 0}}
	switch ask.Key {
	case "s":
		if w.rng.IntN(3) > 0 {
			ask.Mode = vote.Shared
		}
	case "p":
		ask.Mode, ask.Permits = vote.Permit, 2
		if w.rng.IntN(8) == 0 {
			ask.Permits = 3
		}
	case "l":
		ask.Length = time.Duration(60+w.rng.IntN(400)) * time.Millisecond
		ask.Fixed = w.rng.IntN(3) == 0
		switch w.rng.IntN(3) {
		case 0:
			ask.Mode = vote.Shared
		case 1:
			ask.Mode, ask.Permits = vote.Permit, 2
		}
	}
	if w.rng.IntN(6) == 0 {
		ask.MinHold = time.Duration(w.rng.IntN(200)) * time.Millisecond
	}
	if w.rng.IntN(6) == 0 {
		ask.Delay = time.Duration(w.rng.IntN(200)) * time.Millisecond
	}
	if w.rng.IntN(4) == 0 {
		ask.Value = []byte("v")
	}
	ask.Revoke = w.rng.IntN(5) == 0
	return ask, true
}

func TestAnythingInAnyOrder(t *testing.T) {
	sampled.Computes(t)
	var ran []uint64
	kinds := map[vote.Kind]int{}
	for _, how := range []manner{calm, breaks, restarts} {
		for seed := range uint64(*wildSeeds) {
			t.Run(fmt.Sprintf("%s/seed=%d", how, seed), func(t *testing.T) {
				w := newWild(t, how, seed, 3, 5)
				w.monkey(*wildSteps, w.anything)
				if t.Failed() {
					return
				}
				w.pass(time.Second)
				w.idle(how.ttl() + 4*time.Second)
				w.quiescent()
				ran = append(ran, seed)
				for k, n := range w.kinds {
					kinds[k] += n
				}
			})
		}
	}
	if len(ran) < 3**wildSeeds {
		return // only some seeds were run
	}
	for k := vote.KindNone + 1; k.Valid(); k++ {
		// These kinds may be absent: messages between dynamic nodes, refusals, answers of full
		// voters, probes of a duplicate name, messages about a lost stream, and a node's own first
		// messages, which are sent before the tap.
		switch k {
		case vote.KindElectorate, vote.KindPoll, vote.KindReport, vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted,
			vote.KindOpen, vote.KindSync, vote.KindTokenQuery, vote.KindBusy, vote.KindProbe, vote.KindProbeReply, vote.KindRefused, vote.KindUnknown:
		default:
			if kinds[k] == 0 {
				t.Errorf("no voter ever said or heard %q", k)
			}
		}
	}
}
