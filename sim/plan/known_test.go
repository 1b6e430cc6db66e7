package plan

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
)

// delay is the one-way delay of all messages in the worlds below, with figures computed by hand.
const delay = 5 * time.Millisecond

// late is the largest delay of a timer in package sim.
const late = time.Millisecond

// exact is a mesh with exact clocks and equal links; the voters take no locks unless a test says
// so.
const exact = `{"voters": 3, "others": 2, "lock_on": "others", "max_ttl": "2s", "link": {"median": "5ms", "p99": "5ms"},
	"clocks": {"ppm": 0, "wall": "0s"}, "simulate": {"for": "4m", "worlds": 2}}`

func measured(t *testing.T, text string, overrides ...string) (*Scenario, *Report) {
	t.Helper()
	s := mustRead(t, text, overrides...)
	r := Run(s, nil)
	if r.Violation != nil {
		t.Fatalf("%q: %s", overrides, *r.Violation)
	}
	return s, r
}

func (t Times) is(d time.Duration) bool {
	return t.Count > 0 && *t.Median == Seconds(d) && *t.P99 == Seconds(d) && *t.Most == Seconds(d)
}

func TestAFreeLockTakesOneRoundTrip(t *testing.T) {
	sampled.Computes(t)
	for _, voters := range []int{1, 2, 3, 5, 7} {
		_, r := measured(t, exact, fmt.Sprintf("voters=%d", voters))
		if !r.Free.is(2*delay) || *r.Availability != 1 || *r.FreeLocks.OneRoundShare != 1 {
			t.Errorf("with %d voters:\n%v", voters, r)
		}
	}
	// A single voter asks no other node. A voter among several has its own vote at once, and still
	// needs another vote.
	if _, r := measured(t, exact, "voters=1", "lock_on=voters"); !r.Free.is(0) {
		t.Errorf("a voter alone:\n%v", r)
	}
	if _, r := measured(t, exact, "lock_on=voters"); !r.Free.is(2 * delay) {
		t.Errorf("three voters:\n%v", r)
	}
}

func TestAHandOverTakesThereAndBack(t *testing.T) {
	// The release goes to the voters, and their votes go to the next requester.
	if _, r := measured(t, exact, "posts.hold=2s"); !r.HandOver.is(2*delay) || r.TakeOver.Count != 0 {
		t.Errorf("between nodes that only lock:\n%v", r)
	}
	// Among three voters a majority is the waiting voter and any other voter: the waiting node's
	// own voter receives the release after one delay, and the vote of the releasing node arrives at
	// the same time.
	if _, r := measured(t, exact, "posts.hold=2s", "lock_on=voters"); !r.HandOver.is(delay) {
		t.Errorf("between voters:\n%v", r)
	}
}

// TestATakeOverWaitsForTheRestOfTheTTL has holders crash at random times. The rest of their
// sessions is then between the TTL less a refresh interval and the TTL; in addition, a refresh and
// the votes take a delay each, and timers are late.
func TestATakeOverWaitsForTheRestOfTheTTL(t *testing.T) {
	sampled.Computes(t)
	for _, ttl := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		_, r := measured(t, exact, "others=3", "crashes.every=1m", "crashes.return=1s", "posts.hold=5s",
			"load.clients=0", "probe.every=10s", "probe.within=1s", "simulate.for=10m", "ttl="+ttl.String())
		if r.TakeOver.Count < 20 {
			t.Fatalf("only %d holders died", r.TakeOver.Count)
		}
		interval := ttl / vote.RefreshesPerTTL
		// A restarted voter is quiet for the maximum TTL, so a majority may be missing for this
		// long.
		least, most := ttl-interval-2*late, ttl+2*delay+2*late
		if m := time.Duration(*r.TakeOver.Median); m < least || m > most {
			t.Errorf("TTL %v: the median is %v, want %v to %v", ttl, m, least, most)
		}
	}
}

func TestTakeOversWhenOnlyHoldersDie(t *testing.T) {
	sampled.Computes(t)
	const ttl = 2 * time.Second
	s := mustRead(t, exact, "others=3", "crashes.every=1m", "crashes.return=1s", "posts.hold=5s", "load.clients=0", "simulate.for=10m")
	x := newWorld(s, 1, nil)
	for _, n := range x.nodes[:s.Voters] {
		n.safe = true
	}
	x.w.Run(10 * time.Minute)
	if err := x.w.Err(); err != nil {
		t.Fatal(err)
	}
	r := times(x.takeOver)
	if r.Count < 20 {
		t.Fatalf("only %d holders died", r.Count)
	}
	// If votes split, an inquiry, a yield and another vote are added.
	least, most, split := ttl-ttl/vote.RefreshesPerTTL-2*late, ttl+2*delay+2*late, 3*delay
	if x.takeOver[0] < least || time.Duration(*r.Median) > most || time.Duration(*r.Most) > most+split {
		t.Errorf("they took %v, %v in the median, and %v at most; want %v to %v, and %v more where votes split", x.takeOver[0],
			time.Duration(*r.Median), time.Duration(*r.Most), least, most, split)
	}
}

