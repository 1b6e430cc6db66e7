package main

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/meshtest"
)

// TestTheGraceAfterAWait : how long a command waits for its second key doesn't change which --grace
// fits the lease. The line of the first key that has told its end may be as old as a quarter of the
// lease.
func TestTheGraceAfterAWait(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		const token = "kQ7vXw2-token-hB9zLm4TgY8s"
		ttl := lockmesh.DefaultMaxTTL
		in := newPipes()
		h := admin.New(m.Node("a"), admin.Token(token), admin.AllowLocks(ttl), admin.Logger(slog.New(slog.DiscardHandler)))
		serving, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- admin.Serve(serving, in, h) }()
		defer func() { stop(); <-ended }()
		nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer nowhere.Close()
		l := &link{g: &globals{streams: &streams{out: nowhere, err: nowhere}}, own: &ownNode{pipes: in, token: token}}
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
			if _, err := newGrace(ttl/5, h.length); err != nil {
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
