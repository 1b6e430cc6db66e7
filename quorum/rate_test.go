package quorum

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// clocks are two clocks that run at different rates, and refreshes that travel between them.
type clocks struct {
	m    rate
	rng  *rand.Rand
	own  vote.Instant
	ppm  int64 // by how much the voter's clock is faster
	gone time.Duration
	base vote.Instant // of the voter's clock
	inc  vote.Incarnation

	least time.Duration // of each way
}

// run has a refresh answered every two seconds. Each way takes up to most longer than least.
func (c *clocks) run(d, most time.Duration) {
	for end := c.own.Add(d); c.own < end; {
		const every = 2 * time.Second
		there, back := c.way(most), c.way(most)
		c.gone += every
		at := c.gone + there
		c.m.add(c.inc, c.base.Add(at+faster(at, c.ppm)), c.own.Add(every), c.own.Add(every+there+back))
		c.own = c.own.Add(every)
	}
}

// way returns how long a message is on its way.
func (c *clocks) way(most time.Duration) time.Duration {
	return c.least + time.Duration(c.rng.Int64N(int64(most)))
}

// faster returns by how much more a clock advances that is faster by some millionths.
func faster(d time.Duration, ppm int64) time.Duration { return d / 1_000_000 * time.Duration(ppm) }

func (c *clocks) shows(t *testing.T, what string, ppm, doubt int64) {
	t.Helper()
	if got := c.m.ppm; got < ppm-doubt || got > ppm+doubt {
		t.Errorf("%s: %d ppm are shown, want %d to within %d", what, got, ppm, doubt)
	}
}

func TestTheRateOfAVotersClock(t *testing.T) {
	for _, ppm := range []int64{-5000, -40, 0, 37, 5000} {
		c := &clocks{rng: rand.New(rand.NewPCG(1, 2)), own: 1000, base: 77_000, ppm: ppm, inc: 1}
		c.run(2*time.Second, time.Second) // a late answer is the first
		c.run(rateBegins-2*time.Second, time.Millisecond)
		c.shows(t, "at the beginning", 0, 0)
		c.run(5*time.Minute, time.Millisecond)
		c.shows(t, "after five minutes", ppm, 7)
		c.run(5*rateWindow, time.Millisecond)
		c.shows(t, "after hours", ppm, 1)
		c.run(10*time.Minute, 100*time.Millisecond) // a busy network
		c.shows(t, "while answers are late", ppm, 1)
		c.ppm, c.base, c.gone = ppm+20, c.base.Add(c.gone+faster(c.gone, ppm)), 0
		c.run(2*rateWindow, time.Millisecond)
		c.shows(t, "after a change", ppm+20, 1)
		c.inc++
		c.run(rateBegins, time.Millisecond)
		c.shows(t, "of a new incarnation", 0, 0)
	}
}

// TestTheRateAfterAChangeOfTheNetwork: where all round trips are longer from some time on, the
// measurement begins anew.
func TestTheRateAfterAChangeOfTheNetwork(t *testing.T) {
	c := &clocks{rng: rand.New(rand.NewPCG(1, 2)), own: 1000, base: 77_000, ppm: 40, inc: 1}
	c.run(rateWindow, time.Millisecond)
	c.shows(t, "before", 40, 1)
	c.ppm, c.base, c.gone, c.least = 90, c.base.Add(c.gone+faster(c.gone, 40)), 0, 10*time.Millisecond
	c.run(4*rateWindow, time.Millisecond)
	c.shows(t, "hours after", 90, rateDoubt)
}

// TestTheRateOverASlowNetwork: is known once enough time has passed, and not before.
func TestTheRateOverASlowNetwork(t *testing.T) {
	c := &clocks{rng: rand.New(rand.NewPCG(1, 2)), own: 1000, base: 77_000, ppm: 300, inc: 1}
	c.run(2*time.Minute, 50*time.Millisecond)
	c.shows(t, "after two minutes", 0, 0)
	c.run(4*rateWindow, 50*time.Millisecond)
	c.shows(t, "after hours", 300, rateDoubt)
}
