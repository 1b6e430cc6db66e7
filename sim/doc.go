// Package sim is an implementation package of lockmesh, without a compatibility promise; users
// simulate plans with sim/cmd/lockmesh-sim.
//
// The package runs whole nodes, the very code of production, in a simulated world: clocks err, the
// network delays, stalls and breaks, machines stop and restart. One seed decides everything, so a
// failure can be reproduced.
//
// After each event the world checks its invariants (see check.go and check_*.go). After the faults
// the world heals, and every request must be served (see [World.Settle]). A world has no goroutine
// and reads no clock; only one goroutine at a time may use a world.
package sim
