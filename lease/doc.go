// Package lease is an implementation package of lockmesh, without a compatibility promise:
// applications use the root package.
//
// The package is the voter's side of the protocol: a voter promises keys to requests, in order of
// their stamps, for as long as the requests' sessions last, from memory alone.
//
// A Voter is a deterministic state machine. A Voter starts no goroutine, reads no clock and does no
// I/O: the caller passes in the time, and each call appends the messages to send. The owner
// (package internal/node) makes one call at a time.
package lease
