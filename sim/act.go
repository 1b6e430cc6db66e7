package sim

import "time"

// Act is one fault, with all that is drawn for it. What a field means, if anything, depends on the kind: see [World.Do]. An act that names a
// host that isn't there, or finds nothing to do harm to, does nothing.
type Act struct {
	At     time.Duration // when, in the world's time
	Fault  Fault
	Hosts  []string      // whom it hits; the one part of a partition; the one that has dialed a connection
	Far    []string      // the other part; the voter that was dialed
	OneWay bool          // a partition holds up only what Hosts send to Far
	Back   bool          // a stall holds up what the voter says, and not what it is told
	For    time.Duration // how long it lasts; how long a process is down
	By     time.Duration // how far a wall clock steps; how much slower a way gets; the time between two restarts
	PPM    int64         // the new error of a clock's rate
	Luck   uint64        // decides what else is left to chance, such as how much of what was under way arrives
}

// Acts returns the faults of a run up to now, as they were drawn or given, whether they did any harm or not. The last may lie ahead still. Given
// as Options.Acts, together with the run's other options, they make the same run again, event by event.
func (w *World) Acts() []Act { return append([]Act{}, w.acts...) }
