package plan

import (
	"math"
	"time"
)

// bins is the number of equally likely parts into which a distribution is cut.
const bins = 1000

// topQuantile ends the last part: one message in 20,000 has the largest delay.
const topQuantile = 0.99995

// TCP sends lost segments again after at least 200 ms or two round trips, and then doubles the
// delay each time.
const (
	againLeast = 200 * time.Millisecond
	againTrips = 4 // in medians of one way
	againMost  = 6 // times; then the message arrives
)

// delays converts random numbers to delays. All its values are whole microseconds, so that the last
// bit of a floating-point library decides nothing.
type delays struct {
	at    [bins + 1]time.Duration // the quantiles
	lost  uint64                  // of 2^24
	again time.Duration
}

func newDelays(l *Link) *delays {
	d := &delays{lost: uint64(l.Loss * (1 << 24)), again: max(againLeast, againTrips*time.Duration(l.Median))}
	median, spread := float64(l.Median), 0.0
	if l.P99 > l.Median {
		spread = math.Log(float64(l.P99)/median) / normal(0.99)
	}
	for i := range d.at {
		q := min(float64(i)/bins, topQuantile)
		if i == 0 {
			d.at[i] = time.Duration(l.Least)
			continue
		}
		x := time.Duration(median * math.Exp(spread*normal(q))).Round(time.Microsecond)
		if i == bins/2 {
			x = time.Duration(l.Median)
		}
		d.at[i] = max(x, time.Duration(l.Least))
	}
	return d
}

// normal returns the q-quantile of the standard normal distribution.
func normal(q float64) float64 { return math.Sqrt2 * math.Erfinv(2*q-1) }

// of converts a random number to a delay.
func (d *delays) of(draw uint64) time.Duration {
	part := draw & (1<<20 - 1) * bins
	i, rest := part>>20, int64(part>>10&1023)
	x := d.at[i] + time.Duration(int64(d.at[i+1]-d.at[i])*rest/1024)
	if d.lost > 0 {
		wait := d.again
		for range againMost {
			if draw>>40 >= d.lost {
				break
			}
			x += wait
			wait *= 2
			draw = mix(draw)
		}
	}
	return x
}

// most returns the longest delay without a loss.
func (d *delays) most() time.Duration { return d.at[bins] }

// mix derives another random number from x: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
