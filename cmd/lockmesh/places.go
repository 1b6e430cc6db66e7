package main

import (
	"math"

	"github.com/lockmesh/lockmesh/contrib/resp"
)

// reservedFiles is the number of file descriptors that the agent's clients can't use: up to 832 for
// strangers and handshakes at the node's port, 64 for each listener's clients that are being
// refused, and the rest for the node's links, its directory and its log. If the limit is below
// 2048, half is reserved.
const reservedFiles = 1024

// placesPerDoor returns how many connections the agent keeps open at each of its listeners. A
// connection takes a file descriptor. If clients took all descriptors of a node, the node could
// neither accept nor open links to other nodes; and a crowded listener must not take the places of
// the other listeners.
func placesPerDoor(doors int) int {
	limit, known := openFilesLimit()
	if !known || limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	n := int(limit)
	return min(max((n-min(reservedFiles, n/2))/doors, 1), resp.DefaultMaxConns)
}
