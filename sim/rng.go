package sim

import (
	"math/rand/v2"

	"github.com/lockmesh/lockmesh/sim/fault"
)

// chance returns a random source for a single concern; see [fault.Chance].
func (w *World) chance(concern string, about ...any) *rand.PCG {
	return fault.Chance(w.opt.Seed, concern, about...)
}

func pickInt(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }
