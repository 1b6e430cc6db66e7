// Package quorum is an implementation package of lockmesh, without a compatibility promise:
// applications use the root package.
//
// The package is the requester's side of the protocol: a requester sends requests for keys to the
// voters, counts their votes, keeps alive the sessions on which the votes rest, and knows until
// when a majority supports each lease.
//
// A Requester is a deterministic state machine. A Requester starts no goroutine, reads no clock and
// does no I/O: the caller passes in the time, and each call appends messages to send and events for
// the application. The owner (package internal/node) makes one call at a time.
package quorum
