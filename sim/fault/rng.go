package fault

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Chance returns a random source for a single concern: each way between two hosts, each client of
// each incarnation, and each fault has a source of its own. So the draws of one source, or its
// absence, don't change the draws of another.
func Chance(seed uint64, concern string, about ...any) *rand.PCG {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %v", concern, about) // writing to a hash never fails
	return rand.NewPCG(seed, h.Sum64())
}

// Within draws a duration below d.
func Within(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}
