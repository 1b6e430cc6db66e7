package electorate

import "github.com/lockmesh/lockmesh/internal/vote"

// A machine is made of layers. Each layer embeds the layer below and knows none of the layers
// above, so what a method can reach is told by its receiver:
//
//	Machine       births, the register, elections: decisions on the next electorate
//	contactLayer  the other nodes, their reports, and whether a majority is in contact
//	stateLayer    this node's state, stored or not; the time; what a call brings about

// stateLayer is the part of a machine that knows this node alone: its state, what of the state is
// stored, the instant of the call under way, and what the call brings about.
type stateLayer struct {
	cfg     Config
	now     vote.Now
	own     OwnVoter
	out     []vote.Outbound
	saves   []vote.DiskState
	alarms  []string
	started vote.Instant

	state      vote.DiskState // the newest state, perhaps not stored yet
	stored     vote.DiskState // the state in the directory
	pending    bool           // state has changes without a save
	saving     vote.DiskState // the state in the save under way
	savingNow  bool
	savingFrom vote.Instant // when the save under way began
	overdue    bool         // an alarm was raised because the save under way takes too long
	everStored bool         // a save of this incarnation has succeeded
	stuck      string       // why nothing can be stored; empty while saves succeed
	retryAt    vote.Instant
	deferred   []deferredAnswer
}

// contactLayer is the part of a machine that knows the other nodes. It starts no ballot, and founds
// nothing.
type contactLayer struct {
	stateLayer
	conns  map[vote.Conn]*connState
	others map[vote.NodeID]*other
	order  []*other // the others by name; see sorted
	ties   map[vote.Elector]*tie
	nonce  uint64
	pollAt vote.Instant

	distrusted string // why this node's directory can't be trusted, or empty
	leaving    bool
	leftAt     vote.Instant // when this node began to leave
	// noMajoritySince is since when too few deciding voters are reachable; zero while enough are.
	noMajoritySince vote.Instant
	drain           drain
	longest         longestTTL
	// adopted is when the newest electorate was learned, or when this incarnation began.
	adopted vote.Instant
	split   bool // an alarm has reported two electorates of the same version
	// silentSince is since when a birth has waited for processes that don't answer; zero if it
	// doesn't.
	silentSince vote.Instant
}
