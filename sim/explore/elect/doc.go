// Package elect is an implementation package of lockmesh, without a compatibility promise. It
// drives a change of a dynamic electorate through all possible events within small limits: every
// order of messages and saves, crashes with the disk contents of the time, failing disks, and
// ballots that compete or are given up.
//
// The package drives [electorate.Machine], the very code of production, and nothing else: locks are
// the subject of package span and of package explore. The search goes breadth first, so a violation
// is found by one of the shortest paths.
//
// As in package explore, the outcome of an input for a machine in a given state is computed
// once, by a deep copy, and looked up from then on. rules.go lists the fields that never matter to
// a machine, and are left out when states are compared.
package elect
