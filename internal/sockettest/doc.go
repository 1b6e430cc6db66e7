// Package sockettest tests whole meshes over loopback, with real sockets, gossip and time, by the
// exported API. It has tests only.
//
// The tests are a package, and so a process, of their own: leases here stay held only if the
// process runs often enough, and tests that compute would keep the process's goroutines waiting. A
// process that sleeps most of the time gets a processor at once, however busy the machine is.
package sockettest
