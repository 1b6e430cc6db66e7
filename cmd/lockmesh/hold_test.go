package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

// linkTo serves a node within a bubble, and returns a link to the node.
func linkTo(t *testing.T, node *lockmesh.Mesh) *link {
	t.Helper()
	const token = "kQ7vXw2-token-hB9zLm4TgY8s"
	in := pipes.New()
	h := admin.New(node, admin.WithToken(token), admin.AllowLocks(lockmesh.DefaultMaxTTL), admin.WithLogger(slog.New(slog.DiscardHandler)))
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- admin.Serve(serving, in, h) }()
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); <-ended; nowhere.Close() })
	return &link{g: &globals{Timeout: time.Minute, streams: &streams{out: nowhere, err: nowhere}}, own: &ownNode{pipes: in, token: token}}
}

// TestALossBeforeTheLastGrant: a key that was lost when the last key is granted isn't taken for
// held, and the last key is released.
func TestALossBeforeTheLastGrant(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		h := &holder{lockFlags: new(lockFlags), link: linkTo(t, m.Node("a"))}
		if err := h.take(t.Context(), []string{"a"}); err != nil {
			t.Fatal(err)
		}
		first := h.holds[0]
		if err := m.Node("b").Evict(t.Context(), "a", first.Token()); err != nil {
			t.Fatal(err)
		}
		<-first.Done()
		if err := h.take(t.Context(), []string{"b"}); codeOf(err) != exitLost {
			t.Errorf("the error is %v", err)
		}
		if len(h.holds) != 0 {
			t.Errorf("%d keys are still held", len(h.holds))
		}
		for _, key := range []string{"a", "b"} {
			if _, err := m.Node("c").TryLock(t.Context(), key); err != nil {
				t.Errorf("%s isn't free: %v", key, err)
			}
		}
	})
}

// TestTheGraceAfterAWait: how long a command waits for its second key doesn't change which --grace
// fits the lease.
func TestTheGraceAfterAWait(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		const ttl = lockmesh.DefaultMaxTTL
		l := linkTo(t, m.Node("a"))
		for wait := time.Duration(0); wait < ttl; wait += ttl / 20 {
			second, err := m.Node("b").Lock(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			released := make(chan error)
			go func() { time.Sleep(wait); released <- second.Unlock(context.Background()) }()
			h := &holder{lockFlags: new(lockFlags), link: l, name: "true"}
			if err := h.take(t.Context(), []string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
			if err := fits(h, ttl/5); err != nil {
				t.Errorf("after a wait of %v: %v", wait, err)
			}
			if err := h.release(); err != nil {
				t.Error(err)
			}
			if err := <-released; err != nil {
				t.Error(err)
			}
		}
	})
}

// fits returns an error unless a grace is allowed for the held keys, and leaves time before an
// unrenewed lease counts as lost.
func fits(h *holder, asked time.Duration) error {
	grace, err := newGrace(asked, h.length)
	if err != nil {
		return err
	}
	if late := time.Since((&supervisor{holder: h, grace: grace}).renewalLimit()); late >= 0 {
		return fmt.Errorf("with a grace of %v, a held lock counts as lost since %v", grace, late)
	}
	return nil
}

// TestTheGraceInEachPhase: the longest grace fits a lease from the grant on, whenever the node has
// refreshed its sessions last, and whenever the node has told so.
func TestTheGraceInEachPhase(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		l := linkTo(t, m.Node("a"))
		for _, ttl := range []time.Duration{0, lockmesh.MinTTL, lockmesh.DefaultMaxTTL / 4} {
			length := cmp.Or(ttl, lockmesh.DefaultMaxTTL)
			for range 20 {
				time.Sleep(length * 3 / 29)
				h := &holder{lockFlags: &lockFlags{TTL: ttl}, link: l, name: "true"}
				if err := h.checkGrace(t.Context(), length/5); err != nil {
					t.Error(err)
				}
				if err := h.checkGrace(t.Context(), length/5+time.Millisecond); codeOf(err) != exitUsage {
					t.Errorf("the error of a longer grace is %v", err)
				}
				if err := h.take(t.Context(), []string{"k"}); err != nil {
					t.Fatal(err)
				}
				for range 60 {
					if err := errors.Join(fits(h, length/5), fits(h, 0)); err != nil {
						t.Fatalf("a lease of %v: %v", length, err)
					}
					time.Sleep(length / 40)
				}
				if err := h.release(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
