//go:build !linux && !darwin

package clock

import "time"

// sleeplessRef takes the place of a clock that continues while the machine is suspended; the
// systems of this file have no common way to read such a clock.
//
// Go's monotonic clock is used instead. This clock may stop during sleep; then the wall clock shows
// the time asleep (see [systemClock]), and a holder learns on waking of the loss of its lease. The
// fallback can't see a sleep if the wall clock is also set back by as long during the sleep.
// Fencing tokens protect against this case.
type sleeplessRef struct{}

func readSleepless() sleeplessRef { return sleeplessRef{} }

func (sleeplessRef) exists() bool { return false }

func (sleeplessRef) since(monotonic time.Duration) time.Duration { return monotonic }
