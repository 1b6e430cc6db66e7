package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// ShrinkCommand returns the command to run a seed as [Draw] draws the world, or as further flags
// say, and to shrink a failing run.
func ShrinkCommand(seed uint64, length time.Duration, flags ...string) string {
	all := append([]string{fmt.Sprintf("go run ./sim/cmd/lockmesh-sim -seed %d", seed)}, flags...)
	return fmt.Sprintf("%s -seconds %v -shrink shrunk", strings.Join(all, " "), length.Seconds())
}

// Tally sums up the figures of concurrent runs.
type Tally struct {
	mu   sync.Mutex
	f    Figures
	busy time.Duration
}

// Add adds a run that kept a processor busy for the given time.
func (t *Tally) Add(f Figures, busy time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.f.Add(f)
	t.busy += busy
}

// Figures returns the sum.
func (t *Tally) Figures() Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.f
}

func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.f.Table(t.busy)
}
