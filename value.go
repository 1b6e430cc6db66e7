package lockmesh

import (
	"context"
	"fmt"
)

// SetValue changes the value shown to others with the lease, up to 4 KiB. It returns once a
// majority of the voters has the value: every later Inspect of the key shows this value or a newer
// value.
//
// Errors: ErrOption for a value that is too long; the error of Err if the lease has ended, or ends
// before; ErrClosed; or ctx's, after which the value may still become visible.
func (l *Lease) SetValue(ctx context.Context, value []byte) error {
	l.checkUsable("Lease.SetValue")
	checkContext(ctx, "Lease.SetValue")
	if len(value) > MaxValueLen {
		return &Error{Op: "setvalue", Key: l.Key(), Reason: ErrOption, Text: fmt.Sprintf("the value has %d bytes, more than %d", len(value), MaxValueLen)}
	}
	return l.core().SetValue(ctx, l.Err, append([]byte{}, value...))
}
