package vote

import "time"

// RhoPerMille bounds by how much one clock's rate may err, in parts of a thousand.
//
// Two clocks then differ by at most 1 %, which is what Redlock allows (Sanfilippo, "Distributed locks with Redis", 2014);
// NTP slews by at most 0.05 %, so this leaves room for bad crystals and virtual machines.
const RhoPerMille = 5

// Skew is S of the protocol: how far a stamp may stand from the median of the voters' clocks, how far ahead of a voter's clock a
// bid may be, and how long a key that nobody wants is remembered by itself. One second is far above what synchronised clocks differ
// by, and short enough to bound how often a node with a slow clock overtakes.
const Skew = time.Second

// AskFor is how long a restarted voter asks the others for the highest token before it trusts its own clock.
const AskFor = time.Second

// MinTTL is the least TTL. It stands above a round trip (TTL/5 between refreshes), the drift allowance (1 %) and the
// scheduling delays of a busy machine, so that a lease of this length can be kept up.
const MinTTL = 200 * time.Millisecond

// RefreshesPerTTL is how often a node refreshes its sessions within one TTL: two refreshes in a row may fail and a third still
// arrives in time.
const RefreshesPerTTL = 5

// Cover returns for how long a session of the given TTL is covered, counted on the requester's clock from the moment at which
// the refresh was sent: TTL*(1-rho)/(1+rho), rounded down. However the two clocks err within rho, the voter's deadline is later.
func Cover(ttl time.Duration) time.Duration {
	return mulDiv(ttl, 1000-RhoPerMille, 1000+RhoPerMille)
}

// Drift returns by how much more another clock may run while this one runs for d, when both keep to rho: d*2*rho/(1-rho), rounded up.
func Drift(d time.Duration) time.Duration {
	return mulDiv(d, 2*RhoPerMille, 1000-RhoPerMille) + 1
}

// mulDiv returns d*num/den rounded down, without overflow for any non-negative d.
func mulDiv(d time.Duration, num, den int64) time.Duration {
	whole, rest := int64(d)/den, int64(d)%den
	return time.Duration(whole*num + rest*num/den)
}

// Guard is by how much a holder is told of a loss before its lease ends: a timer fires late, and a goroutine is woken later still.
func Guard(ttl time.Duration) time.Duration { return time.Millisecond + ttl/64 }
