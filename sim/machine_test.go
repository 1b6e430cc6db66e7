package sim

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// readOnly lists the methods of a node that take the time, report the node's state, and change
// nothing that other nodes see.
var readOnly = []string{"ElectorateStatus", "HeldFor", "Page", "RefusedPeers", "Unanswered", "Unsettled", "Voters"}

// TestThePageNamesTheCallsThatNoWorldMakes compares the section "What is not modelled" of
// docs/simulation.md with the calls of a node that Machine lacks, and that no world can thus make.
func TestThePageNamesTheCallsThatNoWorldMakes(t *testing.T) {
	text, err := os.ReadFile(mutantsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "## What is not modelled")
	section, _, ends := strings.Cut(section, "\n## ")
	if !ok || !ends {
		t.Fatalf("%s has no section about what is not modelled", mutantsPage)
	}
	made, all, missing := reflect.TypeFor[Machine](), reflect.TypeFor[*node.Node](), 0
	for i := range all.NumMethod() {
		m := all.Method(i)
		if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[vote.Now]() || slices.Contains(readOnly, m.Name) {
			continue
		}
		named := strings.Contains(section, "`"+m.Name+"`")
		_, makes := made.MethodByName(m.Name)
		switch {
		case !makes && !named:
			t.Errorf("no world calls %s, and %s doesn't say so: name it under \"What is not modelled\"", m.Name, mutantsPage)
		case makes && named:
			t.Errorf("worlds may call %s: take it out of \"What is not modelled\"", m.Name)
		}
		missing += bit(!makes)
	}
	if missing == 0 {
		t.Error("worlds make all calls: take this test and the entry of the page out")
	}
}
