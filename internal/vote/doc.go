// Package vote has the types of the protocol: its identifiers, clocks, requests and votes, and the
// messages themselves.
//
// Package vote decides nothing. The packages that decide (lease, quorum and internal/node) use
// these types, so that a name cannot be passed as a key, and an instant of one clock cannot be
// mistaken for a duration on the wire.
package vote
