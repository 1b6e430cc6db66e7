package statedir

import (
	"os"
	"testing"
)

// The directory of processes can't be synced.
func TestADirectoryThatCannotBeSyncedIsTaken(t *testing.T) {
	d, err := os.Open("/proc")
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	if err := d.Sync(); err == nil || !needsNoSync(err) {
		t.Skipf("here it can be synced, or says something else: %v", err)
	}
	if err := syncDir("/proc"); err != nil {
		t.Error(err)
	}
}
