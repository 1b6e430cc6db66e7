package statedir

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

var where = absolute("/var/lib/lockmesh/a")

// sample is a possible state of a node after a few elections.
func sample(writes uint64) *vote.DiskState {
	voters := []vote.Elector{{Name: "a", Dir: 11}, {Name: "b", Dir: 12}, {Name: "c", Dir: 13}}
	grown := append(voters[:3:3], vote.Elector{Name: "d", Dir: 14})
	return &vote.DiskState{
		Mesh: "default", Name: "a", Dir: 11, Writes: writes,
		Electorate: vote.Electorate{Version: 4, Lineage: 7, Voters: voters, MinToken: 99},
		Promised:   vote.Ballot{Counter: 3, By: 12},
		Accepted:   vote.Ballot{Counter: 2, By: 11},
		Value:      vote.Electorate{Version: 5, Lineage: 7, Voters: grown, Old: voters, MinToken: 99},
		Pledge:     voters,
	}
}

// fresh is the state of a new node.
func fresh() *vote.DiskState { return &vote.DiskState{Mesh: "default", Name: "a", Dir: 11, Writes: 1} }

func mustOpen(t *testing.T, m *memory) *Dir {
	t.Helper()
	d, err := open(m, where)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustLoad(t *testing.T, d *Dir) *vote.DiskState {
	t.Helper()
	st, found, err := d.Load("default", "a")
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return nil
	}
	return &st
}

// started returns a disk with a saved state, nil for none, and its open directory.
func started(t *testing.T, st *vote.DiskState) (*memory, *Dir) {
	t.Helper()
	m := newMemory()
	d := mustOpen(t, m)
	mustLoad(t, d)
	if st != nil {
		if err := d.Save(st); err != nil {
			t.Fatal(err)
		}
	}
	return m, d
}

func same(a, b *vote.DiskState) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

func TestACrashAtAnyStepLeavesTheOldStateOrTheNew(t *testing.T) {
	for _, old := range []*vote.DiskState{nil, fresh(), sample(1)} {
		crashes, olds, news := 0, 0, 0
		for k, done := 0, false; !done; k++ {
			m, d := started(t, old)
			next := sample(2)
			before := len(m.steps)
			m.stopAt = before + k
			err := d.Save(next)
			done = len(m.steps) < m.stopAt // Save ended before the stop
			if done && err != nil {
				t.Fatal(err)
			}
			for label, after := range m.restarts() {
				crashes++
				at := fmt.Sprintf("old %v, stopped after %v, %s", old != nil, m.steps[before:], label)
				d := mustOpen(t, after)
				if left := after.left(where); strings.Contains(left, tempFile) {
					t.Errorf("%s: open leaves %s", at, left)
				}
				st, found, loadErr := d.Load("default", "a")
				switch {
				case loadErr != nil:
					t.Errorf("%s: %v", at, loadErr)
					continue
				case found && same(&st, next):
					news++
				case err == nil:
					t.Errorf("%s: what was saved is lost", at)
				case found != (old != nil) || found && !same(&st, old):
					t.Errorf("%s: loads %+v, %v", at, st, found)
				default:
					olds++
				}
				if err := d.Save(sample(3)); err != nil {
					t.Errorf("%s: it can't be saved again: %v", at, err)
				}
			}
		}
		t.Logf("old %v: %d crashes, of which %d leave the old state and %d the new", old != nil, crashes, olds, news)
		if olds == 0 || news == 0 {
			t.Error("one of both was never found: the test shows nothing")
		}
	}
}

func TestACrashWhileOpenLeavesADirectoryThatOpens(t *testing.T) {
	for k, done := 0, false; !done; k++ {
		m := newMemory()
		m.stopAt = k
		_, err := open(m, where)
		done = err == nil
		for label, after := range m.restarts() {
			d := mustOpen(t, after)
			if st := mustLoad(t, d); st != nil {
				t.Errorf("%v, %s: there is a state", m.steps, label)
			}
			if err := d.Save(fresh()); err != nil {
				t.Errorf("%v, %s: %v", m.steps, label, err)
			}
		}
	}
}

