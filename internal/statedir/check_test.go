package statedir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func many(prefix string, n int) (es []vote.Elector) {
	for i := range n {
		es = append(es, vote.Elector{Name: vote.NodeID(fmt.Sprintf("%s%02d", prefix, i)), Dir: 1})
	}
	return es
}

func TestAStateThatMakesNoSenseIsRefused(t *testing.T) {
	long := strings.Repeat("n", vote.MaxNameLen+1)
	for want, spoil := range map[string]func(st *vote.DiskState){
		"the mesh: a name is empty":                       func(st *vote.DiskState) { st.Mesh = "" },
		"the mesh: the name \"nnnnnnnnnnnnnnnnnnnn\"...":  func(st *vote.DiskState) { st.Mesh = long },
		"the node: a name is empty":                       func(st *vote.DiskState) { st.Name = "" },
		"has 129 bytes, more than 128":                    func(st *vote.DiskState) { st.Name = vote.NodeID(long) },
		"isn't UTF-8":                                     func(st *vote.DiskState) { st.Name = "\xff" },
		"the directory has no identity":                   func(st *vote.DiskState) { st.Dir = 0 },
		"writes is 0":                                     func(st *vote.DiskState) { st.Writes = 0 },
		"accepted ballot 4 is above promised ballot 3":    func(st *vote.DiskState) { st.Accepted.Counter = 4 },
		"accepted ballot 3 is above promised ballot 3":    func(st *vote.DiskState) { st.Accepted = vote.Ballot{Counter: 3, By: 13} },
		"promised: ballot 3 by incarnation 0":             func(st *vote.DiskState) { st.Promised.By = 0 },
		"promised: ballot 0 by incarnation 12":            func(st *vote.DiskState) { st.Promised.Counter = 0 },
		"accepted: ballot 2 by incarnation 0":             func(st *vote.DiskState) { st.Accepted.By = 0 },
		"ballot 2 was accepted, but not what it":          func(st *vote.DiskState) { st.Value = vote.Electorate{} },
		"version 5 was accepted with no ballot":           func(st *vote.DiskState) { st.Accepted = vote.Ballot{} },
		"the value's version is 6; after an electorate":   func(st *vote.DiskState) { st.Value.Version = 6 },
		"the value's version is 4; after an electorate":   func(st *vote.DiskState) { st.Value.Version = 4 },
		"it can be only 1":                                func(st *vote.DiskState) { st.Electorate = vote.Electorate{} },
		"the value's lineage is 8; its electorate's is 7": func(st *vote.DiskState) { st.Value.Lineage = 8 },
		"the value's old voters aren't the voters":        func(st *vote.DiskState) { st.Value.Old = st.Value.Old[:2] },
		"electorate has no version, but isn't empty":      func(st *vote.DiskState) { st.Electorate.Version = 0 },
		"value has no version, but isn't empty":           func(st *vote.DiskState) { st.Value = vote.Electorate{MinToken: 1} },
		"electorate has no voters":                        func(st *vote.DiskState) { st.Electorate.Voters = nil },
		"value has no voters":                             func(st *vote.DiskState) { st.Value.Voters = nil },
		"electorate is joint, but there is no version":    func(st *vote.DiskState) { st.Electorate.Version, st.Electorate.Old = 1, many("v", 3) },
		"electorate: floor is 9223372036854775808":        func(st *vote.DiskState) { st.Electorate.MinToken = vote.MaxToken + 1 },
		"electorate: voters has 64 entries":               func(st *vote.DiskState) { st.Electorate.Voters = many("v", 64) },
		"value: old has 64 entries":                       func(st *vote.DiskState) { st.Value.Old = many("v", 64) },
		"pledge has 64 entries":                           func(st *vote.DiskState) { st.Pledge = many("v", 64) },
		"electorate has 64 voters with its old ones":      func(st *vote.DiskState) { st.Electorate.Voters, st.Electorate.Old = many("a", 32), many("b", 32) },
		"electorate: voters: \"b\" is named twice":        func(st *vote.DiskState) { st.Electorate.Voters[2].Name = "b" },
		"electorate: voters: \"a\" stands behind \"b\"":   func(st *vote.DiskState) { slices.Reverse(st.Electorate.Voters[:2]) },
		"value: old: \"c\" has no directory":              func(st *vote.DiskState) { st.Value.Old[2].Dir = 0 },
		"value: voters: a name is empty":                  func(st *vote.DiskState) { st.Value.Voters[0].Name = "" },
		"pledge: the name":                                func(st *vote.DiskState) { st.Pledge[0].Name = vote.NodeID(long) },
	} {
		st := sample(1)
		st.Electorate.Voters, st.Value.Old, st.Pledge = slices.Clone(st.Electorate.Voters), slices.Clone(st.Value.Old), slices.Clone(st.Pledge)
		if problem := nonsense(st); problem != "" {
			t.Fatalf("the state before: %s", problem)
		}
		spoil(st)
		if problem := nonsense(st); !strings.Contains(problem, want) {
			t.Errorf("it says %q, want %q", problem, want)
		}
	}
}

func TestAStateThatMakesSenseIsTaken(t *testing.T) {
	for name, change := range map[string]func(st *vote.DiskState){
		"nothing is known":           func(st *vote.DiskState) { *st = *fresh() },
		"pledged":                    func(st *vote.DiskState) { *st = *fresh(); st.Pledge = many("v", 3) },
		"promised, accepted nothing": func(st *vote.DiskState) { st.Accepted, st.Value = vote.Ballot{}, vote.Electorate{} },
		"accepted what it promised":  func(st *vote.DiskState) { st.Accepted = st.Promised },
		"the first electorate": func(st *vote.DiskState) {
			st.Electorate = vote.Electorate{}
			st.Value.Version, st.Value.Old = 1, nil
		},
		"a joint electorate": func(st *vote.DiskState) {
			st.Electorate, st.Value = st.Value, vote.Electorate{Version: 6, Lineage: 7, Voters: st.Value.Voters}
		},
		"as many as can be": func(st *vote.DiskState) {
			st.Electorate.Voters = many("v", vote.MaxVoters)
			st.Value.Voters, st.Value.Old = many("v", vote.MaxVoters-1), st.Electorate.Voters
		},
		"a node under a new directory": func(st *vote.DiskState) {
			st.Value.Voters = slices.Clone(st.Value.Voters)
			st.Value.Voters[0].Dir = 99
		},
	} {
		st := sample(1)
		change(st)
		if problem := nonsense(st); problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		back, err := decode("state", mustEncode(t, st))
		if err != nil || !same(&back, st) {
			t.Errorf("%s: reads back %+v, %v; want %+v", name, back, err, st)
		}
	}
}
