package vote

// Ledger is a digest of what a voter keeps for a session: how many requests, and a hash of them and of the votes they have.
//
// The hash is a sum of one mixed number for each request and each vote, so that both sides keep it in constant time and
// the order in which things came and went doesn't matter. It finds faults, not malice.
type Ledger struct {
	Count uint64
	Hash  uint64
}

// Plus returns the sum of two ledgers, or of a ledger and a change to it.
func (l Ledger) Plus(m Ledger) Ledger { return Ledger{l.Count + m.Count, l.Hash + m.Hash} }

// Minus returns l without m.
func (l Ledger) Minus(m Ledger) Ledger { return Ledger{l.Count - m.Count, l.Hash - m.Hash} }

// OfRequest is what one request adds to a ledger.
func OfRequest(n Number) Ledger { return Ledger{1, mix(uint64(n)<<1 | 1)} }

// OfVote is what one vote adds to a ledger.
func OfVote(s Serial) Ledger { return Ledger{0, mix(uint64(s) << 1)} }

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Scatter is a number that is the same everywhere for one request, and looks random from one request to the next.
func Scatter(s SessionID, n Number) uint64 { return mix(uint64(s.Life) ^ mix(uint64(n))) }
