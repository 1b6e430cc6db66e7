package vote

// Digest is a digest of the state that a voter keeps for a session: the number of requests, and a
// hash of the requests and their votes.
//
// The hash is a sum with a mixed number for each request and each vote, so that both sides update
// the hash in constant time and the order of changes doesn't matter. The hash detects faults, not
// malice.
type Digest struct {
	Count uint64
	Hash  uint64
}

// Plus returns the sum of two digests, or of a digest and a change.
func (d Digest) Plus(m Digest) Digest { return Digest{d.Count + m.Count, d.Hash + m.Hash} }

// Minus returns l without m.
func (d Digest) Minus(m Digest) Digest { return Digest{d.Count - m.Count, d.Hash - m.Hash} }

// DigestOfRequest returns the contribution of a request to a digest.
func DigestOfRequest(n Number) Digest { return Digest{1, mix(uint64(n)<<1 | 1)} }

// DigestOfVote returns the contribution of a vote to a digest.
func DigestOfVote(s Serial) Digest { return Digest{0, mix(uint64(s) << 1)} }

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Scatter returns a number that is the same on all nodes for a request, and looks random from one
// request to the next.
func Scatter(s SessionID, n Number) uint64 { return mix(uint64(s.Incarnation) ^ mix(uint64(n))) }
