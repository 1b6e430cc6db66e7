package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Extend moves the end of a lease [WithoutRenewal]: the lease lasts until d from now, or until its
// present end if that is later. Extend returns nil once a majority of the voters has confirmed the
// extension; then [Lease.Deadline] is the new end.
//
// If d is no longer than the length with which the lease was requested, the lease outlives a crash
// of its node until then, by that length at most. If d is longer, the node keeps the lease up until
// then, and if the node crashes, the lease ends within that length.
//
// Errors: ErrOption if d isn't positive, or if the lease renews itself and so has no end to move;
// the error of Err if the lease has ended, or ends before the voters have confirmed; ErrClosed;
// ErrNoQuorum and ctx's error if ctx ends first, after which the lease may last longer or not.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	l.checkUsable("Lease.Extend")
	checkContext(ctx, "Lease.Extend")
	wrong := func(text string) error { return &Error{Op: "extend", Key: l.Key(), Reason: ErrOption, Text: text} }
	switch {
	case d <= 0:
		return wrong(fmt.Sprintf("%v isn't a positive time from now; Unlock ends a lease", d))
	case l.core().RenewsItself():
		return wrong("the lease renews itself until it is unlocked; only a lease acquired " +
			"WithoutRenewal can be extended")
	}
	err := l.core().Extend(ctx, l.Err, d)
	var late *Error
	if errors.As(err, &late) && late.Reason == nil { // ctx has ended
		late.Reason, late.Text = ErrNoQuorum, "no majority of the voters has confirmed the extension yet"
	}
	return err
}
