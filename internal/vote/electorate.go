package vote

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Dir identifies a state directory. It is drawn at random when the directory is first used, so a directory that was wiped, or replaced, comes
// back as another. Zero is none.
type Dir uint64

// Elector is one voter of an electorate that follows the living: a node by its name, and the directory that holds what it has promised about
// electorates. A node that has lost its directory is another elector under the same name.
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

// Electorate is one version of an electorate that follows the living, as it is proposed, decided, stored and told.
// Whoever has one must not change its slices.
type Electorate struct {
	Version uint64    `json:"version"`         // from 1; zero means that none is known
	Lineage uint64    `json:"lineage"`         // the founding from which it stems
	Voters  []Elector `json:"voters"`          // sorted, each name once
	Old     []Elector `json:"old,omitempty"`   // of a joint electorate: the voters of the version before, of whom a majority is needed as well
	Floor   Token     `json:"floor,omitempty"` // no lease under an electorate without a voter in common had a larger token
}

// Joint reports whether every decision needs a majority of the old voters, too.
func (e *Electorate) Joint() bool { return len(e.Old) > 0 }

// Deciding returns the voters of whom a majority decides who votes next. While it is joint those are the old ones: locks need a majority of the new
// ones, too, but if so many of these die that there is none, the old ones can still go back. They are in their own right to decide as long as nothing
// is final, and a majority of them is part of whatever stands under the joint electorate.
func (e *Electorate) Deciding() []Elector {
	if e.Joint() {
		return e.Old
	}
	return e.Voters
}

// All returns the voters, old ones included, sorted, each once.
func (e *Electorate) All() []Elector {
	all := slices.Concat(e.Voters, e.Old)
	slices.SortFunc(all, Elector.Compare)
	return slices.Compact(all)
}

// Has reports whether an elector votes in it.
func (e *Electorate) Has(v Elector) bool {
	return slices.Contains(e.Voters, v) || slices.Contains(e.Old, v)
}

// Equal reports whether both are the same in all respects.
func (e *Electorate) Equal(f *Electorate) bool {
	return e.Version == f.Version && e.Lineage == f.Lineage && e.Floor == f.Floor && slices.Equal(e.Voters, f.Voters) && slices.Equal(e.Old, f.Old)
}

// Check complains about an electorate that makes no sense. One without a version is none, and may list a founder's pledge.
func (e *Electorate) Check() error {
	switch {
	case e.Version > 0 && len(e.Voters) == 0:
		return fmt.Errorf("electorate %d has no voters", e.Version)
	case e.Version == 0 && e.Joint():
		return errors.New("an electorate without a version is joint")
	case e.Version == 1 && e.Joint():
		return errors.New("electorate 1 is joint, but there is none before it")
	case e.Version > MaxVersion:
		return fmt.Errorf("there is no electorate %d", e.Version)
	case e.Floor > MaxToken:
		return fmt.Errorf("the floor of electorate %d is no token", e.Version)
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

// Attempt numbers the proposals that were made for one version of the electorate. Zero is none. (The ballot number of Lamport, "The
// part-time parliament", 1998; a ballot is something else here.)
type Attempt struct {
	Number uint64 `json:"number"`
	// By is the life of the process that proposes: no two have the same. Its directory wouldn't do: a process that dies before its own promise is stored
	// would number the next proposal, which may be another, as the last.
	By Life `json:"by"`
}

// MaxAttempt is the largest number of an attempt, and MaxVersion the largest version of an electorate. Nobody counts that far; whoever names a larger one
// is broken, and what is counted on from there must not begin anew at zero.
const (
	MaxAttempt uint64 = 1 << 62
	MaxVersion uint64 = 1 << 62
)

// Check complains about what is no attempt. Zero is fine: it is none.
func (a Attempt) Check() error {
	if (a.Number == 0) != (a.By == 0) || a.Number > MaxAttempt {
		return fmt.Errorf("there is no attempt %d by life %d", a.Number, a.By)
	}
	return nil
}

// Compare orders attempts.
func (a Attempt) Compare(b Attempt) int {
	if c := cmp.Compare(a.Number, b.Number); c != 0 {
		return c
	}
	return cmp.Compare(a.By, b.By)
}

// Electing is what a message about electorates says. Its kind says which fields count.
type Electing struct {
	Attempt    Attempt // that the message is about
	Promised   Attempt // the newest that the speaker has promised
	Accepted   Attempt // under which the speaker has accepted Electorate; zero when none
	Electorate Electorate

	Dir      Dir    // the speaker's
	Writes   uint64 // of the speaker's state, as far as it is stored
	Most     int    // how large an electorate the speaker allows for; zero if it doesn't say
	Founding bool   // the speaker has an empty directory and is to found version 1
	Stuck    bool   // the speaker can't store anything, or its directory is an old copy, so it can take no part in changes
	Leaving  bool   // the speaker wants to be voted out
}

// State is all that a node keeps in its state directory. What an answer rests on is there, synced, before the answer is sent.
type State struct {
	Mesh string `json:"mesh"` // the mesh's name
	Name NodeID `json:"name"` // the node's
	Dir  Dir    `json:"dir"`  // the directory's identity

	// Writes counts how often the state was written, each start included. A directory that was put back from an old copy counts from
	// where the copy was made, and whoever has heard of a later count notices.
	Writes uint64 `json:"writes"`

	Electorate Electorate `json:"electorate"`       // the newest that is known to be decided
	Promised   Attempt    `json:"promised"`         // in the election of the next version: no earlier attempt is accepted any more
	Accepted   Attempt    `json:"accepted"`         // the attempt that was accepted last; zero when none was
	Value      Electorate `json:"value"`            // what that proposed
	Pledge     []Elector  `json:"pledge,omitempty"` // the founders with whom this one founds version 1; it pledges once
}
