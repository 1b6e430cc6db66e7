package vote

import "time"

// RegisterRecord is the content of a register: which mesh may act, of all that processes with one
// configuration have founded. Each change makes a record that differs from every earlier one.
type RegisterRecord struct {
	Mesh    string // the mesh's name
	Lineage uint64 // of the founders; zero in the zero record, which means that there is none
	// Term is how long a voter of the mesh may act on one store of its own, and how long the record
	// must stand unchanged before another mesh may be founded. It stays the same while the mesh
	// lives.
	Term    time.Duration
	MaxTTL  time.Duration // of the mesh: its last leases end so long after its last term
	Renewal uint64        // rises by one with each change
	Writer  Elector
}

// IsZero reports whether there is no record.
func (r *RegisterRecord) IsZero() bool { return r.Lineage == 0 }

// IsOf reports whether the mesh of the given name may use the register: there is no record, or the
// record is of a mesh of that name.
func (r *RegisterRecord) IsOf(mesh string) bool { return r.IsZero() || r.Mesh == mesh }

// RegisterCall is a call of the register that a process is to make. There is one at a time.
type RegisterCall struct {
	// Store: the record Old is to be replaced by New; otherwise the record is to be loaded.
	Store    bool
	Old, New RegisterRecord
	// Term is that of the present mesh, or of the next: a call that takes a good part of it has
	// failed.
	Term time.Duration
}

// RegisterResult is the result of a register call.
type RegisterResult struct {
	Record RegisterRecord // what a load found
	// Changed: the record wasn't Old any more, so the store did nothing.
	Changed bool
	Failed  string // why the call failed, perhaps after the register had stored; empty if it didn't
}
