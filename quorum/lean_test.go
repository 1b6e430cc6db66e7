package quorum

import (
	"runtime"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// To lock and unlock is what applications do all day, and what they wait for is not to depend on when memory is cleaned up.
func TestALockAllocatesNothing(t *testing.T) {
	if raced {
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

// heldMax is how many bytes of the requester's a held lease may take, its key's own not counted. With those of the root package the holder may have 600.
const heldMax = 330

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAHeldLeaseIsSmallAndGivesItsRoomBack(t *testing.T) {
	if raced {
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

// Callers that stand in line for many keys are a crowd, too, and so are releases that nobody confirms for a while.
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
	for i := range first { // each lease is passed on
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
	if n := q.Open(); n != 1 || len(q.seats) != 0 || len(q.heads) != 1 || len(q.lines) != 0 || len(q.pending) != 0 {
		t.Errorf("left: %d requests, %d seats, %d heads of lines, %d lines, %d pending", n, len(q.seats), len(q.heads), len(q.lines), len(q.pending))
	}
	if m := q.most; m.requests > roomyMap || m.seats > roomyMap || m.heads > roomyMap || m.lines > roomyMap {
		t.Errorf("maps have room for %+v", m)
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
		if r.key != "" || r.rare != nil || r.group != nil || r.state != stateEnding || r.votes[0] != (counted{}) {
			t.Fatalf("what is free isn't cleared: %+v", r)
		}
	}
	for _, x := range q.free.rares {
		if x.ask.Key != "" || x.ask.Value != nil || x.votes[0].relSerial != 0 {
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
