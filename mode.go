package lockmesh

import "github.com/lockmesh/lockmesh/internal/vote"

// Mode says how a lease shares its key.
type Mode uint8

const (
	// Exclusive : with nobody. [Mesh.Lock].
	Exclusive = Mode(vote.Exclusive)
	// Shared : with other readers. [Mesh.RLock].
	Shared = Mode(vote.Shared)
	// Permit : with as many others as there are permits. [Mesh.Semaphore].
	Permit = Mode(vote.Permit)
)

func (m Mode) String() string { return vote.Mode(m).String() }
