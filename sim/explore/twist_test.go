package explore

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// specs applies f to every request spec sent to a voter.
func specs(f func(w *vote.Spec)) func(m *vote.Message) {
	return func(m *vote.Message) {
		switch m.Kind {
		case vote.KindRequest:
			f(&m.Spec)
		case vote.KindSync:
			for i := range m.Entries {
				f(&m.Entries[i].Spec)
			}
		}
	}
}

// modeless is a voter that treats an exclusive request as a shared request.
var modeless = shared(broken.Twists(specs(func(w *vote.Spec) {
	if w.Mode == vote.Exclusive {
		w.Mode = vote.Shared
	}
}), nil))

// slotless is a voter that only counts its votes, and names slot 1 in each vote.
var slotless = shared(broken.Twists(func(m *vote.Message) {
	if m.Kind.ToVoter() {
		m.Slot = 0
		for i := range m.Entries {
			m.Entries[i].Slot = 0
		}
	}
}, func(m *vote.Message) {
	if m.Kind == vote.KindPromise {
		m.Slot = 1
	}
	for i := range m.Entries {
		if m.Kind == vote.KindAnswer {
			m.Entries[i].Slot = 1
		}
	}
}))

// impatient is a voter that treats an upgrade as a shared request: other readers may stay.
var impatient = shared(broken.Twists(specs(func(w *vote.Spec) {
	if w.Beside != 0 {
		w.Mode, w.Beside = vote.Shared, 0
	}
}), nil))

// polite is a voter that turns no upgrade away.
var polite = shared(broken.Twists(nil, func(m *vote.Message) {
	if m.Kind == vote.KindClash {
		m.Kind, m.Serial = vote.KindInquire, 1<<40 // about a vote that doesn't exist
	}
}))
