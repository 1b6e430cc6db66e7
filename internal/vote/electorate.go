package vote

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Dir identifies a state directory. The identity is drawn at random when the directory is first
// used, so a wiped or replaced directory gets another identity. Zero means no directory.
type Dir uint64

// Elector is a voter under dynamic membership: the name of a node, and the directory with the
// node's promises about electorates. A node that has lost its directory is another elector under
// the same name. The voters of a fixed electorate have no directory.
type Elector struct {
	Name NodeID `json:"name"`
	Dir  Dir    `json:"dir"`
}

// Compare orders electors by name, then by directory.
func (e Elector) Compare(f Elector) int {
	if c := cmp.Compare(e.Name, f.Name); c != 0 {
		return c
	}
	return cmp.Compare(e.Dir, f.Dir)
}

// Electorate is a version of a mesh's electorate, as proposed, decided, stored and sent under
// dynamic membership. The slices of an Electorate must not be changed.
type Electorate struct {
	Version uint64    `json:"version"` // from 1, or see BirthVersion; zero if fixed, or unknown
	Lineage uint64    `json:"lineage"` // the founding from which it stems
	Voters  []Elector `json:"voters"`  // sorted, each name once
	// Old: in a joint electorate, the voters of the version before. A majority of the old voters
	// is needed as well.
	Old []Elector `json:"old,omitempty"`
	// MinToken bounds the tokens of all leases under earlier electorates without a voter in common.
	MinToken Token `json:"floor,omitempty"`
	// Most is the maximum number of voters, as decided by the voters; zero if undecided.
	Most int `json:"most,omitempty"`
	// MaxTTL is the maximum TTL as decided by the voters, and OldMaxTTL that of the version before,
	// in a joint electorate. Both are zero if undecided: then all nodes are configured with the
	// same.
	MaxTTL    time.Duration `json:"max_ttl,omitempty"`
	OldMaxTTL time.Duration `json:"old_max_ttl,omitempty"`
}

// Joint reports whether every decision needs a majority of the old voters, too.
func (e *Electorate) Joint() bool { return len(e.Old) > 0 }

// Deciding returns the voters who decide, by majority, who votes next. In a joint electorate these
// are the old voters: locks need a majority of the new voters, too, but if too many of the new
// voters crash, the old voters can still go back. The old voters have the right to decide as long
// as nothing is final, and every lease under the joint electorate has the votes of a majority of
// the old voters.
func (e *Electorate) Deciding() []Elector {
	if e.Joint() {
		return e.Old
	}
	return e.Voters
}

// GrantLimit returns the longest time for which a voter extends a session or a vote, where a node
// is configured with a maximum TTL of its own, which counts if the voters have decided none.
//
// While the decided value changes, the electorate is joint, and the smaller of both values limits
// what voters grant, while the larger is how long a restarted voter is quiet: see
// [Electorate.QuietTime]. The drain of the joint electorate lasts for the larger. So whatever was
// granted under the old value has ended before any voter is quiet for less than the old value, and
// every voter is quiet for the new value before any grants as much.
func (e *Electorate) GrantLimit(configured time.Duration) time.Duration {
	switch {
	case e.MaxTTL == 0:
		return configured
	case e.Joint():
		return min(e.MaxTTL, e.OldMaxTTL)
	}
	return e.MaxTTL
}

// QuietTime returns how long a voter that may have forgotten its promises is quiet: the longest
// time for which it may have made them. See [Electorate.GrantLimit].
func (e *Electorate) QuietTime(configured time.Duration) time.Duration {
	if e.MaxTTL == 0 {
		return configured
	}
	return max(e.MaxTTL, e.OldMaxTTL)
}

// All returns the voters, old voters included, sorted and without duplicates.
func (e *Electorate) All() []Elector {
	all := slices.Concat(e.Voters, e.Old)
	slices.SortFunc(all, Elector.Compare)
	return slices.Compact(all)
}

// Has reports whether an elector votes in the electorate.
func (e *Electorate) Has(v Elector) bool {
	return slices.Contains(e.Voters, v) || slices.Contains(e.Old, v)
}

