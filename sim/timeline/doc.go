// Package timeline draws a run of the simulator: a lane for each node over the world's time.
// timeline is an implementation package of lockmesh, without a compatibility promise.
package timeline
