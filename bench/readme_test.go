package bench

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/bench/etcdpeer"
	"github.com/lockmesh/lockmesh/bench/redsyncpeer"
	"github.com/lockmesh/lockmesh/locktest"
)

// taken is the sentence with the date and the commit of the runs behind the lists.
var taken = regexp.MustCompile(`compared with\s+runs\s+of\s+both\s+services\s+on\s+` +
	`20\d\d-\d\d-\d\d,\s+at\s+commit\s+[0-9a-f]{7,40}\b`)

// The tests of the adapters compare the lists with measured results; this test compares the page
// with the lists.
func TestThePageSaysWhatTheListsSay(t *testing.T) {
	source, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(source), "\r\n", "\n")
	find := func(list []locktest.Expected, name string) locktest.Expected {
		i := slices.IndexFunc(list, func(e locktest.Expected) bool { return e.Promise == name })
		if i < 0 {
			return locktest.Expected{Outcome: locktest.Kept}
		}
		return list[i]
	}
	cell := func(e locktest.Expected) string {
		switch {
		case e.Flaky:
			return "**broken** at times"
		case e.Outcome == locktest.Broken:
			return "**broken**"
		case e.Outcome == locktest.NotOffered:
			return "–"
		default:
			return "kept"
		}
	}
	if !taken.MatchString(page) {
		t.Error("README.md doesn't say on which date and at which commit the lists were taken")
	}
	for _, p := range locktest.Promises() {
		row := "| `" + p.Name + "` | " + p.Text + " | " + cell(find(etcdpeer.Expected, p.Name)) + " | " + cell(find(redsyncpeer.Expected, p.Name)) + " |"
		if !strings.Contains(page, "\n"+row+"\n") {
			t.Errorf("README.md lacks\n%s", row)
		}
	}
	for name, list := range map[string][]locktest.Expected{"etcd": etcdpeer.Expected, "Redlock": redsyncpeer.Expected} {
		for _, e := range list {
			if e.Outcome == locktest.Broken {
				if row := "| " + name + " | `" + e.Promise + "` | " + e.Reason + " |"; !strings.Contains(page, "\n"+row+"\n") {
					t.Errorf("README.md lacks\n%s", row)
				}
			} else if !strings.Contains(page, e.Reason) {
				t.Errorf("README.md doesn't say of %s that %s", name, e.Reason)
			}
		}
	}
}
