// Package memnet is a network in memory, with the processes on the network, for whole meshes in one
// test. Processes crash and are paused, paths between them are cut, and each process has an
// adjustable clock. All time is the time of package time, so in a bubble of testing/synctest time
// is simulated: every wait here blocks durably, and each goroutine belongs to the bubble of its
// creation.
//
// Messages pass through the codec of package transport, and the network behaves as TCP does:
// messages on a connection arrive whole and in order; while a path is cut, messages and dials wait.
package memnet
