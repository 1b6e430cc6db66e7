//go:build !linux

package lockmesh

import "time"

// sleeplessRef stands for a clock that goes on while the machine is suspended, which this file's systems don't offer in one way.
//
// Go's monotonic clock takes its place. It stops during sleep on macOS and may on others; then it is the wall clock that shows the
// time asleep (see [systemClock]), and a holder learns on waking that its lease is lost. What this fallback can't see: a sleep
// during which somebody also set the wall clock back by as long. The token is for that.
type sleeplessRef struct{}

func readSleepless() sleeplessRef { return sleeplessRef{} }

func (sleeplessRef) since(monotonic time.Duration) time.Duration { return monotonic }
