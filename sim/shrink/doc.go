// Package shrink takes a failing run of the simulator and leaves out everything that the failure
// doesn't need. shrink is an implementation package of lockmesh, without a compatibility promise.
package shrink
