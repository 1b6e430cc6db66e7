package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestDriftIsFound runs a voter's clock beside this node's clock, with a refresh every 400 ms. A
// round trip takes 40 ms, of which the way to the voter takes 0 to 30 ms.
func TestDriftIsFound(t *testing.T) {
	const step, trip = 400 * time.Millisecond, 40 * time.Millisecond
	for _, row := range []struct {
		name   string
		ppm    int64                     // how much faster the voter's clock runs
		jump   func(i int) time.Duration // an additional gain of the voter's clock at step i
		within int                       // the drift must be found by this step; 0: never
	}{
		{"equal", 0, nil, 0},
		{"at the very bound", 10_050, nil, 0},
		{"slower by a fifth", -200_000, nil, 0},
		{"faster by a fifth", 200_000, nil, 4},
		{"faster by 2 %", 20_000, nil, 30},
		{"faster by 1.1 %", 11_000, nil, 250},
		{"this machine stands still for 200 ms", 0, func(i int) time.Duration { return at(i == 50, 200*time.Millisecond) }, 52},
		{"the voter's machine is suspended for a minute", 0, func(i int) time.Duration { return at(i == 50, -time.Minute) }, 0},
		{"it is suspended, and then runs too fast", 0, func(i int) time.Duration {
			return at(i == 50, -time.Minute) + at(i > 50, step/5)
		}, 54},
	} {
		t.Run(row.name, func(t *testing.T) {
			var d drift
			own, voter := vote.Instant(12345), vote.Instant(1<<60)
			found := 0
			for i := 1; i <= 1000 && found == 0; i++ {
				gain := time.Duration(0)
				if row.jump != nil {
					gain = row.jump(i)
				}
				own = own.Add(step)
				voter = voter.Add(step + time.Duration(int64(step)*row.ppm/1_000_000) + gain)
				there := trip * time.Duration(i%4) / 4
				if d.add(1, voter.Add(there), own, own.Add(trip), 5*step) {
					found = i
				}
			}
			if row.within == 0 && found != 0 || row.within != 0 && (found == 0 || found > row.within) {
				t.Errorf("found at step %d (%s), want within %d", found, d.text, row.within)
			}
			if found == 0 {
				return
			}
			jump := func(after, gain time.Duration) bool {
				own, voter = own.Add(after), voter.Add(after+gain)
				return d.add(1, voter, own, own, 5*step)
			}
			if jump(step, time.Second) {
				t.Error("it is told again at once")
			}
			if jump(driftForget+step, 0) || d.text != "" {
				t.Errorf("it isn't forgotten: %s", d.text)
			}
			if jump(step, time.Second) == false {
				t.Error("what is forgotten isn't told again")
			}
			if d.add(2, voter.Add(2*time.Hour), own, own, 5*step) {
				t.Error("a new life begins with the old one's reading")
			}
		})
	}
}

// TestCoarseClocksAreNoDrift has both clocks tick as rarely as on Windows, and out of step.
func TestCoarseClocksAreNoDrift(t *testing.T) {
	const tick, trip = time.Second / 64, 200 * time.Microsecond
	coarse := func(at, phase time.Duration) vote.Instant { return vote.Instant((at + phase).Truncate(tick)) }
	for _, ttl := range []time.Duration{vote.MinTTL, 2 * time.Second, 10 * time.Second} {
		for phase := time.Duration(0); phase < tick; phase += tick / 17 {
			var d drift
			at := time.Duration(0)
			for i := range 1000 {
				at += ttl/vote.RefreshesPerTTL + tick/time.Duration(2+i%5)
				if d.add(1, coarse(at+trip/2, phase), coarse(at, 0), coarse(at+trip, 0), ttl) {
					t.Fatalf("TTL %v, %v out of step: %s", ttl, phase, d.text)
				}
			}
		}
	}
}

func at(now bool, d time.Duration) time.Duration {
	if now {
		return d
	}
	return 0
}

// A voter's acknowledgements show that the voter's clock runs too fast.
func TestAVotersAcknowledgementsShowItsDrift(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	clock := b.now.Fast
	for range 5 {
		b.pass(ttl / vote.RefreshesPerTTL)
		clock = clock.Add(ttl / vote.RefreshesPerTTL * 6 / 5)
		b.ack("v0", func(m *vote.Message) { m.Clock = clock })
		b.ack("v1", func(m *vote.Message) { m.Clock = b.now.Fast })
	}
	if e := b.last(EventDrift); e == nil || !strings.Contains(e.Text, "the clocks of v0 and of this node differ") {
		t.Errorf("%+v", e)
	}
}