// TestMessagesPerLock compares with a count by hand: for a lock that is released at once, the
// requester asks a bare majority. Each voter of the majority receives a request, the report of the
// win and a release, and sends a promise and the confirmation of the release. A node sends no
// message to its own voter.
func TestMessagesPerLock(t *testing.T) {
	sampled.Computes(t)
	const words = 5
	for _, voters := range []int{1, 2, 3, 4, 7} {
		for on, others := range map[string]int{"others": voters/2 + 1, "voters": voters / 2} {
			s, r := measured(t, exact, fmt.Sprintf("voters=%d", voters), "lock_on="+on, "load.clients=0", "posts.count=0", "simulate.for=1m")
			want := float64(words * others)
			// At the end of each world a lock of each node may be under way: its messages count,
			// but the lock doesn't.
			most := want * (1 + float64(s.Simulate.Worlds*len(r.ByNode))/float64(r.FreeLocks.Locks))
			if got := *r.FreeLocks.Messages; got < want || got > 1.001*most || most > 1.05*want {
				t.Errorf("%s of %d voters: %v messages for a free lock, want %v to %v", on, voters, got, want, most)
			}
			if r.LoadLocks.Messages != nil || r.SplitPerMille != nil || r.HandOver.Count != 0 {
				t.Errorf("there is a figure without a sample:\n%v", r)
			}
		}
	}
	// A lock that is held for long is sent to all voters. While another node waits, each voter
	// reports this to the holder once; and if a voter without knowledge of the holder has voted for
	// the waiting request, this vote must be moved.
	for think, row := range map[string]struct{ least, most float64 }{
		"500ms": {words - 0.2, words + 0.5}, // some locks are waited for
		"1ms":   {words + 0.8, words + 1.2}, // and here nearly all
	} {
		_, r := measured(t, exact, "load.keys=1", "load.clients=1", "load.think="+think, "load.hold=100ms")
		if got := *r.LoadLocks.Messages; got < row.least*3-0.05 || got > row.most*3+0.05 {
			t.Errorf("under load, with %s between locks:\n%v", think, r)
		}
	}
}

// TestUpkeep counts refreshes and their answers: five for each TTL, from each node to each other
// voter.
func TestUpkeep(t *testing.T) {
	for _, row := range []struct{ voters, others int }{{1, 2}, {3, 2}, {5, 1}} {
		// Without callers, since waiting callers have voters asked for acknowledgements.
		_, r := measured(t, exact, fmt.Sprintf("voters=%d", row.voters), fmt.Sprintf("others=%d", row.others), "posts.count=0", "load.clients=0")
		n, m := float64(row.voters), float64(row.others)
		want := vote.RefreshesPerTTL / 2.0 * 2 * (n*(n-1) + m*n) / (n + m)
		if got := *r.Upkeep; got > want || got < 0.99*want { // timers are late by up to 1 ms
			t.Errorf("%+v: %v messages a second for each node, want %v", row, got, want)
		}
	}
}

// TestAvailabilityOfASingleVoter expects e^(-quiet/mean uptime): the uptime after the quiet time,
// as a share of all uptime.
func TestAvailabilityOfASingleVoter(t *testing.T) {
	sampled.Computes(t)
	_, r := measured(t, `{"voters": 1, "max_ttl": "10s", "link": {"median": "1ms"}, "crashes": {"every": "100s", "return": "20s"},
		"load": {"clients": 0}, "posts": {"count": 0}, "probe": {"every": "5s", "within": "10ms"}, "simulate": {"for": "40h"}}`)
	want := math.Exp(-0.1)
	if got := *r.Availability; math.Abs(got-want) > 0.02 {
		t.Errorf("it is available for %.4f of its life, want %.4f", got, want)
	}
	want *= 100.0 / 120
	if got := *r.Majority; math.Abs(got-want) > 0.02 {
		t.Errorf("it is a majority for %.4f of the time, want %.4f", got, want)
	}
	// A lost and replaced machine is away as long as a process that returns after the same time.
	_, away := measured(t, `{"voters": 1, "max_ttl": "10s", "link": {"median": "1ms"}, "crashes": {"every": "100s", "return": "0s", "stays_down": 1,
		"replaced": "20s"}, "load": {"clients": 0}, "posts": {"count": 0}, "probe": {"every": "5s"}, "simulate": {"for": "40h"}}`)
	if got := *away.Majority; math.Abs(got-want) > 0.02 {
		t.Errorf("it is a majority for %.4f of the time, want %.4f, when machines are replaced", got, want)
	}
	if lives := float64(r.Simulated) / 1e9 / 120; math.Abs(float64(r.Happened.Crashes)/lives-1) > 0.1 {
		t.Errorf("%d crashes, want about %.0f", r.Happened.Crashes, lives)
	}
}

