package lease

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxHeldBytes is the limit of a voter's memory for a held key of 32 bytes without waiters, all
// included. A million such keys are a third of a gigabyte.
const maxHeldBytes = 350

// heap returns the number of bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryOfHeldKeys(t *testing.T) {
	sampled.Computes(t)
	if sampled.Raced {
		t.Skip("the race detector takes memory of its own")
	}
	const keys = 200_000
	b := newBooth(t, 1)
	c := b.sessions[0]
	b.cycle(c, "warm")
	before := heap()
	first := c.number + 1
	hold := func() { // a function, so that afterwards only the voter keeps the names
		for i, name := range names(keys) {
			b.ask(c, name)
			b.win(c)
			if i%5000 == 0 {
				b.refresh(c)
			}
		}
	}
	hold()
	if got := b.v.Size(); got.Requests != keys {
		t.Fatalf("%+v", got)
	}
	held := heap()
	if each := float64(held-before) / keys; each > maxHeldBytes {
		t.Errorf("a held key takes %.0f bytes at a voter, more than %d", each, maxHeldBytes)
	} else {
		t.Logf("a held key takes %.0f bytes at a voter", each)
	}
	for n := first; n <= c.number; n++ {
		b.giveBack(c, n)
		if n%5000 == 0 {
			b.refresh(c)
		}
	}
	b.refresh(c)
	b.pass(vote.Skew)
	if b.v.Keys() != 0 {
		t.Fatalf("%d keys are remembered", b.v.Keys())
	}
	if left := heap() - before; left > 4*keys {
		t.Errorf("%d bytes are left of keys that were forgotten", left)
	}
	runtime.KeepAlive(b)
}

// The memory of many waiters, of keys mostly gone since, and of timers is freed.
func TestACrowdThatHasGoneLeavesNothing(t *testing.T) {
	sampled.Computes(t)
	if sampled.Raced {
		t.Skip("the race detector takes memory of its own")
	}
	const sessions, keys, waiting = 40, 5000, 2000
	b := newBooth(t, sessions)
	for _, c := range b.sessions {
		b.cycle(c, "warm")
	}
	b.pass(vote.Skew)
	b.refreshAll()
	before := heap()
	for i, c := range b.sessions { // all want the same key
		for range waiting {
			b.ask(c, "wanted")
		}
		for _, name := range names(keys) { // other sessions want these, too
			b.ask(c, name)
		}
		if i%10 == 0 {
			b.refreshAll()
		}
	}
	grown := heap() - before
	for i, c := range b.sessions {
		for n := c.number; n > 1; n-- {
			b.giveBack(c, n)
		}
		if i%10 == 0 {
			b.refreshAll()
		}
	}
	for range 20 {
		b.refreshAll()
		b.pass(time.Second)
	}
	if b.v.Keys() != 0 {
		t.Fatalf("%d keys are remembered", b.v.Keys())
	}
	if left := heap() - before; left > grown/20 {
		t.Errorf("of %d bytes for a crowd %d are left", grown, left)
	}
	if timers, idle := cap(b.v.votes.reminders), cap(b.v.keys.idle.all); timers > roomy || idle > roomy {
		t.Errorf("there is room for %d timers and %d idle keys", timers, idle)
	}
	runtime.KeepAlive(b)
}

