package fault

import "time"

// Act is one fault with all its random parameters. Which fields are used depends on the kind of
// fault: see faults.Do in package sim. An act has no effect when a host is missing or the fault has
// nothing to act on.
type Act struct {
	At    time.Duration // in world time
	Fault Kind
	// Hosts are the affected hosts; one side of a partition; the host that dialed a connection.
	Hosts  []string
	Far    []string // the other side; the voter that was dialed
	OneWay bool     // a partition holds up only messages from Hosts to Far
	// Back makes a stall (or a full queue) hold up messages from the voter, not to the voter.
	Back bool
	For  time.Duration // how long the fault lasts; how long a process is down
	// By is how far a wall clock steps, how much slower a link gets, or the time between two
	// restarts or two flaps.
	By  time.Duration
	PPM int64 // the new error of a clock's rate
	// Seed is for the remaining random choices, such as how much of the data in flight arrives.
	Seed uint64
}

// Mix says which faults are drawn at random, and how often.
type Mix struct {
	// Every is the mean time between two faults; zero means no faults.
	Every time.Duration
	// Weights say how often each fault is drawn, relative to the others; a fault with weight zero
	// never happens.
	Weights [Kinds]int
	// WallSteps is the largest step of a wall clock.
	WallSteps time.Duration
}
