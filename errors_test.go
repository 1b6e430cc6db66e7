package lockmesh

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/quorum"
)

func TestErrorTexts(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"a sentinel alone", ErrHeld, "lockmesh: the lock is held, or an earlier request is queued"},
		{
			"all fields", &Error{Op: "lock", Key: "k", Reason: ErrNoQuorum, Text: "1 of 3 voters counts", Err: context.Canceled},
			`lockmesh: lock "k": too few voters answer or count: 1 of 3 voters counts: context canceled`,
		},
		{"no key", &Error{Op: "ready", Reason: ErrClosed}, "lockmesh: ready: the mesh is closed"},
		{"no reason", &Error{Op: "unlock", Key: "k", Err: context.Canceled}, `lockmesh: unlock "k": context canceled`},
		{"a reason of several", errLostByClose, "lockmesh: lease: the lease is lost: the mesh is closed"},
		{"joined errors on one line", &Error{Op: "lock", Err: errors.Join(context.Canceled, errors.New("why"))}, "lockmesh: lock: context canceled, why"},
	} {
		if row.err.Error() != row.want {
			t.Errorf("%s: %q, want %q", row.name, row.err, row.want)
		}
	}
}

func TestEveryReasonToWaitHasItsError(t *testing.T) {
	for reason, want := range map[quorum.WaitReason]error{
		quorum.WaitNone: ErrNoQuorum, quorum.WaitHeld: ErrHeld, quorum.WaitNoQuorum: ErrNoQuorum, quorum.WaitRefused: ErrRefused, quorum.WaitBusy: ErrBusy,
	} {
		if got := reasonOf(reason); got != want {
			t.Errorf("%d is %v, want %v", reason, got, want)
		}
	}
}

func TestEndedHasTheErrorAndTheCause(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	wantIs(t, contextError(ctx), context.Canceled, why)
	plain, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	if err := contextError(plain); err != context.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}
