package proctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All nodes restart at once, and no configured peer is left. The nodes find each other by the
// addresses saved in their state directories.
func TestNodesFindEachOtherByTheirStateDirectories(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	for _, name := range abc {
		p := m.procs[name]
		p.onDisk("a note of where the others are", func() bool {
			noted, _ := os.ReadFile(filepath.Join(m.stateDir(name), "peers"))
			return len(strings.Fields(string(noted))) == len(abc)-1
		})
	}
	for _, name := range abc {
		m.procs[name].kill()
	}
	for _, name := range abc {
		m.start(name, m.addrs[name], "-peers", "127.0.0.1:1")
	}
	m.procs["c"].lock("k")
}
