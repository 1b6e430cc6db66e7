package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected rarely, since worlds are short and small: the tests need a third less
// of a processor so, and 200 MB more.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
