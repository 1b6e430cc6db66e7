package main

import (
	"os"
	"testing"

	"github.com/lockmesh/lockmesh/bench/internal/child"
)

// The processes that the harness starts are this test again.
func TestMain(m *testing.M) {
	if child.IsChild() {
		serveRole()
	}
	os.Exit(m.Run())
}
