package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// These tests use the real disk; failures of the disk are tested in memory.

func mustOpenReal(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestWhatWasSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "over", "here")
	d := mustOpenReal(t, path)
	if st := mustLoad(t, d); st != nil {
		t.Fatalf("a new directory has a state: %+v", st)
	}
	for writes := range uint64(3) {
		if err := d.Save(sample(writes + 1)); err != nil {
			t.Fatal(err)
		}
		if st := mustLoad(t, d); !same(st, sample(writes+1)) {
			t.Errorf("loads %+v", st)
		}
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	_, _, err := d.Load("default", "a")
	wantError(t, "load once closed", err, ErrMisuse, "closed")
	if err := os.WriteFile(filepath.Join(path, tempFile), []byte("what a crash has left"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := mustLoad(t, mustOpenReal(t, path)); !same(st, sample(3)) {
		t.Errorf("loads %+v", st)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 2 || entries[0].Name() != lockFile || entries[1].Name() != stateFile {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	if runtime.GOOS == "windows" {
		return // Windows has no such modes
	}
	for name, want := range map[string]os.FileMode{".": dirMode, "..": dirMode, stateFile: fileMode, lockFile: fileMode} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestTheDirectoryIsFoundAfterAChangeOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	d := mustOpenReal(t, "here")
	mustLoad(t, d)
	if err := d.Save(fresh()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := d.Save(sample(2)); err != nil {
		t.Fatal(err)
	}
	if st := mustLoad(t, d); !same(st, sample(2)) {
		t.Errorf("loads %+v", st)
	}
}

func TestALinkToADirectoryIsFollowed(t *testing.T) {
	base := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(base, "link")); err != nil {
		t.Skip("no links here: ", err)
	}
	mustLoad(t, mustOpenReal(t, filepath.Join(base, "link")))
}

func TestOpenSaysWhyItCannot(t *testing.T) {
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(base, "file"))
	wantError(t, "a file", err, ErrIO, filepath.Join(base, "file"), "it is a file, not a directory", adviceDir)
	_, err = Open(filepath.Join(base, "file", "below"))
	wantError(t, "below a file", err, ErrIO, adviceDir)
	_, err = Open("")
	wantError(t, "no name", err, ErrMisuse, "the directory has no name")

	denied := errors.New("permission denied")
	for _, c := range []struct{ op, path, text, advice string }{
		{"stat", "lockmesh", "it can't be reached", adviceDir},
		{"mkdir", "a", "it can't be created", adviceDir},
		{"syncdir", "lockmesh", "the directory created in it can't be synced", adviceSyncDir},
		{"lock", lockFile, "the directory can't be locked", adviceLock},
		{"remove", tempFile, "the temporary file left by a crash can't be removed", adviceDir},
	} {
		m := newMemory()
		m.fail = func(op, path string) error {
			if op == c.op && path == c.path {
				return denied
			}
			return nil
		}
		_, err := open(m, where)
		wantError(t, c.op, err, ErrIO, c.text, c.advice, "permission denied")
		if !errors.Is(err, denied) {
			t.Errorf("%s: %v doesn't wrap the system's error", c.op, err)
		}
		if len(m.held) > 0 {
			t.Errorf("%s: the lock is kept", c.op)
		}
	}
}

func TestLoadSaysWhyItCannot(t *testing.T) {
	broken := errors.New("input/output error")
	for op, text := range map[string]string{"stat": "it can't be reached", "read": "it can't be read"} {
		m, d := started(t, sample(1))
		m.fail = func(o, _ string) error {
			if o == op {
				return broken
			}
			return nil
		}
		_, found, err := d.Load("default", "a")
		wantError(t, op, err, ErrIO, d.in(stateFile), text, adviceRead, broken.Error())
		if found {
			t.Errorf("%s: found", op)
		}
	}
}

// Save would replace a link, and leave the link's target as before; reading a pipe would never end.
func TestAStateThatIsNoPlainFileIsRefused(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"pipe":      makePipe,
	} {
		t.Run(name, func(t *testing.T) {
			d := mustOpenReal(t, t.TempDir())
			if err := put(d.in(stateFile)); err != nil {
				t.Skip("not here: ", err)
			}
			_, _, err := d.Load("default", "a")
			wantError(t, name, err, ErrCorrupt, "it is no plain file", adviceCorrupt)
		})
	}
}
