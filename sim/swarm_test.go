package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// swarm runs seeds, and prints their figures at the end. The figures of the default seeds are
// checked; those of other seeds depend on chance. With the given flags lockmesh-sim draws the same
// worlds.
func swarm(t *testing.T, seeds int, draw func(seed uint64) Options, check func(*Figures), flags ...string) {
	var tally Tally
	const usual = 30 * time.Second
	length, began := lengthFor(t, usual), 0
	t.Run("runs", func(t *testing.T) {
		eachSeed(t, seeds, func(t *testing.T, seed uint64) {
			start := time.Now()
			o := draw(seed)
			o.Trace = traceFile(t)
			o.History = true
			w := New(o)
			w.Run(length)
			if err := w.Settle(); err != nil {
				t.Error(err)
				if o.Dynamic == nil { // other worlds can't be shrunk
					t.Logf("to shrink it: %s", ShrinkCommand(seed, length, flags...))
				}
			}
			tally.Add(w.Figures(), time.Since(start))
		})
		began = int(seedsOf(t, seeds))
	})
	t.Logf("figures\n%s", tally.String())
	complete := fromEnv(t, envSeed, 1) == 1 && length*time.Duration(began) >= usual*time.Duration(seeds)
	if f := tally.Figures(); complete && !t.Failed() {
		check(&f)
	}
}

// manyRequests is the number of requests above which a run must have had every fault under every
// use of keys. Smaller runs have the common uses.
const manyRequests = 500_000

// TestSwarm runs seeds with all faults within the assumptions of exclusion.
func TestSwarm(t *testing.T) {
	swarm(t, 120, Draw, func(f *Figures) {
		for _, m := range f.Missing() {
			t.Errorf("no run reached this: %v", m)
		}
		for _, k := range f.NotFired() {
			if k != fault.Unseen && k != fault.Beyond && !k.IsOfDynamic() && !k.IsOfByCount() {
				t.Errorf("no run had this fault: %v", k)
			}
		}
		for u := range usedEnd {
			for k := range fault.Dynamic {
				often := u != usedByUpgrade && u != usedByDowngraded && u != usedWithDelay && u != usedWithMinHold
				if f.Under[u][k] == 0 && k != fault.Unseen && k != fault.Beyond && (often || f.Requests > manyRequests) {
					t.Errorf("no run had a fault of this kind while a key was held or wanted so: %v, %v", k, u)
				}
			}
		}
		t.Log("\n" + f.UnderTable())
		if f.Undecided > 5+f.Acquisitions/10_000 {
			t.Errorf("%d histories are undecided", f.Undecided)
		}
	})
}

// TestSwarmBeyondTheAssumptions runs seeds in which clocks err without bound and processes are
// paused unseen. Two users may believe that they hold a key, but a resource that checks tokens must
// accept nothing out of order.
func TestSwarmBeyondTheAssumptions(t *testing.T) {
	swarm(t, 24, DrawBeyond, func(f *Figures) {
		if f.Fired[fault.Unseen] == 0 || f.Fired[fault.Beyond] == 0 || f.Fenced == 0 || f.Overlaps == 0 || f.Drifts == 0 {
			t.Errorf("%d unseen pauses, %d rates beyond the bound, %d refused writes, %d times two held a key, %d reports of drift: it has shown nothing",
				f.Fired[fault.Unseen], f.Fired[fault.Beyond], f.Fenced, f.Overlaps, f.Drifts)
		}
	}, "-beyond")
}

// How often the electorate of a world with dynamic membership changes at least, and how many faults
// are aimed at a step of a change, on the average of all worlds, the mild worlds included.
const (
	changesEach  = 10
	targetedEach = 10
)

// TestSwarmDynamic runs seeds with dynamic membership.
func TestSwarmDynamic(t *testing.T) {
	seeds := sampled.Count(16, 60)
	if sampled.Raced {
		seeds = 8
	}
	swarm(t, seeds, DrawDynamic, func(f *Figures) {
		if sampled.Raced {
			return
		}
		if f.Changes < changesEach*uint64(seeds) || f.Fired[fault.Targeted] < targetedEach*uint64(seeds) {
			t.Errorf("%d changes of electorates began, and %d targeted faults met one: it has shown too little", f.Changes, f.Fired[fault.Targeted])
		}
		if !meetsRare(t, seeds) {
			return
		}
		for _, k := range f.NotFired() {
			if k.IsOfDynamic() {
				t.Errorf("no run had this fault: %v", k)
			}
		}
		if f.ElectorateAmbushes == 0 {
			t.Error("no node died at a message about an electorate")
		}
		if f.Marks[markOrder] == 0 { // few of these worlds are calm for long enough for the check *idle*
			t.Errorf("no run reached this: %v", markOrder)
		}
	}, "-dynamic")
}

// manySeeds is the number of seeds from which on some world of a kind meets what few worlds meet.
const manySeeds = 32

// meetsRare reports whether a swarm, of seeds by default, runs so many seeds that some world must
// meet what few worlds meet.
func meetsRare(t *testing.T, seeds int) bool { return seedsOf(t, seeds) >= manySeeds }

// servingJudged demands that the checks *idle* and *order* had something to judge in a swarm of
// many seeds. Both need a mesh without faults for a while, and without a change of the electorate.
// A smaller swarm may have no such world: TestQuietWorldsAreJudged runs one of each kind.
func servingJudged(t *testing.T, f *Figures, seeds int) {
	t.Helper()
	if !meetsRare(t, seeds) {
		return
	}
	for _, m := range []Mark{markIdle, markOrder} {
		if f.Marks[m] == 0 {
			t.Errorf("no run reached this: %v", m)
		}
	}
}

// TestQuietWorldsAreJudged runs the first world without faults of each kind whose electorate
// changes, and demands that *order* had something to judge, and *idle* too, save in the dynamic
// world, which isn't calm for long enough.
func TestQuietWorldsAreJudged(t *testing.T) {
	sampled.Computes(t)
	for name, draw := range map[string]func(seed uint64) Options{
		"dynamic": DrawDynamic, "from fixed": DrawFromFixed, "by count": DrawByCount, "register": DrawWithRegister,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(1)
			for o := draw(seed); !o.isQuiet(); o = draw(seed) {
				if seed++; seed > 1000 {
					t.Fatal("none of 1,000 worlds is without faults")
				}
			}
			w := New(draw(seed))
			w.Run(30 * time.Second)
			if err := w.Settle(); err != nil {
				t.Fatal(err)
			}
			f := w.Figures()
			if f.Marks[markOrder] == 0 || f.Marks[markIdle] == 0 && name != "dynamic" {
				t.Errorf("seed %d: *idle* judged %d times, *order* %d times", seed, f.Marks[markIdle], f.Marks[markOrder])
			}
		})
	}
}

func traced(seed uint64, length time.Duration) (string, uint64) {
	var b bytes.Buffer
	o := Draw(seed)
	o.Trace = &b
	w := New(o)
	w.Run(length)
	_ = w.Settle()
	return b.String(), w.Hash()
}

func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	eachSeed(t, 3, func(t *testing.T, seed uint64) {
		a, x := traced(seed, 10*time.Second)
		b, y := traced(seed, 10*time.Second)
		if a != b || x != y {
			t.Fatalf("two runs of one seed differ: %d and %d bytes, digests %x and %x", len(a), len(b), x, y)
		}
		if c, z := traced(seed+1, 10*time.Second); a == c || x == z {
			t.Fatal("two seeds give one trace")
		}
		if len(a) < 10000 {
			t.Fatalf("the trace has only %d bytes", len(a))
		}
	})
}
