// Package member is an implementation package of lockmesh, without a compatibility promise:
// applications use the root package.
//
// The package reports the members of the mesh, with their incarnations and addresses.
//
// Membership is only a hint. Membership may suggest nodes to dial, but no lock, vote or deadline
// depends on membership: gossip is late, and in a partition each side believes the other side dead.
package member
