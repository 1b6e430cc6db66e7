// Package elect takes one change of an electorate that follows the living through everything that can happen within small limits: every order of
// messages and saves, crashes with what their disks had by then, failing disks, attempts that meet and that are given up.
//
// It drives [electorate.Machine], the very code of production, and nothing else: who holds which lock is package span's business, and the other
// explorer's. It goes breadth first, so a violation that it finds is among the shortest.
//
// As in package explore, what a machine in a state does on an occasion is worked out once, by a deep copy, and looked up from then on. rules.go says
// what never matters to a machine, and is left out when states are told apart.
package elect