func TestTheSteadyPathAllocatesNothing(t *testing.T) {
	const sessions = 16
	nothing := func(name string, warm int, f func(b *booth)) {
		t.Run(name, func(t *testing.T) {
			b := newBooth(t, sessions)
			for range warm {
				f(b)
			}
			if n := testing.AllocsPerRun(1000, func() { f(b) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
	key := vote.Key("a-key-of-thirty-two-bytes-length")
	nothing("one key", 100, func(b *booth) { b.cycle(b.sessions[0], key) })

	many, i := names(1000), 0
	nothing("keys that come again", 2*len(many), func(b *booth) {
		i++
		b.cycle(b.sessions[i%sessions], many[i%len(many)])
	})
	nothing("keys that are new", 2*len(many), func(b *booth) {
		b.pace = 2 * time.Millisecond // each key is forgotten before its next use
		i++
		b.cycle(b.sessions[i%sessions], many[i%len(many)])
		b.refresh(b.sessions[i%sessions])
	})
	nothing("waiters", 100, func(b *booth) {
		if b.sessions[0].number == 0 {
			for _, c := range b.sessions {
				b.ask(c, key)
			}
			i = 0
		}
		c := b.sessions[i%sessions]
		b.win(c)
		n := c.number
		b.ask(c, key)
		b.giveBack(c, n)
		i++
	})
	nothing("refreshes", 1, func(b *booth) { b.refreshAll() })
}

// Recycled entries and keys are as good as new: a voter with a long history sends the same messages
// as a new voter.
func TestWhatIsUsedAgainIsAsGoodAsNew(t *testing.T) {
	var v Voter
	for range 2 * spareMax {
		e, k := v.spares.entries.get(), v.spares.keys.get()
		e.held, e.number, e.key = true, 7, k
		v.spares.coldFor(e).reason = "why"
		k.name, k.tries = "k", 3
		k.votes.add(e)
		k.votes.add(v.spares.copyOf(e))
		for _, f := range slices.Clone(k.votes.all()) {
			v.spares.discard(f)
		}
		v.spares.keys.put(k)
		e, k = v.spares.entries.get(), v.spares.keys.get()
		if *e != (entry{}) || *k != (key{}) || e.cold().reason != "" || v.spares.coldFor(e).reason != "" {
			t.Fatalf("%+v, %+v", e, k)
		}
	}
	if n := len(v.spares.entries.free); n > spareMax {
		t.Errorf("%d entries are kept", n)
	}
	var many spare[key]
	for range 2 * spareMax {
		many.put(&key{})
	}
	if n := len(many.free); n != spareMax {
		t.Errorf("%d keys are kept", n)
	}
}

// The type entryList is compared with a list, idleKeys with a list, and timers come in the order of
// their times.
func TestListsOfTheirOwnAreAsSlices(t *testing.T) {
	sampled.Computes(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 2, 5, 3000} {
		var l entryList
		var want []*entry
		for range 10 * most {
			n := len(want)
			if grow := rng.IntN(most) >= n; grow {
				e, i := &entry{}, rng.IntN(n+1)
				l.insert(i, e)
				want = slices.Insert(want, i, e)
			} else {
				i := rng.IntN(n) * rng.IntN(2) // the first as often as any other
				l.delete(i)
				want = slices.Delete(want, i, i+1)
			}
			if !slices.Equal(l.all(), want) || l.empty() != (len(want) == 0) {
				t.Fatalf("%d entries, not %d", len(l.all()), len(want))
			}
		}
	}
	for _, most := range []int{1, 2, 5, 3000} { // votes are in order of serials
		var l entryList
		var want []*entry
		for serial := range vote.Serial(10 * most) {
			if n := len(want); rng.IntN(most) >= n {
				e := &entry{serial: serial + 1}
				l.add(e)
				want = append(want, e)
			} else {
				i := rng.IntN(n)
				l.remove(want[i])
				l.remove(&entry{serial: want[i].serial}) // isn't there
				want = slices.Delete(want, i, i+1)
			}
			if !slices.Equal(l.all(), want) {
				t.Fatalf("%d votes, not %d", len(l.all()), len(want))
			}
		}
	}

	var q idleKeys
	var added, taken vote.Instant
	for _, up := range []int{3, 5000, 10, 1} { // up to this size, and back to a third
		for q.len() < up || rng.IntN(100) > 0 {
			if q.len() < up || rng.IntN(2) == 0 {
				added++
				q.add(idleKey{at: added})
			}
			for q.len() > up/3 && rng.IntN(2) == 0 {
				if taken++; q.first().at != taken || q.take().at != taken {
					t.Fatal("out of order")
				}
			}
			if q.len() != int(added-taken) {
				t.Fatalf("%d, not %d", q.len(), added-taken)
			}
			if q.len() >= up {
				break
			}
		}
		for q.len() > up/3 {
			if taken++; q.take().at != taken {
				t.Fatal("out of order")
			}
		}
		if c := cap(q.all); c > roomy && c > 9*(q.len()+1) {
			t.Errorf("room for %d when there are %d", c, q.len())
		}
	}

	var h reminders
	var times []vote.Instant
	for range 5000 {
		if len(h) == 0 || rng.IntN(3) > 0 {
			at := vote.Instant(rng.IntN(1000))
			h.add(reminder{at: at})
			times = append(times, at)
			continue
		}
		slices.Sort(times)
		if r := h.take(); r.at != times[0] {
			t.Fatalf("%d comes before %d", r.at, times[0])
		}
		times = times[1:]
	}
}
