//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows

package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// holdEnv makes the test's program a process that opens the directory in the variable, prints the
// outcome, and waits for the end of its input.
const holdEnv = "LOCKMESH_TEST_HOLD_STATEDIR"

// patience bounds every wait. Only a hang takes so long.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

func hold(path string) {
	_, err := Open(path) // never closed: the end of the process must release the lock
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// holder starts another process that opens the directory. holder returns the process, and the
// outcome printed by the process.
func holder(t *testing.T, path string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	cmd.Stderr = os.Stderr
	// The system closes stdin if this process dies, so the other process ends, too.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the other process says %q, %v", said, err)
	}
	return cmd, strings.TrimSpace(said)
}

func TestASecondProcessIsKeptOutUntilTheFirstIsKilled(t *testing.T) {
	path := t.TempDir()
	first, said := holder(t, path)
	if said != "<nil>" {
		t.Fatalf("the first process can't open it: %s", said)
	}
	_, err := Open(path)
	wantError(t, "while it is held", err, ErrLocked, path, adviceLocked)

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // an error, since the process was killed
	var d *Dir
	// Windows releases the locks of a dead process only after a while.
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if d, err = Open(path); err == nil {
			break
		}
		if !errors.Is(err, ErrLocked) || time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	defer d.Close()

	if _, said := holder(t, path); !strings.Contains(said, ErrLocked.Error()[len("statedir: "):]) {
		t.Errorf("another process opens it, too: %s", said)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, said := holder(t, path); said != "<nil>" {
		t.Errorf("once it is closed another process can't open it: %s", said)
	}
}
