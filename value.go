package lockmesh

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// setWait is a call of SetValue under way.
type setWait struct {
	version uint64
	done    chan<- error
}

// SetValue changes the value that others see of the lease, up to 4 KiB. It returns once a majority of the voters has it: whoever inspects
// the key after that sees this value or a newer one.
//
// Errors: ErrOption for a value that is too long; what Err returns if the lease has ended, or ends before; ErrClosed; or ctx's, and then
// the value may still become seen.
func (l *Lease) SetValue(ctx context.Context, value []byte) error {
	l = l.root()
	if len(value) > MaxValueLen {
		return &Error{Op: "setvalue", Key: l.Key(), Reason: ErrOption, Text: fmt.Sprintf("the value has %d bytes, more than %d", len(value), MaxValueLen)}
	}
	value = append([]byte{}, value...)
	return l.inLoop(ctx, "setvalue", func(now vote.Now, done chan<- error) {
		version := l.mesh.loop.node.Set(now, l.number, value)
		if version == 0 { // the node is about to tell that it has ended
			done <- &Error{Op: "setvalue", Key: l.Key(), Reason: ErrLost}
			return
		}
		b := l.more()
		b.value, b.setting = value, append(b.setting, setWait{version, done})
	})
}

// noted answers the calls whose value a majority has.
func (l *Lease) noted(version uint64) {
	if l.busy == nil {
		return
	}
	l.busy.setting = slices.DeleteFunc(l.busy.setting, func(w setWait) bool {
		if w.version <= version {
			w.done <- nil
		}
		return w.version <= version
	})
}
