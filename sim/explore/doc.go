// Package explore drives lockmesh's nodes, the very code of production, through everything that can happen within small limits:
// every order of messages, breaks of connections, crashes and ticks of the clock, for two clients and a few voters.
//
// It goes breadth first and keeps a hash of each state that it has met, so a violation that it finds is among the shortest. A
// world's state is put together from states of single nodes, of which there are far fewer: what a node in a state does on an
// occasion is worked out once, by a copy of the node, and looked up from then on (locals). Two nodes are in the same state if
// whatever could ever matter to them is the same; rules.go says what never does.
package explore
