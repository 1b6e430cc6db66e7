package lockmesh

import "github.com/lockmesh/lockmesh/internal/vote"

// Mode says how a lease shares its key.
type Mode uint8

const (
	// Exclusive is the mode of the key's only lease. [Mesh.Lock].
	Exclusive Mode = 1
	// Shared is the mode of a reader, beside other readers. [Mesh.RLock].
	Shared Mode = 2
	// Permit is the mode of a permit, beside as many others as there are permits. [Mesh.Semaphore].
	Permit Mode = 3
)

func (m Mode) String() string { return vote.Mode(m).String() }
