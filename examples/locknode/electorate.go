package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// electorate is the set of voters under dynamic membership: "version 3 names a,b,c,d,e joint true
// old a,b,c voter true". Without names: "version 0 names - joint false voter false".
type electorate struct {
	Version uint64   `json:"version"` // 0: none is known yet
	Names   []string `json:"names"`   // the voters, in order; during a change, the new voters
	// Joint says that a change is under way, and a majority of the old voters is needed, too.
	Joint bool     `json:"joint"`
	Old   []string `json:"old,omitempty"` // during a change
	Voter bool     `json:"voter"`         // this node votes
}

func (e *electorate) String() string {
	text := fmt.Sprintf("version %d names %s joint %t", e.Version, cmp.Or(strings.Join(e.Names, ","), "-"), e.Joint)
	if e.Joint {
		text += " old " + strings.Join(e.Old, ",")
	}
	return text + fmt.Sprintf(" voter %t", e.Voter)
}

// printElectorate prints the electorate whenever the electorate changes or is lost, or this node
// can't take part in changes any more.
func (n *node) printElectorate(ctx context.Context) {
	states, err := n.mesh.WatchElectorate(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.out.fail("watchelectorate", "", err)
		}
		return
	}
	last := ""
	for s := range states {
		e := &electorate{Version: s.Version, Names: []string{}, Joint: s.Joint, Old: s.Old, Voter: s.Voter}
		for _, v := range s.Voters {
			if !s.Joint || slices.Contains(s.New, v.Name) {
				e.Names = append(e.Names, v.Name)
			}
		}
		text := problem(&s)
		if now := e.String() + problemKind(&s); now != last {
			last = now
			n.out.print(event{Event: "electorate", electorate: e, Text: text})
		}
	}
}

// problem says why there is no electorate, or what stands in its way; empty if all is well.
func problem(s *lockmesh.ElectorateStatus) string {
	switch {
	case s.Lost != "":
		return s.Lost
	case s.Trouble != "":
		return s.Trouble
	case s.Version == 0:
		return s.Change
	}
	return ""
}

// problemKind returns a text that changes with the kind of trouble, but not with how long a node
// has been gone.
func problemKind(s *lockmesh.ElectorateStatus) string {
	if s.Lost != "" {
		return "lost"
	}
	return problem(s)
}

func (n *node) recoverVoters(ctx context.Context, voters []string) {
	if err := n.mesh.Recover(ctx, voters...); err != nil {
		n.out.fail("recover", "", err)
		return
	}
	n.out.print(event{Event: "recovered"})
}
