// Package timeline is an implementation package of lockmesh, without a compatibility promise. It
// draws a run of the simulator: a lane for each node over the world's time.
package timeline
