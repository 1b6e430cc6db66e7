// Package electorate decides who votes in a mesh with dynamic membership.
//
// Gossip proposes and the electorate decides. Each version is the value of a Paxos instance among
// the voters of the previous version (Lamport, "The part-time parliament", 1998). A change goes
// through a joint version, in which every decision needs a majority of the old voters and a
// majority of the new voters (Ongaro and Ousterhout, "In search of an understandable consensus
// algorithm", 2014), and becomes final only after a drain of one maximum TTL. Before an answer is
// sent, the state behind the answer is synced to the node's state directory.
//
// A Machine is a deterministic state machine. A Machine starts no goroutine, reads no clock and
// does no I/O: the caller passes in the time, and each call appends messages to send and states to
// store. The owner (package internal/node) makes one call at a time.
package electorate
