package vote

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Terms are the settings that must be the same on all nodes of a mesh. Under other terms another
// set of voters decides, so two different terms in use can give a key to two holders.
type Terms struct {
	Voters  []NodeID      // sorted; with dynamic membership: the founders
	MaxTTL  time.Duration // the longest session, and how long a restarted voter is quiet
	Dynamic bool          // the membership is dynamic: StateDir or Expect is set
	Birth   Birth         // zero unless the mesh is born by count
}

// Birth is the part of the terms of a mesh that is born by count; zero for other meshes.
type Birth struct {
	Expect    int  // how many processes found the mesh
	MinVoters int  // the least number of voters, by the size of its majority
	Register  bool // a register says which mesh may act
}

// MinVoters returns the default of Birth.MinVoters: three voters, of which one may be lost.
func MinVoters(expect int) int { return min(expect, 3) }

// Alone reports whether the mesh is of a single process, and takes in no other.
func (b Birth) Alone() bool { return b.Expect == 1 }

// Differences names each setting that differs, or that keeps the two nodes apart, with both values.
func (b Birth) Differences(c Birth, here, there string) []string {
	var points []string
	differ := func(what string, x, y int) {
		if x != y {
			points = append(points, fmt.Sprintf("%s is %s %s and %s %s", what, orUnset(x), here, orUnset(y), there))
		}
	}
	differ("Expect", b.Expect, c.Expect)
	if b.Expect == c.Expect {
		differ("MinVoters", b.MinVoters, c.MinVoters)
		if b.Register != c.Register {
			set := map[bool]string{false: "not set", true: "set"}
			points = append(points, fmt.Sprintf("Register is %s %s and %s %s", set[b.Register], here, set[c.Register], there))
		}
	}
	if b.Alone() && c.Alone() {
		points = append(points, fmt.Sprintf("Expect is 1 %s and %s, and a mesh of one process takes in no other", here, there))
	}
	return points
}

func orUnset(n int) string {
	if n == 0 {
		return "not set"
	}
	return fmt.Sprint(n)
}

// Equal reports whether two terms are the same.
func (t *Terms) Equal(u *Terms) bool {
	return t.MaxTTL == u.MaxTTL && t.Dynamic == u.Dynamic && t.Birth == u.Birth && slices.Equal(t.Voters, u.Voters)
}

// Has reports whether a node is on the list of voters.
func (t *Terms) Has(n NodeID) bool {
	_, ok := slices.BinarySearch(t.Voters, n)
	return ok
}

// String prints the terms as an operator configures them.
func (t *Terms) String() string {
	if b := t.Birth; b.Expect > 0 {
		register := ""
		if b.Register {
			register = ", a Register"
		}
		return fmt.Sprintf("Expect %d, MinVoters %d%s, MaxTTL %v", b.Expect, b.MinVoters, register, t.MaxTTL)
	}
	kind := "no StateDir"
	if t.Dynamic {
		kind = "a StateDir"
	}
	names := make([]string, len(t.Voters))
	for i, v := range t.Voters {
		names[i] = string(v)
	}
	return fmt.Sprintf("Voters [%s], MaxTTL %v, %s", strings.Join(names, " "), t.MaxTTL, kind)
}

// Differences names each differing setting, with both values; empty if there is none.
func (t *Terms) Differences(u *Terms, there NodeID) string {
	var points []string
	differ := func(what string, here, other any) {
		points = append(points, fmt.Sprintf("%s is %v here and %v at %s", what, here, other, there))
	}
	points = append(points, t.Birth.Differences(u.Birth, "here", "at "+string(there))...)
	oneKind := t.Birth.Expect > 0 == (u.Birth.Expect > 0)
	if oneKind && t.Dynamic != u.Dynamic {
		set := map[bool]string{false: "not set", true: "set"}
		differ("StateDir", set[t.Dynamic], set[u.Dynamic])
	}
	if t.MaxTTL != u.MaxTTL {
		differ("MaxTTL", t.MaxTTL, u.MaxTTL)
	}
	if oneKind && !slices.Equal(t.Voters, u.Voters) {
		differ("Voters", t.Voters, u.Voters)
	}
	return strings.Join(points, "; ")
}

// Standing says whether a node's votes count, as reported by the node.
type Standing uint8

// The standings. Their numbers are on the wire.
const (
	// StandingUnknown means that the node doesn't report a standing, since its version is older
	// than this message.
	StandingUnknown Standing = iota
	// StandingNone means that the node has no vote.
	StandingNone
	// StandingQuiet means that the node is a voter, and its votes don't count, not yet or not any
	// more.
	StandingQuiet
	// StandingCounting means that the node is a voter, and its votes count.
	StandingCounting
	// StandingLeaving means that the node was a voter, its votes don't count any more, and its
	// process is about to end.
	StandingLeaving

	standingEnd
)

// Valid reports whether this version knows the standing.
func (s Standing) Valid() bool { return s < standingEnd }

// Account is a node's report about itself to another node, whether or not both agree on the terms.
type Account struct {
	Standing Standing
	// Counted is how long votes have counted under the node's terms, as far as the node knows.
	Counted time.Duration
	Up      time.Duration // since the node's start
	Addr    string        // host:port at which the node can be reached
	// LongestTTL is the longest time for which voters may have extended a session, if the voters
	// decide the maximum TTL: after a lowering it is longer than the configured MaxTTL for a while.
	// Zero if the voters have decided none, or if the node's version is older than this element.
	LongestTTL time.Duration
}

// Sighting is a live node that has proved its knowledge of the mesh's secret, with the node's
// report about itself.
type Sighting struct {
	Peer  SessionID
	Terms Terms
	Account
}