// Names reports whether the electorate has a voter with a name, whatever its directory.
func (e *Electorate) Names(name NodeID) bool {
	is := func(v Elector) bool { return v.Name == name }
	return slices.ContainsFunc(e.Voters, is) || slices.ContainsFunc(e.Old, is)
}

// Equal reports whether both electorates are the same in all respects.
func (e *Electorate) Equal(f *Electorate) bool {
	return e.Version == f.Version && e.Lineage == f.Lineage && e.MinToken == f.MinToken && e.Most == f.Most && e.MaxTTL == f.MaxTTL && e.OldMaxTTL == f.OldMaxTTL && slices.Equal(e.Voters, f.Voters) && slices.Equal(e.Old, f.Old)
}

// Check returns an error for an invalid electorate. Version zero means no electorate; the voters
// may then be a founder's pledge.
func (e *Electorate) Check() error {
	switch {
	case e.Version > 0 && len(e.Voters) == 0:
		return fmt.Errorf("electorate %d has no voters", e.Version)
	case e.Version == 0 && e.Joint():
		return errors.New("an electorate without a version is joint")
	case (e.Version == 1 || BornByCount(e.Version) && VersionNumber(e.Version) == 1) && e.Joint():
		return errors.New("electorate 1 is joint, but there is none before it")
	case e.Version > MaxVersion:
		return fmt.Errorf("electorate %d has a version above %d, the largest", e.Version, MaxVersion)
	case e.MinToken > MaxToken:
		return fmt.Errorf("electorate %d has the minimum token %d, above %d, the largest token", e.Version, e.MinToken, uint64(MaxToken))
	case e.Most < 0 || e.Most > MaxVoters:
		return fmt.Errorf("electorate %d may have %d voters; at most %d can vote", e.Version, e.Most, MaxVoters)
	case e.MaxTTL != 0 && (e.MaxTTL < MinTTL || e.MaxTTL > LongestTTL), e.OldMaxTTL != 0 && (e.OldMaxTTL < MinTTL || e.OldMaxTTL > LongestTTL):
		return fmt.Errorf("electorate %d has MaxTTL %v and old MaxTTL %v; a TTL is from %v to %v", e.Version, e.MaxTTL, e.OldMaxTTL, MinTTL, LongestTTL)
	case (e.OldMaxTTL != 0) != (e.MaxTTL != 0 && e.Joint()):
		return fmt.Errorf("electorate %d has MaxTTL %v and old MaxTTL %v; only a joint electorate has both", e.Version, e.MaxTTL, e.OldMaxTTL)
	case len(e.All()) > MaxVoters:
		return fmt.Errorf("electorate %d has %d voters, more than %d", e.Version, len(e.All()), MaxVoters)
	}
	for _, half := range [][]Elector{e.Voters, e.Old} {
		for i, v := range half {
			if v.Name == "" || len(v.Name) > MaxNameLen || v.Dir == 0 {
				return fmt.Errorf("electorate %d has voter %q of directory %x", e.Version, v.Name, uint64(v.Dir))
			}
			if i > 0 && half[i-1].Compare(v) >= 0 {
				return fmt.Errorf("electorate %d has voters that aren't in order, or twice the same", e.Version)
			}
		}
	}
	all := e.All()
	for i := 1; i < len(all); i++ {
		if all[i-1].Name == all[i].Name {
			return fmt.Errorf("electorate %d has two voters called %q", e.Version, all[i].Name)
		}
	}
	return nil
}

// The version of an electorate of a mesh that was born by count has three parts: birthBit, a number
// that tells its birth from other births, and the number of the version itself, from 1.
//
// Processes of one mesh may know electorates of different births, since a birth may follow the end
// of an earlier mesh of which some processes haven't heard. Their versions differ, so that they
// notice: a process is told of an electorate whose version is above its own. And a voter refuses
// the sessions of another birth, whose requests could only keep its keys from others.
const (
	birthBit    uint64 = 1 << 61
	numberBits         = 30 // a change takes a drain of a maximum TTL, so no mesh has so many
	lineageBits        = 31
)

// BirthVersion returns the first version of a mesh that is born by count.
func BirthVersion(lineage uint64) uint64 {
	return birthBit | lineage>>(64-lineageBits)<<numberBits | 1
}

// BornByCount reports whether a version is of a mesh that was born by count.
func BornByCount(version uint64) bool { return version&birthBit != 0 }

