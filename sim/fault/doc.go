// Package fault is an implementation package of lockmesh, without a compatibility promise.
//
// It has the faults that a simulated mesh must survive: their kinds, an act as one fault with all
// its random parameters, and the drawing of acts from a seed. Package sim injects them; what they
// do to hosts and connections is in sim/inject.go and in the files of each kind of world.
package fault
