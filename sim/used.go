package sim

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Used is a way to hold or want a key. A request may have several.
type Used uint8

// The ways.
const (
	UsedAlone Used = iota
	UsedByReaders
	UsedByUpgrade
	UsedByDowngraded
	UsedByPermits
	UsedForLength // a length of its own, and extended
	UsedFixed
	UsedWithDelay
	UsedWithMinHold

	usedEnd
)

var usedNames = [...]string{
	"exclusive", "shared", "upgrade", "downgraded", "permit", "own length", "fixed", "delay", "least hold",
}

func (u Used) String() string { return usedNames[u] }

// uses calls f with each way in which r uses its key.
func (r *Request) uses(f func(Used)) {
	a := &r.Ask
	for _, x := range []struct {
		is bool
		u  Used
	}{
		{r.Mode == vote.Exclusive && r.base == nil, UsedAlone}, {r.Mode == vote.Shared && r.shared == 0, UsedByReaders}, {r.base != nil, UsedByUpgrade},
		{r.shared != 0, UsedByDowngraded}, {r.Mode == vote.Permit, UsedByPermits}, {a.Length > 0 && !a.Fixed, UsedForLength},
		{a.Length > 0 && a.Fixed, UsedFixed}, {a.Delay > 0, UsedWithDelay}, {a.MinHold > 0, UsedWithMinHold},
	} {
		if x.is {
			f(x.u)
		}
	}
}

// firedUnder counts a fired fault for each way in which any key is held or wanted at the time.
func (mk *marker) firedUnder(f fault.Kind) {
	var under [usedEnd]bool
	for _, k := range mk.w.judge.lockKeys {
		for _, list := range [][]*Request{k.holds, k.waits} {
			for _, r := range list {
				r.uses(func(u Used) { under[u] = true })
			}
		}
	}
	for u, is := range under {
		if is {
			mk.w.fig.Under[u][f]++
		}
	}
}
