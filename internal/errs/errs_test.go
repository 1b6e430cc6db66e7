package errs

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTheErrorOfAContextHasItsCause(t *testing.T) {
	why := errors.New("why")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := OfContext(canceled); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	if err := OfContext(late); err != context.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	waited, end := context.WithCancelCause(t.Context())
	end(WaitTimeout)
	if err := OfContext(waited); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
