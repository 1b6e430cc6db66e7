package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/bench/internal/child"
)

// The harness starts its processes from the binary of this test.
func TestMain(m *testing.M) {
	if child.IsChild() {
		serveRole()
	}
	goleak.VerifyTestMain(m)
}