// A new directory lost in a power loss would take the state with it.
func TestAStateInADirectoryJustMadeOutlivesALossOfPower(t *testing.T) {
	m, _ := started(t, fresh())
	for label, after := range m.restarts() {
		if st := mustLoad(t, mustOpen(t, after)); !same(st, fresh()) {
			t.Errorf("%s: loads %+v", label, st)
		}
	}
}

// The process that makes the directory may be killed, or fail, before the directory is synced into
// its parent. The next process finds the directory, and must not take it for safe.
func TestAStateInADirectoryMadeByAnEarlierTryOutlivesALossOfPower(t *testing.T) {
	broken := errors.New("input/output error")
	for k, done := 0, false; !done; k++ {
		for how, spoil := range map[string]func(m *memory){
			"stopped": func(m *memory) { m.stopAt = k },
			"failed": func(m *memory) {
				m.fail = func(string, string) error {
					if len(m.steps) == k+1 {
						return broken
					}
					return nil
				}
			},
		} {
			m := newMemory()
			spoil(m)
			if d, err := open(m, where); err == nil {
				done = true
				d.Close()
			}
			tried := strings.Join(m.steps, ", ")
			m.stopAt, m.fail, m.held = -1, nil, map[string]bool{}
			d := mustOpen(t, m)
			mustLoad(t, d)
			if err := d.Save(fresh()); err != nil {
				t.Fatal(err)
			}
			for label, after := range m.restarts() {
				if st := mustLoad(t, mustOpen(t, after)); !same(st, fresh()) {
					t.Errorf("%s: %s; then saved, %s: loads %+v", how, tried, label, st)
				}
			}
		}
	}
}

func TestAFailedSaveLeavesTheOldStateAndSavingAgainMendsIt(t *testing.T) {
	full, broken, readOnly := errors.New("no space left on device"), errors.New("input/output error"), errors.New("read-only file system")
	for _, c := range []struct {
		op, path string
		err      error
		text     string
	}{
		{"create", tempFile, readOnly, "the new state can't be begun"},
		{"write", tempFile, full, "the new state can't be written"},
		{"sync", tempFile, broken, "the new state can't be synced"},
		{"close", tempFile, full, "the new state can't be finished"},
		{"rename", tempFile, broken, "the new state can't be put in the place of the old one"},
		{"remove", tempFile, readOnly, "the new state can't be begun, since the temporary file of an earlier try can't be removed"},
	} {
		// stuck: the temporary file can't be removed either.
		for _, stuck := range []bool{false, true} {
			m, d := started(t, sample(1))
			m.fail = func(op, path string) error {
				if op == c.op && path == c.path || stuck && op == "remove" && m.seen[d.in(tempFile)] != nil {
					return c.err
				}
				return nil
			}
			at := fmt.Sprintf("%s fails, stuck %v", c.op, stuck)
			err := d.Save(sample(2))
			wantError(t, at, err, ErrIO, d.in(stateFile), c.text, adviceWrite, c.err.Error())
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v doesn't wrap the system's error", at, err)
			}
			if st := mustLoad(t, d); !same(st, sample(1)) {
				t.Errorf("%s: loads %+v", at, st)
			}
			if left := m.left(where); !stuck && left != stateFile {
				t.Errorf("%s: leaves %s", at, left)
			}
			for label, after := range m.restarts() {
				if st := mustLoad(t, mustOpen(t, after)); !same(st, sample(1)) {
					t.Errorf("%s, %s: loads %+v", at, label, st)
				}
			}
			m.fail = nil
			if err := d.Save(sample(3)); err != nil {
				t.Errorf("%s, then not any more: %v", at, err)
			}
			for label, after := range m.restarts() {
				if st := mustLoad(t, mustOpen(t, after)); !same(st, sample(3)) {
					t.Errorf("%s, then not any more, %s: loads %+v", at, label, st)
				}
			}
		}
	}
}

