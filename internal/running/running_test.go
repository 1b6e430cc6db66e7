package running

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errEnds = errors.New("the node ends")

func none(string) bool { return false }

// start begins a function with a lease, and returns the function and its context.
func start(t *testing.T, s *Set[string], lease string) (*Function[string], context.Context) {
	t.Helper()
	f := s.Begin()
	if f == nil {
		t.Fatal("no function may begin")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	f.Hold(lease, cancel)
	return f, ctx
}

func TestTheEndOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[string]
		first, ctx := start(t, &s, "first")
		second, _ := start(t, &s, "second")
		waiting := s.Begin()
		if ctx.Err() != nil || !s.Close(errEnds) || !errors.Is(context.Cause(ctx), errEnds) || s.Begin() != nil {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		late, end := context.WithCancelCause(t.Context())
		waiting.Hold("waiting", end) // granted as the set was closed
		if !errors.Is(context.Cause(late), errEnds) {
			t.Errorf("the context ended with %v", context.Cause(late))
		}
		waiting.End()

		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if left := s.Wait(limited, func(lease string) bool { return lease == "first" }); !slices.Equal(left, []string{"second"}) {
			t.Errorf("left: %q", left)
		}
		time.AfterFunc(time.Second, first.End)
		time.AfterFunc(time.Minute, second.End)
		began := time.Now()
		if left := s.Wait(t.Context(), none); left != nil || time.Since(began) != time.Minute {
			t.Errorf("left after %v: %q", time.Since(began), left)
		}
		if s.Close(errors.New("again")) {
			t.Error("there are functions to wait for")
		}
	})
}
