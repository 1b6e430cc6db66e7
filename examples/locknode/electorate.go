package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// electorate is who votes, where that follows the living: "version 3 names a,b,c,d,e joint true old a,b,c voter true". Without names: "version 0 names - joint false voter false".
type electorate struct {
	Version uint64   `json:"version"`       // 0: none is known yet
	Names   []string `json:"names"`         // the voters, in order; while it is joint those that it is changed to
	Joint   bool     `json:"joint"`         // it is being changed, and a majority of the old voters is needed, too
	Old     []string `json:"old,omitempty"` // while it is joint
	Voter   bool     `json:"voter"`         // this node votes
}

func (e *electorate) String() string {
	text := fmt.Sprintf("version %d names %s joint %t", e.Version, cmp.Or(strings.Join(e.Names, ","), "-"), e.Joint)
	if e.Joint {
		text += " old " + strings.Join(e.Old, ",")
	}
	return text + fmt.Sprintf(" voter %t", e.Voter)
}

// tellElectorate prints who votes whenever that changes, and when it is lost or this node can't take part in changes any more.
func (n *node) tellElectorate(ctx context.Context) {
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
		text := whatIsWrong(&s)
		if now := e.String() + what(&s); now != last {
			last = now
			n.out.print(event{Event: "electorate", electorate: e, Text: text})
		}
	}
}

// whatIsWrong says why there is no electorate, or what stands in its way; empty if all is well.
func whatIsWrong(s *lockmesh.ElectorateStatus) string {
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

// what tells apart what is wrong. How long somebody has been gone is no news.
func what(s *lockmesh.ElectorateStatus) string {
	if s.Lost != "" {
		return "lost"
	}
	return whatIsWrong(s)
}

func (n *node) refound(ctx context.Context, voters []string) {
	if err := n.mesh.Refound(ctx, voters...); err != nil {
		n.out.fail("refound", "", err)
		return
	}
	n.out.print(event{Event: "refounded"})
}
