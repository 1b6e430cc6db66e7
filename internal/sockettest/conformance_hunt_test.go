//go:build hunt

package sockettest

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/locktest"
)

// TestAMeshKeepsEveryPromiseOverSockets examines all promises except the promises about clients
// that are cut off. The TTL is short, since the examination waits for about twenty TTLs: a busy
// machine may lose locks.
func TestAMeshKeepsEveryPromiseOverSockets(t *testing.T) {
	const ttl = 500 * time.Millisecond
	s := overSockets(t, ttl)
	defer func() { check(t, s.Close()) }()
	whole := locktest.Lacking("on loopback nobody can be cut off; the bubble does it", locktest.HasCut)
	locktest.Run(t, s, locktest.Options{TTL: ttl, Expect: whole})
}
