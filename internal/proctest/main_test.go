package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// program is the path of locknode, built once for all tests.
var program string

func TestMain(m *testing.M) {
	sampled.Together(map[bool]int{false: 24, true: 6}[sampled.Raced])
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "locknode")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// The ending is for Windows, and harmless elsewhere.
	program = filepath.Join(dir, "locknode.exe")
	args := []string{"build", "-o", program}
	if sampled.Raced {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/lockmesh/lockmesh/examples/locknode")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building locknode: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
