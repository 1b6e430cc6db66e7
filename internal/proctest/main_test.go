package proctest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// program is the path of locknode, built once for all tests.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	// These tests wait for leases to end, and compute next to nothing; so more of them run at once than there are processors.
	if p := flag.Lookup("test.parallel"); p.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = p.Value.Set(map[bool]string{false: "12", true: "6"}[raceEnabled])
	}
	dir, err := os.MkdirTemp("", "locknode")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "locknode.exe") // the ending is for Windows, and does no harm elsewhere
	args := []string{"build", "-o", program}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/lockmesh/lockmesh/examples/locknode")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building locknode: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
