package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/bench/internal/child"
)

// The processes that the harness starts are this test again.
func TestMain(m *testing.M) {
	if child.IsChild() {
		serveRole()
	}
	goleak.VerifyTestMain(m)
}
