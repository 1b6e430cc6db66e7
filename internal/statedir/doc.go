// Package statedir keeps a node's [vote.DiskState] in one small file, in a directory used by this
// node alone.
//
// The file contains promises. So the file is replaced as a whole or not at all, and is on disk
// before Save returns. A file that can't be read back for certain is refused with a text for the
// operator, never guessed at.
//
// # The directory
//
//	lock       locked while the directory is open; never removed, since two processes could
//	           then lock two files of one name
//	state      the state
//	state.tmp  the next state while it is written; ignored after a crash, and removed by Open
//	peers      the addresses of other nodes, one a line: a hint, see SavePeers
//	peers.tmp  the next peers; ignored after a crash, and removed by the next SavePeers
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
// The first line has the format, the last the CRC-32C (Castagnoli) of all bytes before. These two
// lines remain the same in every later format, so that a file of a newer version can be told from a
// broken file. Between them is the state as JSON, for people to read. A file is refused if it
// differs in any byte from the output of this version for the same state. So an
// older version refuses a file with a new field, rather than drop the field and break a promise
// without knowing. A file without a newer field is read.
package statedir

import "hash/crc32"

const (
	stateFile = "state"
	tempFile  = "state.tmp"
	lockFile  = "lock"

	// dirMode and fileMode keep other users out: only the node may read or change its promises.
	dirMode  = 0o700
	fileMode = 0o600

	magic     = "lockmesh-state "
	format    = 1
	sumPrefix = "crc32c "

	// maxSize is the largest state file in bytes, so that no foreign file fills the memory. Five
	// lists of vote.MaxVoters electors with names made of control characters only, six bytes each
	// in JSON, stay below maxSize.
	maxSize = 512 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
