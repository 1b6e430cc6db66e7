package transport

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Terms are the parameters that must be equal on both sides of a link, besides the protocol's
// version and rho. If the sides' terms differed, each side would be right by its own terms, and a
// key could have two holders.
type Terms struct {
	Mesh   string        // the mesh's name
	MaxTTL time.Duration // the longest TTL of a session
	// Voters is the electorate, or its founders if the electorate has dynamic membership; order and
	// repetition don't matter.
	Voters []vote.NodeID

	// Dynamic says that the electorate has dynamic membership, and that Voters are only its
	// founders. Otherwise the electorate is fixed.
	Dynamic bool

	// Converting says that this node is on its way from a fixed electorate to dynamic membership.
	// Such a node doesn't set Dynamic, and links with nodes of both kinds, until
	// Config.Converted.
	Converting bool

	// Birth is set if the mesh is born by count: then there are no Voters.
	Birth vote.Birth
}

// maxMeshLen is the longest name of a mesh in bytes: memberlist's label, which carries the name,
// has a length of one byte.
const maxMeshLen = 128

// WireVersion is the newest version of the protocol supported by this code, and OldestVersion the
// oldest. Version 0 marks the frames of the handshake itself; their form never changes.
//
// Since version 2 the voters of a dynamic electorate decide the maximum TTL, so nodes may be
// configured with different ones. Under version 1 all nodes must be configured with the same.
const (
	WireVersion   = 2
	OldestVersion = 1

	// DecidedTTLVersion is the first version with a decided maximum TTL.
	DecidedTTLVersion = 2
)

// offer is a side's contribution to the handshake.
type offer struct {
	self        vote.SessionID
	low, high   uint8 // versions of the protocol, both included
	terms       Terms // Voters sorted, without duplicates
	rhoPerMille uint64
	// unaware is whether the build of the node doesn't know converting nodes, and takes them for
	// fixed ones.
	unaware bool
}

// normal returns the terms in the form used for comparison and encoding.
func (t Terms) normal() Terms {
	t.Voters = slices.Clone(t.Voters)
	slices.Sort(t.Voters)
	t.Voters = slices.Compact(t.Voters)
	return t
}

// compare lists the differences between two sides, each with both values under the names of their
// nodes; "" if there are none. The version returned is the newest known to both sides.
func compare(a, b *offer) (version uint8, text string) {
	var points []string
	differ := func(what string, x, y any) {
		points = append(points, fmt.Sprintf("%s is %v at %s and %v at %s", what, x, a.self.Node, y, b.self.Node))
	}
	version = min(a.high, b.high)
	if version < a.low || version < b.low {
		differ("wire version", versions(a), versions(b))
	}
	if a.terms.Mesh != b.terms.Mesh {
		differ("mesh name", fmt.Sprintf("%q", a.terms.Mesh), fmt.Sprintf("%q", b.terms.Mesh))
	}
	decided := version >= DecidedTTLVersion && bothDecide(&a.terms, &b.terms)
	if a.terms.MaxTTL != b.terms.MaxTTL && !decided {
		differ("MaxTTL", a.terms.MaxTTL, b.terms.MaxTTL)
	}
	if a.rhoPerMille != b.rhoPerMille {
		differ("rho", fmt.Sprintf("%d per mille", a.rhoPerMille), fmt.Sprintf("%d per mille", b.rhoPerMille))
	}
	points = append(points, a.terms.Birth.Differences(b.terms.Birth, "at "+string(a.self.Node), "at "+string(b.self.Node))...)
	if a.terms.Birth.Expect > 0 != (b.terms.Birth.Expect > 0) {
		return version, strings.Join(points, "; ") // the kinds differ, and so does the rest
	}
	if a.terms.Dynamic != b.terms.Dynamic && !takes(a, b) && !takes(b, a) {
		points = append(points, fmt.Sprintf("the electorate %s at %s and %s at %s", a.terms.kind(), a.self.Node, b.terms.kind(), b.self.Node))
	}
	// The lists come last: two long lists exceed the maximum text of a refusal, and its end is cut.
	if !slices.Equal(a.terms.Voters, b.terms.Voters) {
		list := "the list of voters"
		if a.terms.Dynamic && b.terms.Dynamic {
			list = "the list of founders"
		}
		differ(list, a.terms.Voters, b.terms.Voters)
	}
	return version, strings.Join(points, "; ")
}

// takes reports whether the node a is converting, and b knows that, so that b may be of either
// kind.
func takes(a, b *offer) bool { return a.terms.Converting && !b.unaware }

// bothDecide reports whether the voters of both nodes decide the maximum TTL, as far as the kinds
// of their electorates tell. Two converting nodes derive their first electorate from the configured
// value.
func bothDecide(a, b *Terms) bool {
	knows := func(t *Terms) bool { return t.Dynamic || t.Converting }
	return knows(a) && knows(b) && (a.Dynamic || b.Dynamic)
}

// isFixed reports whether the electorate is fixed, and stays so.
func (t *Terms) isFixed() bool { return !t.Dynamic && !t.Converting }

// kind describes the kind of electorate.
func (t Terms) kind() string {
	if t.Dynamic {
		return "is dynamic"
	}
	return "is fixed"
}

func versions(o *offer) string {
	if o.low == o.high {
		return fmt.Sprint(o.high)
	}
	return fmt.Sprintf("%d to %d", o.low, o.high)
}
