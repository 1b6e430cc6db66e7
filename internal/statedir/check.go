package statedir

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// nonsense returns why no node can be in a state; empty if a node can. A checksum proves that the
// bytes are the bytes written, not that the writer was correct: better to stop here than to vote by
// a nonsensical state.
func nonsense(st *vote.DiskState) string {
	electorate, value := &st.Electorate, &st.Value
	problems := []string{
		badName("the mesh", st.Mesh),
		badName("the node", string(st.Name)),
		badElectorate("electorate", electorate),
		badElectorate("value", value),
		badAttempt("promised", st.Promised),
		badAttempt("accepted", st.Accepted),
		badElectors("pledge", st.Pledge),
		badMost("pledge_most", st.PledgeMaxVoters),
		badTTL("pledge_max_ttl", st.PledgeMaxTTL),
	}
	for _, p := range problems {
		if p != "" {
			return p
		}
	}
	accepted := st.Accepted != vote.Ballot{}
	switch {
	case st.Dir == 0:
		return "the directory has no identity"
	case st.Writes == 0:
		return "it was written, but writes is 0"
	case st.Accepted.Compare(st.Promised) > 0:
		return fmt.Sprintf("accepted ballot %d is above promised ballot %d", st.Accepted.Counter, st.Promised.Counter)
	case accepted && value.Version == 0:
		return fmt.Sprintf("ballot %d was accepted, but not what it proposed", st.Accepted.Counter)
	case !accepted && value.Version != 0:
		return fmt.Sprintf("the value of version %d was accepted with no ballot", value.Version)
	case value.Version != 0 && value.Version != electorate.Version+1:
		return fmt.Sprintf("the value's version is %d; after an electorate of version %d it can be only %d", value.Version, electorate.Version, electorate.Version+1)
	case value.Version != 0 && electorate.Version != 0 && value.Lineage != electorate.Lineage:
		return fmt.Sprintf("the value's lineage is %d; its electorate's is %d", value.Lineage, electorate.Lineage)
	case value.Joint() && !slices.Equal(value.Old, electorate.Voters):
		return "the value's old voters aren't the voters of the electorate before it"
	}
	return ""
}

func badElectorate(what string, e *vote.Electorate) string {
	if e.Version == 0 {
		if len(e.All()) > 0 || e.Lineage != 0 || e.MinToken != 0 || e.Most != 0 || e.MaxTTL != 0 || e.OldMaxTTL != 0 {
			return what + " has no version, but isn't empty"
		}
		return ""
	}
	if p := badElectors(what+": voters", e.Voters); p != "" {
		return p
	}
	if p := badElectors(what+": old", e.Old); p != "" {
		return p
	}
	if p := badMost(what+": most", e.Most); p != "" {
		return p
	}
	if p := badTTL(what+": max_ttl", e.MaxTTL); p != "" {
		return p
	}
	if p := badTTL(what+": old_max_ttl", e.OldMaxTTL); p != "" {
		return p
	}
	switch {
	case len(e.Voters) == 0:
		return what + " has no voters"
	case (e.OldMaxTTL != 0) != (e.MaxTTL != 0 && e.Joint()):
		return fmt.Sprintf("%s has max_ttl %d and old_max_ttl %d; only a joint one has both", what, e.MaxTTL, e.OldMaxTTL)
	case e.Joint() && e.Version == 1:
		return what + " is joint, but there is no version before it"
	// Vote counting has a place for each voter, old ones included.
	case len(e.All()) > vote.MaxVoters:
		return fmt.Sprintf("%s has %d voters with its old ones; at most %d can vote", what, len(e.All()), vote.MaxVoters)
	case e.MinToken > vote.MaxToken:
		return fmt.Sprintf("%s: floor is %d, larger than every token", what, e.MinToken)
	}
	return ""
}

// badMost reports an invalid limit on the number of voters. Zero is valid: no limit was decided.
func badMost(what string, most int) string {
	if most < 0 || most > vote.MaxVoters {
		return fmt.Sprintf("%s is %d; at most %d can vote", what, most, vote.MaxVoters)
	}
	return ""
}

// badTTL reports an invalid maximum TTL. Zero is valid: none was decided.
func badTTL(what string, d time.Duration) string {
	if d != 0 && (d < vote.MinTTL || d > vote.LongestTTL) {
		return fmt.Sprintf("%s is %v; a maximum TTL is from %v to %v", what, d, vote.MinTTL, vote.LongestTTL)
	}
	return ""
}

// badElectors reports a list of electors with unsorted or repeated names: counting by a list with a
// repeated name would count a voter twice.
func badElectors(what string, es []vote.Elector) string {
	if len(es) > vote.MaxVoters {
		return fmt.Sprintf("%s has %d entries; at most %d can vote", what, len(es), vote.MaxVoters)
	}
	for i, e := range es {
		if p := badName(what, string(e.Name)); p != "" {
			return p
		}
		switch {
		case e.Dir == 0:
			return fmt.Sprintf("%s: %q has no directory", what, e.Name)
		case i > 0 && e.Name == es[i-1].Name:
			return fmt.Sprintf("%s: %q is named twice", what, e.Name)
		case i > 0 && e.Name < es[i-1].Name:
			return fmt.Sprintf("%s: %q stands behind %q; names must be sorted", what, e.Name, es[i-1].Name)
		}
	}
	return ""
}

// badAttempt reports a ballot number without an incarnation, or an incarnation without a ballot
// number.
func badAttempt(what string, a vote.Ballot) string {
	if (a.Counter == 0) != (a.By == 0) {
		return fmt.Sprintf("%s: ballot %d by incarnation %d; both are zero or none is", what,
			a.Counter, a.By)
	}
	return ""
}

// badName reports a name unfit for the wire.
func badName(what, name string) string {
	switch {
	case name == "":
		return what + ": a name is empty"
	case len(name) > vote.MaxNameLen:
		return fmt.Sprintf("%s: the name %.20q... has %d bytes, more than %d", what, name, len(name), vote.MaxNameLen)
	case !utf8.ValidString(name):
		return fmt.Sprintf("%s: the name %q isn't UTF-8", what, name)
	}
	return ""
}
