package sim

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// usage is a way to hold or want a key. A request may have several.
type usage uint8

// The ways.
const (
	usedAlone usage = iota
	usedByReaders
	usedByUpgrade
	usedByDowngraded
	usedByPermits
	usedForLength // a length of its own, and extended
	usedFixed
	usedWithDelay
	usedWithMinHold

	usedEnd
)

var usedNames = [...]string{
	"exclusive", "shared", "upgrade", "downgraded", "permit", "own length", "fixed", "delay", "least hold",
}

func (u usage) String() string { return usedNames[u] }

// uses calls f with each way in which r uses its key.
func (r *Request) uses(f func(usage)) {
	a := &r.Ask
	for _, x := range []struct {
		is bool
		u  usage
	}{
		{r.Mode == vote.Exclusive && r.base == nil, usedAlone}, {r.Mode == vote.Shared && r.shared == 0, usedByReaders}, {r.base != nil, usedByUpgrade},
		{r.shared != 0, usedByDowngraded}, {r.Mode == vote.Permit, usedByPermits}, {a.Length > 0 && !a.Fixed, usedForLength},
		{a.Length > 0 && a.Fixed, usedFixed}, {a.Delay > 0, usedWithDelay}, {a.MinHold > 0, usedWithMinHold},
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
				r.uses(func(u usage) { under[u] = true })
			}
		}
	}
	for u, is := range under {
		if is {
			mk.w.fig.Under[u][f]++
		}
	}
}
