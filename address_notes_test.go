package lockmesh

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/world"
)

// fullFor is a state directory on a disk without room for addresses for a number of writes.
type fullFor struct {
	world.StateDir
	fails *atomic.Int64 // the number of further failures
}

func (d fullFor) SavePeers(addrs []string) error {
	if d.fails.Add(-1) >= 0 {
		return errors.New("no space left on device")
	}
	return d.StateDir.SavePeers(addrs)
}

// The mesh doesn't change for long, so no news would have the addresses written again.
func TestWhereOthersAreIsNotedOnceADiskThatWasFullHasRoom(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		var fails atomic.Int64
		fails.Store(3)
		p := w.Start()
		in := p.World()
		open := in.State
		in.State = func(path string) (world.StateDir, error) {
			d, err := open(path)
			return fullFor{d, &fails}, err
		}
		w.start("b", found)
		w.start("c", found)
		cfg := w.config("a")
		cfg.Clock, cfg.Bootstrap = p.Clock(), true
		m, err := join(t.Context(), cfg, in)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		d, err := open(statePath("a"))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if got, want := d.Peers(), []string{wireAddr("b"), wireAddr("c")}; !slices.Equal(got, want) {
			t.Errorf("a minute later %v are noted, want %v", got, want)
		}
	})
}
