// Package statedir keeps a node's [vote.State] in one small file of a directory that the node has for itself.
//
// What the file says was promised. So it is replaced as a whole or not at all, it is on the disk before Save returns, and what can't be
// read back for certain is refused with a text for the operator, never guessed at.
//
// # The directory
//
//	lock       locked for as long as the directory is open; never removed, since two processes could then lock two files of one name
//	state      the state
//	state.tmp  the next state while it is written; one that a crash has left is ignored, and removed by Open
//	peers      where other nodes were, one address a line: a hint, see SavePeers
//	peers.tmp  the next of those; one that a crash has left is ignored, and removed by the next SavePeers
//
// # The file
//
//	lockmesh-state 1
//	{
//	 "mesh": "default",
//	 ...
//	}
//	crc32c 1c291ca3
//
// The first line has the format, the last the CRC-32C (Castagnoli) of all bytes before it. These two lines stay as they are in every later format, so
// that a file of a newer version can be told from a broken one. Between them is the state as JSON, for people to read; what differs by a byte from what
// this version would write for the same state is refused. A new field therefore needs a new format: an older version that
// dropped it would break a promise that it doesn't know of.
package statedir

import "hash/crc32"

const (
	stateFile = "state"
	tempFile  = "state.tmp"
	lockFile  = "lock"

	// dirMode and fileMode keep others out: nobody but the node has any business with what it promised.
	dirMode  = 0o700
	fileMode = 0o600

	magic     = "lockmesh-state "
	format    = 1
	sumPrefix = "crc32c "

	// maxSize is the largest state file in bytes, so that no foreign file fills the memory. Five lists of vote.MaxVoters electors whose names are all
	// control characters, six bytes each in JSON, stay below it.
	maxSize = 512 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
