package lockmesh

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// The disk of these tests neither answers nor fails, like a frozen file system (docs/simulation.md,
// fault 76).

func TestFault76JoinReturnsWithItsContextWhereTheDiskHangs(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.HangDisk(statePath("a"), true)
		const patience = 3 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		p := w.Start()
		cfg := w.config("a")
		cfg.Clock = p.Clock()
		start := time.Now()
		m, err := join(ctx, cfg, p.World())
		if m != nil {
			t.Fatal("it joins without its directory")
		}
		wantIs(t, err, ErrStateDir)
		wantIs(t, err, context.DeadlineExceeded)
		if took := time.Since(start); took != patience {
			t.Errorf("Join returned after %v, want %v", took, patience)
		}
		if !strings.Contains(err.Error(), "the disk of the state directory /state/a did not answer in time") {
			t.Errorf("%v", err)
		}
		w.HangDisk(statePath("a"), false)
		synctest.Wait()
		w.start("a", nil) // the abandoned start has released the directory
	})
}

// hang has a's disk hang, and then gives a something to store: d and e become voters, by the votes
// of b and c; f is on standby. The result is the time since when a has waited for its disk.
func (w *living) hang() (since time.Time) {
	w.t.Helper()
	w.foundAll()
	w.HangDisk(statePath("a"), true)
	w.start("d", nil)
	w.start("e", nil)
	w.start("f", nil)
	since = time.Now()
	w.until("a", "a proposal", func(s ElectorateStatus) bool { since = time.Now(); return s.Change != "" })
	w.until("a", "an electorate that isn't stored", func(s ElectorateStatus) bool { return s.StoredVersion < s.Version })
	return since
}

func TestFault76ADiskThatHangsIsTroubleAndCostsTheVote(t *testing.T) {
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		since := w.hang()
		w.until("a", "trouble", func(s ElectorateStatus) bool { return strings.Contains(s.Trouble, "the disk has not answered for") })
		if took := time.Since(since); took > electorate.SaveLimit(DefaultMaxTTL)+engine.ElectorateEvery {
			t.Errorf("it took %v to tell of the trouble", took)
		}
		w.untilVoters("b", "b", "c", "d", "e", "f")
		// By then a has applied no joint electorate for FailAfter, and the change has drained.
		if took, most := time.Since(since), electorate.FailAfter(DefaultMaxTTL)+DefaultMaxTTL*3/2; took > most {
			t.Errorf("it took %v to vote a out, more than %v", took, most)
		}
		w.unlock(w.lock("a", "k"))
		if n := w.logs.count("level=ERROR", "the disk has not answered for", "on=a"); n != 1 {
			t.Errorf("%d alarms", n)
		}
		w.HangDisk(statePath("a"), false)
		w.until("a", "no trouble", func(s ElectorateStatus) bool { return s.Trouble == "" && s.StoredVersion == s.Version })
		time.Sleep(2 * time.Second)
		if n := w.logs.count("level=INFO", "can be written again", "on=a"); n != 1 {
			t.Errorf("%d lines say that the trouble is over", n)
		}
		w.until("b", "a on standby", func(s ElectorateStatus) bool { return slices.Contains(s.Standby, "a") })
	})
}

func TestFault76LeaveAndCloseDoNotWaitForADiskThatHangs(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(*Mesh, context.Context) error
		most time.Duration
	}{
		{"Close at once", func(m *Mesh, _ context.Context) error { return m.Close() }, engine.DiskCloseTimeout + time.Second},
		{"Close once the disk is known to hang", func(m *Mesh, _ context.Context) error {
			time.Sleep(DefaultMaxTTL)
			return m.Close()
		}, DefaultMaxTTL + time.Second},
		{"Leave", func(m *Mesh, ctx context.Context) error { return m.Leave(ctx) }, 20*time.Second + engine.DiskCloseTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			inLivingBubble(t, func(t *testing.T, w *living) {
				w.hang()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				start := time.Now()
				err := row.end(w.nodes["a"], ctx)
				if took := time.Since(start); took > row.most {
					t.Errorf("it took %v, more than %v", took, row.most)
				}
				wantIs(t, err, ErrStateDir)
				w.meshes = slices.DeleteFunc(w.meshes, func(m *Mesh) bool { return m == w.nodes["a"] })
				w.HangDisk(statePath("a"), false)
				synctest.Wait()
				if _, err := w.try("a", nil); errors.Is(err, ErrStateDir) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
