package promlock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("PROMLOCK_NODE"); name != "" {
		runNode(name)
		return
	}
	goleak.VerifyTestMain(m)
}
