package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Short-lived processes draw their names at random, join and say goodbye. Two hours later no node
// remembers them; a node with a directory, and a node that failed, are remembered for days.
func TestMembersThatLeftAreForgotten(t *testing.T) {
	sampled.Computes(t)
	inLab(t, func(l *lab) {
		a, _, _ := l.trio()
		leave := func(n *node) {
			if err := n.Leave(context.Background()); err != nil {
				t.Error(err)
			}
		}
		for i := range 20 {
			n := l.start(vote.NodeID(fmt.Sprintf("cli-%d", i)), vote.Incarnation(100+i), addr(10+i))
			time.Sleep(2 * time.Second)
			leave(n)
		}
		kept := l.start("kept", 200, addr(40), func(c *Config) { c.Dir = 7 })
		failed := l.start("failed", 201, addr(41))
		time.Sleep(5 * time.Second)
		leave(kept)
		if err := failed.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		count := func() map[vote.Presence]int {
			n := map[vote.Presence]int{}
			for _, m := range a.Members() {
				n[m.State]++
			}
			return n
		}
		if n := count(); n[vote.Left] != 21 || n[vote.Failed] != 1 {
			t.Errorf("a minute after the last goodbye: %v", a.Members())
		}
		time.Sleep(2 * time.Hour)
		if n := count(); n[vote.Left] != 1 || n[vote.Failed] != 1 || n[vote.Alive] != 3 {
			t.Errorf("two hours after the last goodbye: %v", a.Members())
		}
	})
}
