// Package explore is an implementation package of lockmesh, without a compatibility promise. It
// drives lockmesh's nodes, the very code of production, through everything that can happen within
// small limits: every order of messages, breaks of connections, crashes and ticks of the clock, for
// two or three clients and a few voters.
//
// The search goes breadth first and keeps a hash of each state visited, so a violation is found by
// one of the shortest paths. A world's state is composed of states of single nodes, and there are
// far fewer states of nodes: the reaction of a node in a given state to a given input is computed
// once, on a copy of the node, and looked up from then on (local.go). Two nodes are in the same
// state if everything that could ever matter to the nodes is the same; rules.go lists the fields
// that never matter.
package explore
