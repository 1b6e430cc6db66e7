package transport

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Terms are what must be equal on both sides of a link, besides the protocol's version and rho. With other terms on each side
// both would be right by their own, and one key could have two holders.
type Terms struct {
	Mesh   string        // the mesh's name
	MaxTTL time.Duration // the longest TTL of a session
	Voters []vote.NodeID // the electorate, or its founders if it follows the living; order and repetition don't matter

	// Following says that the electorate follows the living, and that the voters are no more than its founders. Otherwise it is fixed.
	Following bool
}

// MaxMeshLen is the longest name of a mesh in bytes: memberlist's label, which carries it, has a length of one byte.
const MaxMeshLen = 128

// WireVersion is the newest version of the protocol that this code speaks, and OldestVersion the oldest. Version 0 marks the
// frames of the handshake itself, whose form never changes.
const (
	WireVersion   = 1
	OldestVersion = 1
)

// offer is what a side brings to the handshake.
type offer struct {
	self        vote.SessionID
	low, high   uint8 // versions of the protocol, both included
	terms       Terms // Voters sorted, each once
	rhoPerMille uint64
}

// normal returns the terms in the form in which they are compared and travel.
func (t Terms) normal() Terms {
	t.Voters = slices.Clone(t.Voters)
	slices.Sort(t.Voters)
	t.Voters = slices.Compact(t.Voters)
	return t
}

// compare returns what keeps two sides apart, each point with both values under the names of those who hold them; "" if nothing
// does. It also returns the version to speak: the newest that both know.
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
	if a.terms.MaxTTL != b.terms.MaxTTL {
		differ("MaxTTL", a.terms.MaxTTL, b.terms.MaxTTL)
	}
	if a.rhoPerMille != b.rhoPerMille {
		differ("rho", fmt.Sprintf("%d per mille", a.rhoPerMille), fmt.Sprintf("%d per mille", b.rhoPerMille))
	}
	if a.terms.Following != b.terms.Following {
		points = append(points, fmt.Sprintf("the electorate %s at %s and %s at %s", a.terms.kind(), a.self.Node, b.terms.kind(), b.self.Node))
	}
	// The lists come last: two long ones exceed what a refusal may say, and its end is cut.
	if !slices.Equal(a.terms.Voters, b.terms.Voters) {
		list := "the list of voters"
		if a.terms.Following && b.terms.Following {
			list = "the list of founders"
		}
		differ(list, a.terms.Voters, b.terms.Voters)
	}
	return version, strings.Join(points, "; ")
}

// kind says which kind of electorate it is.
func (t Terms) kind() string {
	if t.Following {
		return "follows the living"
	}
	return "is fixed"
}

func versions(o *offer) string {
	if o.low == o.high {
		return fmt.Sprint(o.high)
	}
	return fmt.Sprintf("%d to %d", o.low, o.high)
}
