package proctest

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/record"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

var update = flag.String("update-formats", "",
	"write testdata/formats.txt anew; the `commit` is the last one before the formats changed")

// formatsFile has what two versions must agree upon, as this version has it. Its first line has the
// last commit before the newest change of these formats: the hunt builds this commit, and has both
// versions form one mesh.
const formatsFile = "testdata/formats.txt"

// TestAChangeOfAFormatMovesTheVersionBefore: a commit that changes a wire or state format also
// records the commit before it, of which the hunt builds the version to try beside this version.
func TestAChangeOfAFormatMovesTheVersionBefore(t *testing.T) {
	now := formats(t)
	if *update != "" {
		if err := os.WriteFile(formatsFile, []byte("before: "+*update+"\n"+now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, recorded := versionBefore(t); recorded != now {
		t.Errorf("a wire or state format has changed: add a line to CHANGELOG.md, record the last "+
			"commit before the change by -update-formats COMMIT, and run the tests of two versions "+
			"(go test -tags hunt ./internal/proctest -run Version)\ngot:\n%s\nrecorded:\n%s", now, recorded)
	}
}

// versionBefore returns the last commit before the newest change of a format, and the formats since
// the change.
func versionBefore(t *testing.T) (commit, formats string) {
	t.Helper()
	data, err := os.ReadFile(formatsFile)
	if err != nil {
		t.Fatal(err)
	}
	first, formats, _ := strings.Cut(string(data), "\n")
	commit, ok := strings.CutPrefix(first, "before: ")
	if !ok || commit == "" {
		t.Fatalf("%s begins with %q, want the commit after \"before: \"", formatsFile, first)
	}
	return commit, formats
}

// formats lists the formats in a text: the wire versions, messages and handshakes by a digest of
// their bytes, gossip's tags, a state file's fields, and the fields of a register's record.
func formats(t *testing.T) string {
	t.Helper()
	wire, err := os.ReadFile("../../transport/testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "wire versions: %d to %d\n", transport.OldestVersion, transport.WireVersion)
	fmt.Fprintf(&b, "messages and handshakes: %.16x\n", sha256.Sum256(wire))
	fmt.Fprintf(&b, "tags of gossip: %s\n", strings.Join(gossipTags(t), " "))
	var fields []string
	listFields(reflect.TypeFor[vote.DiskState](), "", &fields)
	fmt.Fprintf(&b, "state file:\n  %s\n", strings.Join(fields, "\n  "))
	var keys map[string]any
	if err := json.Unmarshal(record.Encode(&vote.RegisterRecord{Lineage: 1, Renewal: 1}), &keys); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "record of a register: %s\n", strings.Join(slices.Sorted(maps.Keys(keys)), " "))
	return b.String()
}

var tagPattern = regexp.MustCompile(`(?m)^\ttag\w+\s+= "(\w+)"`)

// gossipTags returns the names of gossip's tags, as package member declares them.
func gossipTags(t *testing.T) (all []string) {
	t.Helper()
	source, err := os.ReadFile("../../member/tags.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range tagPattern.FindAllStringSubmatch(string(source), -1) {
		all = append(all, found[1])
	}
	if len(all) == 0 {
		t.Fatal("member/tags.go declares no tags")
	}
	slices.Sort(all)
	return all
}

// listFields appends the path of each field in the JSON of a type, with the kind of the value.
func listFields(in reflect.Type, path string, all *[]string) {
	switch {
	case in == reflect.TypeFor[time.Duration](), in.Kind() != reflect.Struct && in.Kind() != reflect.Slice:
		*all = append(*all, path+" "+in.Kind().String())
	case in.Kind() == reflect.Slice:
		listFields(in.Elem(), path+"[]", all)
	default:
		for _, f := range reflect.VisibleFields(in) {
			name := f.Tag.Get("json")
			if name == "" {
				name = f.Name
			}
			listFields(f.Type, strings.TrimPrefix(path+"."+name, "."), all)
		}
	}
}
