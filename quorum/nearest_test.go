package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// said returns the receivers of the messages of one kind since the last call: in capitals if a
// message is sent at once, in small letters if the message may linger.
func (b *bench) said(kind vote.Kind) string {
	out, ev := b.q.Drain(nil, nil)
	b.events = append(b.events, ev...)
	var who []string
	for _, o := range out {
		if o.Message.Kind != kind {
			continue
		}
		name := string(b.names[o.Conn-1])
		if !o.Later {
			name = strings.ToUpper(name)
		}
		who = append(who, name)
	}
	return strings.Join(who, " ")
}

// as returns a bench for a node of the given name, with links to all voters.
func as(t *testing.T, self vote.NodeID, n int) *bench {
	t.Helper()
	b := newBench(t, n)
	e, err := Fixed(b.names)
	if err != nil {
		t.Fatal(err)
	}
	b.q = New(Config{Self: vote.SessionID{Node: self, Incarnation: 1}, Electorate: e, TTL: ttl}, b.now)
	b.all()
	return b
}

// put requests a key, and leaves the requester's messages in place.
func (b *bench) put(key vote.Key) vote.Number {
	b.t.Helper()
	n, err := b.q.Lock(b.now, Exclusive(key, false))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// wins has v0 and v1 vote for a request: a majority of three.
func (b *bench) wins(n vote.Number, s vote.Serial, t vote.Token) {
	b.t.Helper()
	b.promise("v0", n, s, t)
	b.promise("v1", n, s, t)
	b.granted(n, true)
}

// deliver is like sends, but leaves the resulting messages in place.
func (b *bench) deliver(v vote.NodeID, m vote.Message) {
	m.Stream = b.q.peerOf(v).stream
	b.q.Deliver(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5}, &m)
}

func TestTheFewestThatDecideAreFirst(t *testing.T) {
	for _, row := range []struct {
		voters int
		begins int
		out    Set
		want   Set
	}{
		{1, 0, 0b1, 0b1},
		{2, 0, 0b11, 0b11},
		{3, 0, 0b111, 0b011},
		{3, 1, 0b111, 0b110},
		{3, 2, 0b111, 0b101}, // the order wraps around
		{3, 0, 0b101, 0b101}, // v1 is out
		{3, 1, 0b101, 0b101},
		{3, 0, 0b100, ^Set(0)}, // no majority
		{3, 0, 0, ^Set(0)},
		{5, 3, 0b11111, 0b11001},
		{5, 3, 0b01111, 0b01011},
		{5, 4, 0b00110, ^Set(0)},
		{4, 1, 0b1111, 0b1110},
	} {
		q := newBench(t, row.voters).q
		q.firstPlace = row.begins
		q.sortByDistance()
		if got := q.nearestMajority(row.out); got != row.want {
			t.Errorf("%+v: %b", row, got)
		}
	}
}

func TestOfAJointElectorateBothHalvesAreFirst(t *testing.T) {
	f := follow(t, "7: a b c (c d e)")
	q := f.q
	all := q.newest.All()
	for begins := range q.peers {
		q.firstPlace = begins
		q.sortByDistance()
		few := q.nearestMajority(all)
		if few == ^Set(0) || !q.newest.Decides(few) {
			t.Fatalf("from %d: %b of %b don't decide", begins, few, all)
		}
		last := begins // the last voter taken must be needed for the majority
		for i := range q.peers {
			if place := (begins + i) % len(q.peers); few.Has(place) {
				last = place
			}
		}
		if q.newest.Decides(few.Without(last)) {
			t.Errorf("from %d: %b are more than are needed", begins, few)
		}
	}
	if got := q.nearestMajority(those(q.places, "a b")); got != ^Set(0) {
		t.Errorf("%b though the old voters have no majority in it", got)
	}
	if got, want := q.nearestMajority(those(q.places, "a b d e")), those(q.places, "a b d e"); got != want {
		t.Errorf("%b, want %b", got, want)
	}
}

// While votes under the previous electorate still count, no request is deferred.
func TestAllAreFirstWhileTheElectorateHasJustChanged(t *testing.T) {
	q := newBench(t, 3).q
	if few := q.nearestMajority(q.newest.All()); few.Len() != 2 {
		t.Fatalf("%b", few)
	}
	q.before = q.newest
	if few := q.nearestMajority(q.newest.All()); few != ^Set(0) {
		t.Errorf("%b", few)
	}
}

