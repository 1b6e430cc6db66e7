package sim

import "github.com/lockmesh/lockmesh/sim/fault"

// Act is a fault of a run.
type Act = fault.Act

// Faults says which faults are drawn at random, and how often.
type Faults = fault.Mix

// Acts returns the faults of a run up to now, as drawn or given, including faults without effect.
// The last act may lie in the future. Passed as Options.Acts, together with the run's other
// options, the acts replay the same run event by event.
func (w *World) Acts() []Act { return append([]Act{}, w.faults.acts...) }
