//go:build linux || darwin

package lockmesh

import (
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// stateFiles has all files used by a node in its state directory.
var stateFiles = []string{"lock", "state", "state.tmp", "peers", "peers.tmp"}

func TestWhatIsNoPlainFileInTheStateDirectoryIsAnError(t *testing.T) {
	for kind, put := range map[string]func(t *testing.T, path string){
		"a named pipe": func(t *testing.T, path string) { t.Helper(); check(t, unix.Mkfifo(path, 0o600)) },
		"a symbolic link": func(t *testing.T, path string) { // a loop
			t.Helper()
			check(t, os.Symlink(filepath.Base(path), path))
		},
		"a symbolic link (to a device)": func(t *testing.T, path string) { t.Helper(); check(t, os.Symlink("/dev/zero", path)) },
		"a device": func(t *testing.T, path string) {
			t.Helper()
			if err := mknodZero(path); err != nil {
				t.Skip("only the superuser makes devices: ", err)
			}
		},
		"a socket": func(t *testing.T, path string) {
			t.Helper()
			here, err := os.Getwd()
			check(t, err)
			check(t, os.Chdir(filepath.Dir(path))) // a socket's path may have some 100 bytes
			l, err := net.Listen("unix", filepath.Base(path))
			check(t, err)
			check(t, os.Chdir(here))
			t.Cleanup(func() { check(t, l.Close()) })
		},
		"a directory": func(t *testing.T, path string) { t.Helper(); check(t, os.Mkdir(path, 0o700)) },
	} {
		for _, name := range stateFiles {
			t.Run(kind+" named "+name, func(t *testing.T) {
				dir := private(t)
				put(t, filepath.Join(dir, name))
				m, err := Join(testwait.Within(t, time.Minute), onDisk(dir, slog.DiscardHandler))
				if m != nil {
					check(t, m.Close())
					t.Fatal("it joins")
				}
				wantIs(t, err, ErrStateDir)
				kind, _, _ := strings.Cut(kind, " (")
				for _, words := range []string{filepath.Join(dir, name), "it is no plain file but " + kind, "remove"} {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("%q isn't in: %v", words, err)
					}
				}
			})
		}
	}
}

func TestALoopInTheStateDirectorysOwnPathIsAnError(t *testing.T) {
	loop := filepath.Join(private(t), "loop")
	check(t, os.Symlink("loop", loop))
	_, err := Join(testwait.Within(t, time.Minute), onDisk(filepath.Join(loop, "state"), slog.DiscardHandler))
	wantIs(t, err, ErrStateDir)
}

func TestModesWiderThanTheOwnersAreWarnedOf(t *testing.T) {
	sampled.Computes(t)
	dir := private(t)
	logs := &logged{}
	for _, row := range []struct{ file, chmod string }{{"", ""}, {".", "chmod 700 " + dir}, {"state", "chmod 600 " + filepath.Join(dir, "state")}} {
		if row.file != "" {
			check(t, os.Chmod(filepath.Join(dir, row.file), 0o755))
		}
		m, err := Join(testwait.Within(t, time.Minute), onDisk(dir, slog.NewTextHandler(logs, nil)))
		check(t, err)
		check(t, m.Ready(testwait.Within(t, time.Minute))) // now the directory has a state
		check(t, m.Close())
		if row.file == "" {
			if n := logs.count("chmod"); n != 0 {
				t.Errorf("%d warnings of what the node has made itself", n)
			}
		} else if n := logs.count("level=WARN", row.chmod); n != 1 {
			t.Errorf("%d lines say %q", n, row.chmod)
		}
		check(t, os.Chmod(dir, 0o700))
	}
}

// The file of addresses met in earlier processes has lines that name no other node: edited by hand,
// or told by a faulty member. The node starts, and looks at the remaining addresses.
func TestSavedAddressesThatNameNoNodeAreIgnored(t *testing.T) {
	sampled.Computes(t)
	dir := private(t)
	lines := "0.0.0.0:7000\n[::]:7000\n127.0.0.1:0\ndns::7000\ndns:saved.invalid:7000\nfile:\nnonsense\n127.0.0.1:1\n"
	check(t, os.WriteFile(filepath.Join(dir, "peers"), []byte(lines), 0o600))
	logs := &logged{}
	m, err := Join(testwait.Within(t, time.Minute), onDisk(dir, slog.NewTextHandler(logs, nil)))
	check(t, err)
	check(t, m.Ready(testwait.Within(t, time.Minute)))
	check(t, m.Close())
	if n := logs.count("saved.invalid"); n != 0 {
		t.Errorf("a name was looked up: %d lines", n)
	}
}

// private returns a directory readable by its owner only.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o700))
	return dir
}

// onDisk returns the configuration of a node that bootstraps an electorate alone.
func onDisk(dir string, log slog.Handler) Config {
	return Config{
		Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a"}, MaxTTL: MinTTL, StateDir: dir, Bootstrap: true, Secret: []byte(rand.Text()), Logger: slog.New(log),
	}
}
