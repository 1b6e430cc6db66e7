package statedir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPeersAreNotedBesideTheState(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Peers(); len(got) > 0 {
		t.Errorf("a new directory knows %q", got)
	}
	for _, want := range [][]string{{"10.0.0.1:7950", "[::1]:7950"}, {"b.example:1"}} {
		if err := d.SavePeers(want); err != nil {
			t.Fatal(err)
		}
		if got := d.Peers(); !slices.Equal(got, want) {
			t.Errorf("it knows %q, want %q", got, want)
		}
	}
	if _, found, err := d.Load("m", "a"); err != nil || found {
		t.Errorf("with a list of peers alone there is a state: %v, %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(path, peersFile), []byte("\x00 "+strings.Repeat("x", 2*maxPeer)+" a:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.Peers(); !slices.Contains(got, "a:1") || len(got) > 2 {
		t.Errorf("of what makes little sense it takes %q", got)
	}
	if err := d.SavePeers(slices.Repeat([]string{"a:1"}, 2*maxPeers)); err != nil || len(d.Peers()) != maxPeers {
		t.Errorf("%d peers, %v", len(d.Peers()), err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.SavePeers(nil); err == nil || len(d.Peers()) > 0 {
		t.Error("a closed directory is used")
	}
}
