package redsyncpeer

import (
	"testing"

	"github.com/lockmesh/lockmesh/locktest"
)

func TestRedlock(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	locktest.Run(t, s, locktest.Options{TTL: TTL, Handovers: 80, Keys: 200, Ops: 600, Expect: Expected})
}
