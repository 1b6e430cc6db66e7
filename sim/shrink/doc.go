// Package shrink is an implementation package of lockmesh, without a compatibility promise. It
// takes a failing run of the simulator and leaves out everything that the failure doesn't need.
package shrink
