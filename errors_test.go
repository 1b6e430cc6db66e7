package lockmesh

import (
	"context"
	"errors"
	"testing"
)

func TestErrorTexts(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"a sentinel alone", ErrHeld, "lockmesh: the lock is held or rests after a lease, or an earlier request is queued"},
		{
			"all fields", &Error{Op: "lock", Key: "k", Reason: ErrNoQuorum, Text: "1 of 3 voters counts", Err: context.Canceled},
			`lockmesh: lock "k": too few voters answer or count: 1 of 3 voters counts: context canceled`,
		},
		{"no key", &Error{Op: "ready", Reason: ErrClosed}, "lockmesh: ready: the mesh is closed"},
		{"no reason", &Error{Op: "unlock", Key: "k", Err: context.Canceled}, `lockmesh: unlock "k": context canceled`},
		{"a reason of several", &Error{Op: "lease", Reason: ErrLost, Err: ErrClosed}, "lockmesh: lease: the lease is lost: the mesh is closed"},
		{"joined errors on one line", &Error{Op: "lock", Err: errors.Join(context.Canceled, errors.New("why"))}, "lockmesh: lock: context canceled, why"},
	} {
		if row.err.Error() != row.want {
			t.Errorf("%s: %q, want %q", row.name, row.err, row.want)
		}
	}
}