func TestANodeBeginsWithItsOwnVoter(t *testing.T) {
	for i := range 5 {
		self := vote.NodeID(fmt.Sprintf("v%d", i))
		b := as(t, self, 5)
		b.put("k")
		said := b.said(vote.KindRequest)
		if !strings.Contains(said, strings.ToUpper(string(self))) || strings.Count(said, "V") != 3 || strings.Contains(said, "v") {
			t.Errorf("%s has asked %q", self, said)
		}
	}
	// A node without a voter begins at any voter, but always at the same voter; many nodes together
	// begin at all voters.
	begins := map[int]bool{}
	for i := range 100 {
		q := New(Config{Self: vote.SessionID{Node: vote.NodeID(fmt.Sprintf("x%d", i)), Incarnation: 1}, Electorate: must(t, 5), TTL: ttl}, vote.Now{Fast: 1e9, Slow: 1e9})
		if q.firstPlace < 0 || q.firstPlace >= 5 || q.firstPlace != q.beginning() {
			t.Fatalf("x%d begins at %d", i, q.firstPlace)
		}
		begins[q.firstPlace] = true
	}
	if len(begins) != 5 {
		t.Errorf("of many nodes all begin at %v", begins)
	}
}

func must(t *testing.T, n int) vote.Electorate {
	t.Helper()
	e, err := Fixed(newBench(t, n).names)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWhatOfALonelyLockMayWait(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	if got := b.said(vote.KindRequest); got != "V0 V1" {
		t.Errorf("asked %q", got)
	}
	b.deliver("v0", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100})
	b.deliver("v1", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100})
	if got := b.said(vote.KindConfirm); got != "v0 v1" {
		t.Errorf("told of the win: %q", got)
	}
	b.granted(n, true)
	b.q.Release(b.now, n)
	if got := b.said(vote.KindRelease); got != "V0 V1" {
		t.Errorf("released %q", got)
	}
}

// The release goes at once to the voters with votes for the lease: their confirmation is needed.
func TestAReleaseGoesFirstToThoseThatVoted(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.pass(minHedgeDelay)
	b.promise("v2", n, 1, 100)
	b.promise("v0", n, 1, 100)
	b.granted(n, true)
	b.q.Release(b.now, n)
	if got := b.said(vote.KindRelease); got != "V0 v1 V2" {
		t.Errorf("released %q", got)
	}
}

func TestAVoterThatDoesNotCountIsNotAmongTheFirst(t *testing.T) {
	b := as(t, "v0", 3)
	b.q.Unlink(b.now, b.place("v1"))
	b.drain()
	b.put("k")
	if got := b.said(vote.KindRequest); got != "V0 V2" {
		t.Errorf("asked %q", got)
	}
	b.q.Unlink(b.now, b.place("v2"))
	b.drain()
	b.put("l")
	if got := b.said(vote.KindRequest); got != "V0" {
		t.Errorf("asked %q with no majority in reach", got)
	}
}

// No message lingers if another node or caller waits for the message, or may wait.
func TestWhatOthersWaitForGoesAtOnce(t *testing.T) {
	put := func(b *bench, key vote.Key) vote.Number { // to all voters
		b.t.Helper()
		n := b.put(key)
		b.pass(minHedgeDelay)
		if got := b.sentTo("v2"); got != "request" {
			b.t.Fatalf("v2 was told %q", got)
		}
		return n
	}
	t.Run("the key is wanted elsewhere", func(t *testing.T) {
		b := as(t, "v0", 3)
		n := put(b, "k")
		b.wins(n, 1, 100)
		b.sends("v2", vote.Message{Kind: vote.KindContended, Number: n, Who: "x"})
		b.q.Release(b.now, n)
		if got := b.said(vote.KindRelease); got != "V0 V1 V2" {
			t.Errorf("released %q", got)
		}
	})
	t.Run("a voter knows of somebody who waits", func(t *testing.T) {
		b := as(t, "v0", 3)
		n := put(b, "k")
		b.sends("v0", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100, Revoke: true})
		b.deliver("v1", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100})
		if got := b.said(vote.KindConfirm); got != "V0 V1 V2" {
			t.Errorf("told of the win: %q", got)
		}
	})
	t.Run("another caller here waits in line", func(t *testing.T) {
		b := as(t, "v0", 3)
		n := put(b, "k")
		b.put("k")
		b.promise("v0", n, 1, 100)
		b.deliver("v1", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100})
		if got := b.said(vote.KindConfirm); strings.Contains(got, "v") {
			t.Errorf("told of the win: %q", got)
		}
	})
	t.Run("the lease is lost", func(t *testing.T) {
		b := as(t, "v0", 3)
		n := put(b, "k")
		b.wins(n, 1, 100)
		b.q.Lapse(b.now, n)
		if got := b.said(vote.KindRelease); got != "V0 V1 V2" {
			t.Errorf("released %q", got)
		}
	})
	t.Run("it was never won", func(t *testing.T) {
		b := as(t, "v0", 3)
		n := put(b, "k")
		b.promise("v0", n, 1, 100)
		b.promise("v1", n, 1, 200) // a majority has voted, but not for the same token
		b.granted(n, false)
		b.q.Release(b.now, n)
		if got := b.said(vote.KindRelease); got != "V0 V1 V2" {
			t.Errorf("released %q", got)
		}
	})
}

