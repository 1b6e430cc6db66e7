//go:build hunt && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestACommandOfAnotherUser: a run of an ordinary user can't end a command that has become root's.
// The user learns so, and the run ends with its command.
func TestACommandOfAnotherUser(t *testing.T) {
	const nobody = 65534
	if os.Geteuid() != 0 {
		t.Skip("!!!! SKIPPED: a command as of sudo is NOT checked, since this needs root")
	}
	b := newBench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	ordinary, sudo := filepath.Join(b.dir, "ordinary"), filepath.Join(b.dir, "sudo")
	for path, mode := range map[string]os.FileMode{ordinary: 0o755, sudo: 0o755 | os.ModeSetuid} {
		if err := os.WriteFile(path, program, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{b.dir, b.socket} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	p := b.program(ordinary, "run", "k", "--", "env", asRoot+"=1", sudo)
	p.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	in := p.pipe(b)
	p.start()
	p.prints("works as root")
	b.wants(0, "evict", "k", "--node", b.node())
	p.complains("processes of another user, as sudo starts them, can't be ended from here")
	in.Close()
	if code := p.waitInTime(); code != 79 || strings.Contains(p.err.String(), "killed") || !strings.Contains(p.out.String(), "has worked") {
		t.Errorf("the run ends with %d, and complains %s", code, p.err.String())
	}
	if strings.Count(p.err.String(), "can't be ended") != 1 {
		t.Errorf("the run complains %s", p.err.String())
	}
}
