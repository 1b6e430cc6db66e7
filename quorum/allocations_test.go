package quorum

import (
	"runtime"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Lock and Unlock allocate nothing: applications call both all day, and their latency must not
// depend on garbage collection.
func TestALockAllocatesNothing(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	for _, voters := range []int{1, 3, 5, 7} {
		o := newOffice(t, voters)
		other := o.lock("another key is held meanwhile")
		cycle := func() {
			for range 100 {
				o.unlock(o.lock("a-key-of-thirty-two-bytes-length"))
			}
			o.pass()
		}
		cycle()
		if n := testing.AllocsPerRun(20, cycle) / 100; n > 0.01 {
			t.Errorf("%d voters: %.2f allocations for a lock", voters, n)
		}
		o.unlock(other)
		cycle()
		if n := testing.AllocsPerRun(20, cycle) / 100; n > 0.01 {
			t.Errorf("%d voters, with nothing held besides: %.2f allocations for a lock", voters, n)
		}
	}
}

// heldMax limits the requester's bytes for a held lease, without the bytes of the key. Together
// with the root package a held lease may take 600 bytes.
const heldMax = 345

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAHeldLeaseIsSmallAndGivesItsRoomBack(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	const many = 100_000
	keys := manyKeys(many)
	held := make([]vote.Number, 0, many)
	o := newOffice(t, 3)
	last := o.lock("one that stays")
	o.pass()
	empty := heap()
	held = append(held, o.hold(keys)...)
	o.pass()
	full := heap()
	each := float64(full-empty) / many
	t.Logf("%.0f bytes for each of %d leases held", each, many)
	if each > heldMax {
		t.Errorf("%.0f bytes for each of %d leases held; at most %d are wanted", each, many, heldMax)
	}
	for i, n := range held {
		o.unlock(n)
		if i%1000 == 999 {
			o.pass()
		}
	}
	o.pass()
	if left := heap(); left > empty+1<<20 {
		t.Errorf("%d KiB are left of the %d KiB that %d leases had", (left-empty)>>10, (full-empty)>>10, many)
	}
	o.unlock(last)
	runtime.KeepAlive(held)
	runtime.KeepAlive(keys)
}

// The memory of many locally queued callers, and of many releases, is given back.
func TestACrowdThatHasGoneLeavesNoRoomBehind(t *testing.T) {
	const many = 3 * roomyMap
	o := newOffice(t, 3)
	stays := o.lock("one that stays")
	keys := manyKeys(many)
	first := o.hold(keys)
	behind := make([]vote.Number, many)
	for i, k := range keys {
		n, err := o.q.Lock(o.now, Exclusive(k, false))
		if err != nil {
			t.Fatal(err)
		}
		behind[i] = n
	}
	o.settle()
	for i := range first { // each lease is handed off
		o.unlock(first[i])
		if o.granted != behind[i] {
			t.Fatal("not passed on")
		}
	}
	for i := range behind {
		o.unlock(behind[i])
	}
	o.pass()
	q := o.q
	if n := q.Open(); n != 1 || len(q.aliases) != 0 || len(q.fronts) != 1 || len(q.queues) != 0 || len(q.pending) != 0 {
		t.Errorf("left: %d requests, %d aliases, %d fronts, %d local queues, %d pending", n, len(q.aliases), len(q.fronts), len(q.queues), len(q.pending))
	}
	if most := max(q.mostRequests, q.mostAliases, q.mostFronts, q.mostQueues); most > roomyMap {
		t.Errorf("a map has room for %d", most)
	}
	for _, g := range q.groups {
		if cap(g.members) > roomyMap {
			t.Errorf("a group has room for %d leases", cap(g.members))
		}
	}
	if cap(q.pending) > roomyMap || cap(q.ending.room) > roomyMap {
		t.Errorf("room for %d that are pending and %d that end", cap(q.pending), cap(q.ending.room))
	}
	for _, r := range q.free.requests {
		if r.key != "" || r.cold != nil || r.group != nil || r.state != stateEnding || r.votes[0] != (countedVote{}) {
			t.Fatalf("what is free isn't cleared: %+v", r)
		}
	}
	for _, x := range q.free.cold {
		if x.opts.Key != "" || x.opts.Value != nil || x.votes[0].relSerial != 0 {
			t.Fatalf("what is free isn't cleared: %+v", x)
		}
	}
	o.unlock(stays)
}

func TestARefreshCostsTheSameHoweverManyLeasesAreHeld(t *testing.T) {
	said := func(held int) int {
		o := newOffice(t, 3)
		o.hold(manyKeys(held))
		o.pass()
		o.words = 0
		o.now.Fast = o.now.Fast.Add(o.q.every())
		o.q.Tick(o.now)
		for i := range o.q.out {
			if m := &o.q.out[i].Message; m.Kind != vote.KindRefresh || len(m.Entries) > 0 {
				t.Errorf("said with %d held: %+v", held, m)
			}
		}
		o.settle()
		return o.words
	}
	if none, many := said(0), said(5000); none != 3 || many != none {
		t.Errorf("%d words with nothing held, %d with 5000 leases", none, many)
	}
}

// The earliest of many instants is cached. The cache must follow when the earliest instant is over
// or put off, or else the node would wake up for nothing.
func TestNothingIsDueBeforeItsTime(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	check := func() {
		t.Helper()
		due := min(b.q.refreshAt, b.q.beforeEnds())
		for _, p := range b.q.peers {
			due = min(due, p.refreshAt, p.lastReceived.Add(b.q.patience(p)))
			if at := p.lastReceived.Add(silentAfter(ttl)) + 1; at > b.now.Fast {
				due = min(due, at)
			}
		}
		if len(b.q.pending) > 0 {
			due = min(due, b.q.ackSchedule.at)
		}
		for _, g := range b.q.groups {
			due = min(due, g.until)
		}
		for _, r := range b.q.lengths.all {
			if r != nil {
				due = min(due, r.cold.extendAt)
			}
		}
		if b.q.ending.len() > 0 {
			due = min(due, b.q.ending.first().at)
		}
		if next := b.q.Next(); next != due {
			t.Fatalf("due after %v, and Next says %v", due.Sub(b.now.Fast), next.Sub(b.now.Fast))
		}
	}
	var own []vote.Number
	for i := range 3 {
		ask := Exclusive(vote.Key("k"+string(rune('0'+i))), false)
		ask.Length = ttl / 8 * time.Duration(i+1)
		n, err := b.q.Lock(b.now, ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range b.names[:2] {
			b.promise(v, n, vote.Serial(i+1), 100)
			b.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: vote.Serial(i + 1), Sent: b.now.Fast})
			check()
		}
		b.granted(n, true)
		own = append(own, n)
	}
	for range 8 {
		b.pass(ttl / 64)
		check()
		for _, v := range b.names[:2] { // the last lease is extended, and not the first
			b.sends(v, vote.Message{Kind: vote.KindExtended, Number: own[2], Serial: 3, Sent: b.now.Fast})
			check()
		}
	}
	b.q.Release(b.now, own[1])
	b.drain()
	check()
	for len(b.q.groups) > 0 {
		b.pass(ttl / 64)
		check()
	}
	if b.q.lengths.len() != 0 || b.q.firstEnd() != vote.Never || b.q.lengths.first(&b.q.meter) != vote.Never {
		t.Error("something is due of leases that are over")
	}
}