// The nearest majority is first. About equally near voters are in the order of places.
func TestTheNearestAreFirst(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		trips []time.Duration
		want  string
	}{
		{[]time.Duration{1, ms, ms}, "V0 V1"},
		{[]time.Duration{1, 3 * ms, ms}, "V0 V2"},
		{[]time.Duration{1, ms + 100*time.Microsecond, ms}, "V0 V1"},
		{[]time.Duration{1, 11 * ms, 9 * ms}, "V0 V1"}, // about equally near
		{[]time.Duration{1, 0, ms}, "V0 V2"},           // the round trip to v1 is unknown
		{[]time.Duration{1, 9 * ms, 5 * ms, 20 * ms, 6 * ms}, "V0 V2 V4"},
		{[]time.Duration{1, 25 * ms, 20 * ms, 80 * ms, 50 * ms}, "V0 V1 V2"},
		{[]time.Duration{1, 26 * ms, 20 * ms, 80 * ms, 50 * ms}, "V0 V1 V2 V3 V4"},
	} {
		b := as(t, "v0", len(row.trips))
		for i, d := range row.trips {
			b.q.peers[i].rtt = d
		}
		b.q.sortByDistance()
		b.put("k")
		if got := b.said(vote.KindRequest); got != row.want {
			t.Errorf("%v: asked %q, want %q", row.trips, got, row.want)
		}
	}
}

// The order of the voters follows the round trips shown by acknowledgements.
func TestAVoterThatIsFarIsNotAmongTheFirst(t *testing.T) {
	b := as(t, "v0", 3)
	for range 3 {
		b.pass(b.q.refreshAt.Sub(b.now.Fast))
		b.ack("v0", nil)
		b.ack("v2", nil)
		b.now.Fast = b.now.Fast.Add(3 * time.Millisecond)
		b.ack("v1", nil)
	}
	b.said(vote.KindRequest)
	b.put("k")
	if got := b.said(vote.KindRequest); got != "V0 V2" {
		t.Errorf("asked %q", got)
	}
}

// An exhaustive search sends each request to all voters and doesn't tell round trips apart, so
// nothing may depend on round trips.
func TestWhereAllAreAskedTheOrderStaysAsItIs(t *testing.T) {
	b := as(t, "v1", 3)
	b.q.keepsOrder = true
	b.q.peers[2].rtt, b.q.peers[0].rtt = 9*time.Millisecond, time.Millisecond
	b.q.sortByDistance()
	if got := fmt.Sprint(b.q.order); got != "[1 2 0]" {
		t.Errorf("the order is %v", got)
	}
}

// A voter that has applied only an electorate that is over may vote at once, but has no validity.
func TestAVoterThatIsBehindIsNotAmongTheFirst(t *testing.T) {
	f := follow(t, "1: a b c")
	f.reconfigureTo("2: a b c d (a b c)")
	f.link("d")
	f.reconfigureTo("3: a b c d")
	f.pass(2 * ttl / 5)
	f.goes["a"] = 1
	f.ack("a b c d")
	f.pass(2 * ttl) // the version before is over
	f.link("a b c d")
	f.q.Lock(f.now, Exclusive("k", false))
	for _, v := range []string{"a", "b", "c", "d"} {
		if got := f.sentTo(v); got == "request" != (v != "a") {
			t.Errorf("%s is told %q", v, got)
		}
	}
}
