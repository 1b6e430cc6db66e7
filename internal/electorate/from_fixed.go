package electorate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A mesh with a fixed list of voters gets dynamic membership by two rolling restarts, without a
// stop. Nothing is agreed on at run time: version 1 of the electorate follows from the
// configuration alone, so every node computes the same version 1. The voters of version 1 are those
// of the list, and the identities of their directories are hashes.
//
//   - The first restart gives each node a state directory with version 1. Such a node is
//     *converting*: it votes under version 1, and fixed nodes take its votes for votes of the list.
//     A converting node is frozen (Config.Frozen): it learns of later versions, and takes no part
//     in deciding on them.
//   - The second restart ends the conversion of the node. From then on it is a node like any other
//     of a mesh with dynamic membership, and doesn't talk to fixed nodes.
//
// Under version 1 and under the list the same majorities decide, so a mixture of all three kinds
// has one holder for each key. Version 2 is decided, stored and drained by a majority of the list
// past the second restart. None of these voters acknowledges anything under version 1 afterwards,
// and so no majority of the list does. See ADR 31.

// FromFixed returns version 1 of the electorate of a mesh converted from a fixed list of voters;
// order and repetition of the list don't matter. With another mesh, list or maximum TTL no voter is
// the same, so votes under different values never add up.
func FromFixed(mesh string, list []vote.NodeID, maxTTL time.Duration) vote.Electorate {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	e := vote.Electorate{Version: 1, MaxTTL: maxTTL}
	for _, name := range list {
		e.Voters = append(e.Voters, vote.Elector{Name: name, Dir: identity(mesh, list, maxTTL, name)})
	}
	e.Lineage = lineage(e.Voters)
	return e
}

// identity returns the identity of the directory of a voter converted from a fixed list.
func identity(mesh string, list []vote.NodeID, maxTTL time.Duration, name vote.NodeID) vote.Dir {
	h := fnv.New64a()
	// Lengths come first, so that no two inputs have the same bytes.
	_, _ = fmt.Fprintf(h, "fixed:%d:%s:%d:%d", len(mesh), mesh, maxTTL, len(list))
	for _, v := range append(slices.Clone(list), name) {
		_, _ = fmt.Fprintf(h, ":%d:%s", len(v), v)
	}
	return nextIdentity(vote.Incarnation(h.Sum64()), 0)
}

// Convert returns the state with which a converting node begins, given the contents of its state
// directory, with Mesh, Name and Dir set; found is whether the directory had contents. The error
// says why the directory doesn't belong to a node converted from this list, and gives advice.
//
// A node of the list gets the identity that electorate 1 names for it. As a fixed node it may have
// granted leases just before, and a new directory doesn't show this: the node's voter must be quiet
// for a maximum TTL, even with a new directory.
func Convert(state vote.DiskState, found bool, list []vote.NodeID, maxTTL time.Duration) (vote.DiskState, error) {
	first := FromFixed(state.Mesh, list, maxTTL)
	at := slices.IndexFunc(first.Voters, func(v vote.Elector) bool { return v.Name == state.Name })
	e := &state.Electorate
	const without = "FromFixed is for a mesh with fixed Voters: leave FromFixed out"
	switch {
	case !found:
		state.Electorate = first
		if at >= 0 {
			state.Dir = first.Voters[at].Dir
		}
	case e.Version == 0:
		return state, errors.New("the state directory was used without FromFixed before it held an electorate; " + without)
	case e.Lineage != first.Lineage:
		return state, errors.New(otherConversion(&state, list, maxTTL) + without)
	case at >= 0 && state.Dir != first.Voters[at].Dir:
		return state, errors.New("the state directory is a new one, first used without FromFixed, and isn't that of the voter " + string(state.Name) + " of the list; " + without)
	case e.Version == 1 && (state.Promised.Counter > 0 || state.Accepted.Counter > 0):
		return state, errors.New("the state directory has taken part in deciding on the voters, without FromFixed; there is no way back to FromFixed: leave FromFixed out")
	}
	return state, nil
}

// otherConversion says why a directory isn't from the conversion from a list, and gives advice
// unless the mesh was founded with dynamic membership.
func otherConversion(state *vote.DiskState, list []vote.NodeID, maxTTL time.Duration) string {
	e := &state.Electorate
	configured := fmt.Sprintf("the Voters [%s] with MaxTTL %v and the mesh name %q", join(list), maxTTL, state.Mesh)
	if !isFirstOfList(state.Mesh, e) || state.Promised.Counter > 0 || state.Accepted.Counter > 0 {
		return "the state directory belongs to a mesh with dynamic membership that isn't converted from " + configured + ". While FromFixed is set, none of these may change: " +
			"configure what the node was first started with under FromFixed. Otherwise "
	}
	// A node that went back to the fixed list leaves its directory behind. Under a later list such
	// a directory must not be used: without FromFixed the node would vote under the former list.
	return fmt.Sprintf("the state directory was made by a conversion from the Voters [%s] with MaxTTL %v, and the node is configured with %s. If that conversion is under way, configure "+
		"what it began with. If all nodes have gone back to fixed voters since then, remove the state directory; don't start the node with this directory and without FromFixed. "+
		"If this node has run without FromFixed since then, ", join(electorNames(e.Voters)), e.MaxTTL, configured)
}

// isFirstOfList reports whether an electorate is version 1 of a mesh converted from a fixed list.
// Version 1 of a founded mesh has another lineage.
func isFirstOfList(mesh string, e *vote.Electorate) bool {
	return e.Version == 1 && FromFixed(mesh, electorNames(e.Voters), e.MaxTTL).Lineage == e.Lineage
}

func electorNames(voters []vote.Elector) []vote.NodeID {
	list := make([]vote.NodeID, len(voters))
	for i, v := range voters {
		list[i] = v.Name
	}
	return list
}

func join(names []vote.NodeID) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, " ")
}

// frozenText is why a frozen node can't act on the electorate.
const frozenText = "this node is being converted from a fixed list of voters (FromFixed), and takes no part in changes of the electorate until it is restarted without FromFixed"

// frozenChange describes the change awaited by a frozen node; empty if the electorate has changed
// already.
func (m *stateLayer) frozenChange() string {
	if m.state.Electorate.Version > 1 {
		return ""
	}
	return "converted from a fixed list of voters: the voters can change once most of them have been restarted without FromFixed"
}
