//go:build unix

package admin

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestASocketIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path)
	must(t, err)
	f, err := os.Lstat(path)
	must(t, err)
	if f.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the mode is %v", f.Mode())
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %v", l.Addr())
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the directory has %v", left)
	}
	must(t, l.Close())
	must(t, l.Close())
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// shortDir is t.TempDir with a short path, as sockets need.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lm")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestOnlyAnAbandonedSocketIsReplaced(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	first, err := Listen(path)
	must(t, err)
	if first.Replaced() {
		t.Error("the first socket has replaced another")
	}
	_, err = Listen(path)
	if err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("a socket in use is replaced: %v", err)
	}
	must(t, first.Abandon()) // as after a killed process
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path)
	must(t, err)
	if !second.Replaced() {
		t.Error("the second socket hasn't replaced the first")
	}
	conn, err := net.Dial("unix", path)
	must(t, err)
	must(t, conn.Close())

	// The first listener doesn't remove the socket of the second.
	_ = first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	must(t, second.Close())

	for name, create := range map[string]func(path string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"link":      func(p string) error { return os.Symlink(filepath.Join(dir, "nothing"), p) },
	} {
		p := filepath.Join(dir, name)
		must(t, create(p))
		if _, err := Listen(p); err == nil || !strings.Contains(err.Error(), "isn't a socket") {
			t.Errorf("a %s is replaced: %v", name, err)
		}
	}
}

func TestDirectoriesOfSockets(t *testing.T) {
	dir := shortDir(t)
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o757: false, 0o777: false, 0o777 | os.ModeSticky: true} {
		must(t, os.Chmod(dir, mode))
		l, err := Listen(filepath.Join(dir, "s"))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "mode 0700") {
			t.Errorf("mode %v: %v", mode, err)
		}
		if err == nil {
			must(t, l.Close())
		}
	}
	for _, path := range []string{filepath.Join(dir, "missing", "s"), "@abstract", "a\x00b", filepath.Join(dir, strings.Repeat("x", 100))} {
		if l, err := Listen(path); err == nil {
			t.Errorf("%q is accepted", path)
			l.Close()
		}
	}
	if os.Geteuid() == 0 { // only root can change the owner of a directory
		must(t, os.Chmod(dir, 0o700))
		must(t, os.Chown(dir, 1, -1))
		if _, err := Listen(filepath.Join(dir, "s")); err == nil || !strings.Contains(err.Error(), "belongs to user 1") {
			t.Errorf("the directory of another user is accepted: %v", err)
		}
	}
}

// TestOverARealSocket uses real connections, and a node with voters that are still quiet.
func TestOverARealSocket(t *testing.T) {
	m := meshtest.New(t, 1)
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- Serve(ctx, l, New(m.Node("a"), AllowLocks(lockmesh.DefaultMaxTTL))) }()
	c, err := NewClient("unix:"+path, "")
	must(t, err)
	status, err := c.Status(t.Context())
	must(t, err)
	if status.Name != "a" {
		t.Errorf("the status is of %q", status.Name)
	}
	// A client that waits, and vanishes.
	waits, vanish := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- second(c.Hold(waits, "k", LockOptions{Wait: time.Hour})) }()
	waiting := func() int { return len(m.Node("a").Status().Waiting) }
	for waiting() != 1 {
		time.Sleep(time.Millisecond)
	}
	vanish()
	wantError(t, <-ended, context.Canceled)
	for waiting() != 0 {
		time.Sleep(time.Millisecond)
	}
	events := make(chan error, 1)
	go func() {
		for _, err := range c.WatchElectorate(t.Context()) {
			if err != nil {
				events <- err
				return
			}
			cancel()
		}
	}()
	wantError(t, <-events, ErrStopping)
	must(t, <-served)
	c.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error doesn't name the socket: %v", err)
	}
}
