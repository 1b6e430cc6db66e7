package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes garbage collection rare, since worlds are short and small: the tests need a third
// less of a processor, and 200 MB more memory.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
