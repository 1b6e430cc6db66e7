package running

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
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

// closes closes a set, and demands the leases of the functions that are told.
func closes(t *testing.T, s *Set[string], cause error, want ...string) bool {
	t.Helper()
	leases, are := s.Close(cause, none)
	if slices.Sort(leases); !slices.Equal(leases, want) {
		t.Errorf("the functions under %q are told, want %q", leases, want)
	}
	return are
}

// A function with an excepted lease isn't told of the end, and a lease may be excepted later.
func TestExceptedFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[string]
		ends, own := start(t, &s, "ends the node")
		other, _ := start(t, &s, "other")
		var given atomic.Bool
		excepted := func(lease string) bool { return lease == "ends the node" || given.Load() }
		if leases, are := s.Close(errEnds, excepted); own.Err() != nil || !are || !slices.Equal(leases, []string{"other"}) {
			t.Errorf("told: %q; the context ended with %v", leases, context.Cause(own))
		}
		time.AfterFunc(time.Second, func() { given.Store(true); s.Recheck() })
		began := time.Now()
		if left := s.Wait(t.Context(), excepted); left != nil || time.Since(began) != time.Second {
			t.Errorf("left after %v: %q", time.Since(began), left)
		}
		ends.End()
		other.End()
	})
}

func TestTheEndOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[string]
		first, ctx := start(t, &s, "first")
		second, _ := start(t, &s, "second")
		waiting := s.Begin()
		if ctx.Err() != nil || !closes(t, &s, errEnds, "first", "second") || !errors.Is(context.Cause(ctx), errEnds) || s.Begin() != nil {
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
		if closes(t, &s, errors.New("again")) {
			t.Error("there are functions to wait for")
		}
	})
}
