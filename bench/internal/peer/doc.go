// Package peer provides a common interface to the compared lock services: a node is a client of a
// service, in its own process.
package peer
