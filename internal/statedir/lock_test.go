package statedir

import (
	"os"
	"testing"
)

func TestASecondOpenFails(t *testing.T) {
	path := t.TempDir()
	d := mustOpenReal(t, path)
	_, err := Open(path)
	wantError(t, "second open", err, ErrLocked, path, "another process has it open, or another node of this process", adviceLocked)
	mustOpenReal(t, t.TempDir()) // another directory is free
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpenReal(t, path)
	if err := d.Close(); err != nil { // must not release the new lock
		t.Fatal(err)
	}
	_, err = Open(path)
	wantError(t, "open after a double close", err, ErrLocked)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpenReal(t, path)
}

func TestALockThatWasRemovedIsNoticed(t *testing.T) {
	path := t.TempDir()
	d := mustOpenReal(t, path)
	mustLoad(t, d)
	if err := d.Save(sample(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.in(lockFile)); err != nil {
		t.Skip("a locked file can't be removed here: ", err)
	}
	wantError(t, "no lock", d.Save(sample(2)), ErrLocked, d.in(lockFile), "removed or replaced", adviceReplaced)
	second := mustOpenReal(t, path)
	wantError(t, "another's lock", d.Save(sample(2)), ErrLocked, d.in(lockFile), "removed or replaced", adviceReplaced)
	if st := mustLoad(t, second); !same(st, sample(1)) {
		t.Errorf("loads %+v", st)
	}
}