// VersionNumber returns a version as people count: from 1, with each change.
func VersionNumber(version uint64) uint64 {
	if BornByCount(version) {
		return version & (1<<numberBits - 1)
	}
	return version
}

// SameBirth reports whether two versions may be of the same mesh.
func SameBirth(v, w uint64) bool {
	return BornByCount(v) == BornByCount(w) && (!BornByCount(v) || v>>numberBits == w>>numberBits)
}

// Ballot is the ballot number of a proposal for a version of the electorate, as in Paxos (Lamport,
// "The part-time parliament", 1998). Zero means none.
type Ballot struct {
	Counter uint64 `json:"number"`
	// By is the incarnation of the proposing process, which is unique. The directory would not do:
	// a process that crashes before its own promise is stored would use the same number for the
	// next proposal, which may have another value.
	By Incarnation `json:"by"`
}

// MaxBallot is the largest ballot number, and MaxVersion the largest version of an electorate. No
// correct node counts so far: a node that names a larger number is broken, and counting on from a
// larger number must not wrap around to zero.
const (
	MaxBallot  uint64 = 1 << 62
	MaxVersion uint64 = 1 << 62
)

// Check returns an error for an invalid ballot number. Zero, which means none, is valid.
func (a Ballot) Check() error {
	if (a.Counter == 0) != (a.By == 0) || a.Counter > MaxBallot {
		return fmt.Errorf("there is no ballot %d of incarnation %d", a.Counter, a.By)
	}
	return nil
}

// Compare orders ballot numbers.
func (a Ballot) Compare(b Ballot) int {
	if c := cmp.Compare(a.Counter, b.Counter); c != 0 {
		return c
	}
	return cmp.Compare(a.By, b.By)
}

// Consensus is the content of a message about electorates. The kind of the message determines which
// fields count.
type Consensus struct {
	Ballot     Ballot // the ballot of the message
	Promised   Ballot // the newest ballot promised by the sender
	Accepted   Ballot // the ballot in which the sender accepted Electorate; zero if none
	Electorate Electorate

	Dir       Dir    // the sender's directory
	Writes    uint64 // the write count of the sender's state, as far as stored
	MaxVoters int    // the largest electorate that the sender allows; zero if unspecified
	// MaxTTL is the maximum TTL that the sender is configured with; zero if unspecified, and then
	// equal to the receiver's, as wire version 1 demands.
	MaxTTL   time.Duration
	Founding bool // the sender has an empty directory and is a founder of version 1
	// Stuck: the sender can't take part in changes, since it can't store anything or its directory
	// is an old copy.
	Stuck   bool
	Leaving bool // the sender wants to be voted out

	// Contacts are the voters and potential voters with which the sender has direct contact, the
	// sender included. Empty means unspecified.
	Contacts []Elector
}

// DiskState is the content of a node's state directory. The state behind an answer is in the
// directory, synced, before the answer is sent.
type DiskState struct {
	Mesh string `json:"mesh"` // the mesh's name
	Name NodeID `json:"name"` // the node's name
	Dir  Dir    `json:"dir"`  // the directory's identity

	// Writes counts the writes of the state, each start included. A directory restored from an old
	// copy continues from the count in the copy, and a node that knows a later count notices.
	Writes uint64 `json:"writes"`

	Electorate Electorate `json:"electorate"` // the newest electorate known to be decided
	// Promised: in the election of the next version, no ballot before Promised is accepted any
	// more.
	Promised Ballot     `json:"promised"`
	Accepted Ballot     `json:"accepted"` // the last accepted ballot; zero if none
	Value    Electorate `json:"value"`    // the value accepted in that ballot
	// Pledge is the set of founders of version 1 to which this founder has agreed. A founder
	// pledges once.
	Pledge []Elector `json:"pledge,omitempty"`
	// PledgeMaxVoters is the maximum number of voters in the founded electorate; a part of the
	// founder's pledge.
	PledgeMaxVoters int `json:"pledge_most,omitempty"`
	// PledgeMaxTTL is the maximum TTL of the founded electorate; a part of the founder's pledge.
	PledgeMaxTTL time.Duration `json:"pledge_max_ttl,omitempty"`
}
