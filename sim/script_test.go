package sim

import (
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Forge has change alter all messages of a node to others on their way out, as a broken machine or
// program would, without the node's knowledge. A nil change ends the forging. A change must not
// modify memory behind a message's pointers.
func (sc *scenario) Forge(node string, change func(*vote.Message)) {
	if sc.w.net.forge == nil {
		sc.w.net.forge = make(map[*host]func(*vote.Message))
	}
	sc.w.net.forge[sc.w.host(node)] = change
}

// UnderTable returns a Markdown table of how often each fault fired under each way of using keys.
func (f *Figures) UnderTable() string {
	var b strings.Builder
	b.WriteString("| fault |")
	for u := range usedEnd {
		fmt.Fprintf(&b, " %v |", u)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", int(usedEnd)) + "\n")
	for i := range fault.Dynamic {
		if i == fault.Unseen || i == fault.Beyond {
			continue // beyond the assumptions
		}
		fmt.Fprintf(&b, "| %v |", i)
		for u := range usedEnd {
			fmt.Fprintf(&b, " %d |", f.Under[u][i])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// NotFired returns the faults that never took effect.
func (f *Figures) NotFired() []fault.Kind {
	var missing []fault.Kind
	for k, n := range f.Fired {
		if n == 0 {
			missing = append(missing, fault.Kind(k))
		}
	}
	return missing
}
