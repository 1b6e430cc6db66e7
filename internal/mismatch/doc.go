// Package mismatch decides whether a voter may count while nodes of its mesh run with another
// configuration: another list of voters, another MaxTTL, or another kind of membership. Under two
// configurations at once one key could have two holders.
//
// A [Machine] is deterministic: its inputs are the time, the nodes met, and the state of the node's
// own voters, and its output is a [Phase]. A Machine does no I/O; the shell meets the nodes.
// docs/adr/0012-voter-lists.md has the rules and the reason for each.
package mismatch