// TestAvailabilityInAPartition shows that the larger of two groups keeps its locks.
func TestAvailabilityInAPartition(t *testing.T) {
	sampled.Computes(t)
	_, r := measured(t, `{"groups": [{"name": "l", "voters": 2}, {"name": "r", "voters": 1}], "max_ttl": "2s", "link": {"median": "1ms", "p99": "1ms"},
		"clocks": {"ppm": 0, "wall": "0s"}, "partitions": {"every": "3m", "last": "20s", "shape": "group"}, "probe": {"every": "2s", "within": "100ms"},
		"load": {"clients": 0}, "posts": {"count": 1, "hold": "24h"}, "simulate": {"for": "2h"}}`)
	if *r.Majority != 1 {
		t.Errorf("a majority is there for %v of the time, want all of it", *r.Majority)
	}
	for _, a := range r.ByNode {
		// Partitions come 20 times an hour and may overlap: r-1 is cut off for 1 - e^(-20/180) of
		// the time, and for some hundred milliseconds until the nodes are connected again.
		want := 1.0
		if a.Node == "r-1" {
			want = math.Exp(-20.0 / 180)
		}
		if math.Abs(*a.Share-want) > 0.05 {
			t.Errorf("%s: %.4f, want about %.4f", a.Node, *a.Share, want)
		}
	}
}

// TestLeasesThatAreLost has processes stop for far longer than the TTL: a holder of a post loses
// its lease.
func TestLeasesThatAreLost(t *testing.T) {
	_, r := measured(t, exact, "voters=1", "others=1", "load.clients=0", "posts.hold=24h", "pauses.every=1m", "pauses.last=30s", "simulate.for=1h")
	// Only a pause of more than a TTL counts, of the holder or of the voter: both end the lease.
	if r.Lost < 20 || r.Lost > r.Happened.Pauses {
		t.Errorf("%d leases were lost in %d pauses", r.Lost, r.Happened.Pauses)
	}
	if want := float64(r.Lost) / r.DaysHeld; *r.LostPerDay != want {
		t.Errorf("%v a day, want %v", *r.LostPerDay, want)
	}
}

func TestTheSameSeedGivesTheSameFigures(t *testing.T) {
	s := mustRead(t, exact, "load.clients=3", "load.keys=2", "crashes.every=1m", "partitions.every=30s", "pauses.every=20s",
		"link.outage.every=20s", "link.p99=20ms", "link.loss=0.05", "clocks.ppm=500", "simulate.worlds=5")
	one := run(s, nil, 1, nil).String()
	for _, workers := range []int{2, 5} {
		if many := run(s, nil, workers, nil).String(); many != one {
			t.Errorf("%d workers say\n%s\none says\n%s", workers, many, one)
		}
	}
	s.Simulate.Seed = 2
	if other := run(s, nil, 2, nil).String(); strings.Replace(other, "seed 2", "seed 1", 1) == one {
		t.Error("another seed says the same")
	}
	if !strings.Contains(one, "no violation") {
		t.Error(one)
	}
}

func TestAViolationIsTold(t *testing.T) {
	s := mustRead(t, exact, "crashes.every=10s", "max_ttl=5s")
	early := func(o *sim.Options) {
		o.Build = func(_ *sim.World, cfg node.Config, now vote.Now) (sim.Machine, error) {
			now.Slow = now.Slow.Add(-cfg.MaxTTL)
			return node.New(cfg, now)
		}
	}
	r := run(s, nil, 2, early)
	if r.Violation == nil || r.ViolatedIn != 1 || !strings.Contains(r.String(), "VIOLATION in world 1 of 2, seed 1: quiet violated") {
		t.Errorf("voters that aren't quiet:\n%v", r)
	}
}

func TestDelaysAreAsTheScenarioSays(t *testing.T) {
	l := mustRead(t, least, "link.median=10ms", "link.p99=70ms", "link.least=4ms").Link
	d := newDelays(&l)
	var all []time.Duration
	x := uint64(1)
	for range 200_000 {
		x = mix(x)
		all = append(all, d.of(x))
	}
	got := times(all)
	near := func(what string, has Seconds, want time.Duration) {
		if math.Abs(float64(has)/float64(want)-1) > 0.03 {
			t.Errorf("the %s is %v, want %v", what, time.Duration(has), want)
		}
	}
	near("median", *got.Median, 10*time.Millisecond)
	near("99th percentile", *got.P99, 70*time.Millisecond)
	near("least", Seconds(all[0]), 4*time.Millisecond)
	near("largest", *got.Most, d.most())
	// The normal distribution's quantile at 0.84134 is one standard deviation.
	near("84th percentile", Seconds(rank(all, 0.84134)), time.Duration(10e6*math.Pow(7, 1/2.3263)))

	l.Loss = 0.1
	lossy, once, twice := newDelays(&l), 0, 0
	for range 200_000 {
		x = mix(x)
		switch extra := lossy.of(x) - d.of(x); extra {
		case 0:
		case againLeast:
			once++
		default:
			once++
			twice++
			if extra < 3*againLeast {
				t.Fatalf("a message that got lost twice is late by %v", extra)
			}
		}
	}
	if s := float64(once) / 200_000; math.Abs(s-0.1) > 0.003 {
		t.Errorf("%v of the messages were lost, want 0.1", s)
	}
	if s := float64(twice) / 200_000; math.Abs(s-0.01) > 0.001 {
		t.Errorf("%v of the messages were lost twice, want 0.01", s)
	}
}
