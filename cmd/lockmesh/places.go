package main

import (
	"math"

	"github.com/lockmesh/lockmesh/contrib/resp"
)

// reservedFiles is how many of the files that the agent may have open are kept from its clients: up
// to 832 for strangers and handshakes at the node's port, 64 for each listener's clients that are
// being refused, and the rest for the node's links, its directory and its log. With a limit of less
// than two times as many, half is kept.
const reservedFiles = 1024

// placesPerDoor returns how many connections the agent keeps open at each of its listeners. A
// connection takes a file descriptor. A node whose descriptors are all taken by clients can neither
// accept nor open links to other nodes, and the listener of a crowd mustn't take the places of the
// other listeners.
func placesPerDoor(doors int) int {
	limit, known := openFilesLimit()
	if !known || limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	n := int(limit)
	return min(max((n-min(reservedFiles, n/2))/doors, 1), resp.DefaultMaxConns)
}
