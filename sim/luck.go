package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// chance returns a source of chance for one concern of one thing: each way between two hosts, each client of each life, each fault has
// its own. So what one of them draws, or whether it is there at all, changes nothing of what another draws.
func (w *World) chance(concern string, about ...any) *rand.PCG {
	return chance(w.opt.Seed, concern, about...)
}

func chance(seed uint64, concern string, about ...any) *rand.PCG {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %v", concern, about) // it can't fail
	return rand.NewPCG(seed, h.Sum64())
}

// within draws a duration below d.
func within(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}
