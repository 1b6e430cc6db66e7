package vote

import "time"

// RhoPerMille bounds the error of a clock's rate, in parts of a thousand.
//
// Two clocks then differ by at most 1 %, as in Redlock (Sanfilippo, "Distributed locks with Redis",
// 2014); NTP slews by at most 0.05 %, so there is room for bad crystals and virtual machines.
const RhoPerMille = 5

// Skew is S of the protocol: how far a stamp may be from the median of the voters' clocks, how far
// ahead of a voter's clock a token hint may be, and how long an unused key is remembered
// individually. A second is far above the differences between synchronised clocks, and short enough
// to bound how often a node with a slow clock overtakes other nodes.
const Skew = time.Second

// TokenQueryTimeout is how long a restarted voter asks the other voters for the highest token
// before the voter trusts its own clock.
const TokenQueryTimeout = time.Second

// MinTTL is the smallest TTL. MinTTL is above a round trip (TTL/5 between refreshes), the drift
// allowance (1 %) and the scheduling delays of a busy machine, so that a lease of this length can
// be kept alive.
const MinTTL = 200 * time.Millisecond

// LongestTTL is the largest maximum TTL. After a crash, a lease blocks its key for a TTL; an
// application that needs a day needs something other than a lease. The limit also keeps all
// arithmetic far from overflow.
const LongestTTL = 24 * time.Hour

// RefreshesPerTTL is how often a node refreshes its sessions within a TTL: two refreshes in a row
// may fail, and a third still arrives in time.
const RefreshesPerTTL = 5

// Validity returns the validity of a refresh for a session of the given TTL, counted on the
// requester's clock from the moment of sending: TTL*(1-rho)/(1+rho), rounded down. Whatever the
// errors of the two clocks within rho, the voter's deadline is later.
func Validity(ttl time.Duration) time.Duration {
	return mulDiv(ttl, 1000-RhoPerMille, 1000+RhoPerMille)
}

// Drift returns how much further another clock may run while this clock runs for d, if both are
// within rho: d*2*rho/(1-rho), rounded up.
func Drift(d time.Duration) time.Duration {
	return mulDiv(d, 2*RhoPerMille, 1000-RhoPerMille) + 1
}

// mulDiv returns d*num/den rounded down, without overflow for any non-negative d.
func mulDiv(d time.Duration, num, den int64) time.Duration {
	whole, rest := int64(d)/den, int64(d)%den
	return time.Duration(whole*num + rest*num/den)
}

// marginShare is the part of a TTL that is margin.
const marginShare = 64

// Margin returns the margin by which a holder is told of a loss before its lease ends: a timer
// fires late, and a goroutine is woken later still.
func Margin(ttl time.Duration) time.Duration { return time.Millisecond + ttl/marginShare }

// LengthFor returns the length to ask for, so that a lease may be used for d from its grant on: the
// validity of such a length, less the margin, is d or a few nanoseconds more.
func LengthFor(d time.Duration) time.Duration {
	return mulDiv(d+time.Millisecond, marginShare*(1000+RhoPerMille), marginShare*(1000-RhoPerMille)-(1000+RhoPerMille)) + 3
}

// MaxKept returns the longest minimum hold that voters keep even if they restart: a restarted
// voter keeps a key by being quiet for the maximum TTL, and its last acknowledgement may be a
// quarter of the maximum TTL old when a lease is granted. A quarter is longer than a round trip
// wherever a session can be kept alive.
func MaxKept(maxTTL time.Duration) time.Duration { return Validity(maxTTL) - maxTTL/4 }