func TestAFailedSyncOfTheDirectoryLeavesEitherAndIsSaid(t *testing.T) {
	broken := errors.New("input/output error")
	m, d := started(t, sample(1))
	m.fail = func(op, _ string) error {
		if op == "syncdir" {
			return broken
		}
		return nil
	}
	wantError(t, "save", d.Save(sample(2)), ErrIO, d.in(stateFile), "the new state is in place, but its directory can't be synced", adviceSync)
	found := map[uint64]bool{}
	for _, after := range m.restarts() {
		found[mustLoad(t, mustOpen(t, after)).Writes] = true
	}
	if len(found) != 2 || !found[1] || !found[2] {
		t.Errorf("after a loss of power it has states %v, want 1 or 2", found)
	}
	m.fail = nil
	if err := d.Save(sample(3)); err != nil {
		t.Fatal(err)
	}
	for label, after := range m.restarts() {
		if st := mustLoad(t, mustOpen(t, after)); !same(st, sample(3)) {
			t.Errorf("%s: loads %+v", label, st)
		}
	}
}

func TestWhatMustNotBeSavedIsNot(t *testing.T) {
	other := sample(2)
	other.Name = "b"
	senseless := sample(2)
	senseless.Dir = 0
	for name, c := range map[string]struct {
		do   func(d *Dir, m *memory) error
		want error
		text []string
	}{
		"before it is loaded": {func(_ *Dir, m *memory) error {
			m.held = map[string]bool{}
			d := mustOpen(t, m)
			return d.Save(sample(2))
		}, ErrMisuse, []string{"the existing state hasn't been loaded"}},
		"after a failed load": {func(d *Dir, _ *memory) error {
			if _, _, err := d.Load("default", "b"); err == nil {
				t.Error("another node's state is loaded")
			}
			return d.Save(sample(2))
		}, ErrMisuse, []string{"the existing state hasn't been loaded"}},
		"another node's": {func(d *Dir, _ *memory) error { return d.Save(other) }, ErrMisuse, []string{`of mesh "default", node "b"`, `node "a"`}},
		"senseless":      {func(d *Dir, _ *memory) error { return d.Save(senseless) }, ErrMisuse, []string{"the directory has no identity", adviceReport}},
		"closed": {func(d *Dir, _ *memory) error {
			d.Close()
			return d.Save(sample(2))
		}, ErrMisuse, []string{"closed"}},
		"without the lock": {func(d *Dir, m *memory) error {
			m.seen[d.in(lockFile)] = &inode{}
			return d.Save(sample(2))
		}, ErrLocked, []string{"removed or replaced", adviceReplaced}},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := started(t, sample(1))
			wantError(t, name, c.do(d, m), c.want, append(c.text, where)...)
			m.held = map[string]bool{}
			if st := mustLoad(t, mustOpen(t, m)); !same(st, sample(1)) {
				t.Errorf("loads %+v", st)
			}
		})
	}
}

// wantError fails the test unless the error is of this package, for the given reason alone, and has
// these texts.
func wantError(t *testing.T, at string, err, reason error, texts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: %v (%T), want an *Error", at, err, err)
		return
	}
	for _, r := range []error{ErrCorrupt, ErrForeign, ErrFormat, ErrLocked, ErrIO, ErrMisuse} {
		if errors.Is(err, r) != (r == reason) {
			t.Errorf("%s: %v: is %v: %v", at, err, r, errors.Is(err, r))
		}
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s:\n%v\ndoesn't say %q", at, err, text)
		}
	}
	if e.Advice == "" || !strings.HasSuffix(err.Error(), "; "+e.Advice) {
		t.Errorf("%s: %v: no advice", at, err)
	}
}
