package sockettest

import (
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// The secret of a running mesh is changed in the three steps of docs/changing-the-secret.md. Leases
// are held throughout, and locks are acquired after each step.
func TestTheSecretIsChangedWhileLocksAreHeld(t *testing.T) {
	sampled.OnlyRaced(t)
	t.Parallel()
	sampled.Waits(t)
	old, fresh := lockmesh.NewSecret(), lockmesh.NewSecret()
	r := &onLoopback{t: t, secret: old, ttl: calmTTL, voters: []string{"a", "b", "c"}}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.join(name, nil)
	}
	for _, m := range r.nodes {
		r.ready(m)
	}
	var held []*lockmesh.Lease
	for _, m := range r.nodes {
		held = append(held, r.lock(m, "held by "+m.Name()))
	}
	step := func(secrets ...lockmesh.Secret) {
		t.Helper()
		for _, m := range r.nodes {
			if err := m.SetSecrets(secrets...); err != nil {
				t.Fatal(err)
			}
			lease := r.lock(m, "free")
			check(t, lease.Unlock(testwait.Within(t, patience)))
		}
		for i, m := range r.nodes {
			check(t, held[i].Err())
			check(t, m.Ready(testwait.Within(t, patience)))
		}
	}
	// uses waits until every node knows the accepted and sent secrets of every node.
	uses := func(sent lockmesh.Secret, accepted ...lockmesh.Secret) {
		t.Helper()
		all := []string{"a", "b", "c", "d"}
		for _, m := range r.nodes {
			testwait.Until(t, "all know what all use", func() bool {
				s := m.Status().Secrets
				sentBy := 0
				for _, u := range s {
					if !slices.Equal(u.AcceptedBy, all) {
						return false
					}
					if u.ID == idOf(t, sent) && slices.Equal(u.SentBy, all) {
						sentBy++
					}
				}
				return len(s) == len(accepted) && sentBy == 1
			})
		}
	}
	uses(old, old)
	step(old, fresh)
	uses(old, old, fresh)
	step(fresh, old)
	uses(fresh, old, fresh)
	step(fresh)
	uses(fresh, fresh)

	// gossip has gone on, and the old secret is of no use
	r.secret = fresh
	e := r.join("e", nil)
	r.ready(e)
	testwait.Until(t, "gossip shows all nodes to the newest", func() bool {
		alive := 0
		for _, s := range e.Status().Members {
			if s.State == "alive" {
				alive++
			}
		}
		return alive == 5
	})
	r.secret = old
	late := r.join("late", nil)
	wantIs(t, late.Ready(testwait.Within(t, patience)), lockmesh.ErrRefused)
	for i := range held {
		check(t, held[i].Err())
		check(t, held[i].Unlock(testwait.Within(t, patience)))
	}
}

// idOf returns the id of a secret in the Status of a node.
func idOf(t *testing.T, secret lockmesh.Secret) string {
	t.Helper()
	r := &onLoopback{t: t, secret: secret, ttl: calmTTL, voters: []string{"alone"}}
	return r.join("alone", nil).Status().Secrets[0].ID
}
