// Package plan is an implementation package of lockmesh, without a compatibility promise; users
// plan with sim/cmd/lockmesh-sim.
//
// The package answers an operator's questions about a planned mesh: how often a lock can be had,
// how long a take-over from a dead holder lasts, and the cost in messages. The package runs whole
// nodes, the very code of production, in the worlds of package sim, with the delays and faults
// stated in a scenario file, and measures. See docs/planning.md.
package plan
