// Package discovery finds the nodes to which a node wants links, and dials them. It is part of
// lockmesh's implementation, without a compatibility promise.
//
// Gossip and probes of the configured addresses say where nodes are; both are hints, collected in
// the address book, and the handshake of a dialed link decides. A dialer for each wanted node keeps
// a link to the node. The peer prober looks for wanted nodes unknown to gossip, the excluded prober
// keeps a voter informed of nodes kept apart by gossip.
package discovery
