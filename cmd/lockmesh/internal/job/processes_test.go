//go:build linux

package job

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestReadStat(t *testing.T) {
	for text, want := range map[string]stat{
		"12 (sh) S 3 4 5 0 -1":               {parent: 3, group: 4, session: 5},
		"12 (a) R 9 9 9 (b) Z 3 4 5 0 -1":    {ended: true, parent: 3, group: 4, session: 5},
		"12 (x\n y) X 1 2 3":                 {ended: true, parent: 1, group: 2, session: 3},
		"12 () T 1 2 3 34816 4 4194304 0":    {parent: 1, group: 2, session: 3},
		"1 ((((sd-pam))))) S 1 2 3 34816 45": {parent: 1, group: 2, session: 3},
	} {
		if s, ok := readStat([]byte(text)); !ok || s != want {
			t.Errorf("%q is read as %+v, %v", text, s, ok)
		}
	}
	for _, text := range []string{"", "12", "12 (sh", "12 (sh)", "12 (sh) S", "12 (sh) S 1 2", "12 (sh) S 1 x 3"} {
		if s, ok := readStat([]byte(text)); ok {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := readStat(text); !ok || s.ended || s.parent != os.Getppid() {
		t.Errorf("this process is read as %+v", s)
	}
}

func TestMarks(t *testing.T) {
	for env, want := range map[string][]string{
		"A=1\x00" + MarkVariable + "=X\x00B=" + MarkVariable + "=Q\x00": {"X"},
		MarkVariable + "=X:Y\x00":      {"X", "Y"},
		"B=" + MarkVariable + "=Q\x00": nil,
	} {
		if got := marks([]byte(env)); !slices.Equal(got, want) {
			t.Errorf("%q has the marks %q", env, got)
		}
	}
	env := []string{"A=1"}
	for _, want := range []string{"X", "X:Y"} {
		env = marked(env, want[len(want)-1:])
		if !slices.Equal(env, []string{"A=1", MarkVariable + "=" + want}) {
			t.Errorf("the environment is %q", env)
		}
	}
	for _, name := range []string{"SECRET", "SECRET_FILE", "ADMIN_TOKEN", "ADMIN_TOKEN_FILE", "RESP_PASSWORD", "RESP_PASSWORD_FILE", "REGISTER_TOKEN"} {
		env = append(env, "LOCKMESH_"+name+"=kQ7vXw2-first-hB9zLm4TgY8s")
	}
	if env = withoutMesh(env); !slices.Equal(env, []string{"A=1"}) {
		t.Errorf("the guard's environment is %q", env)
	}
}

// TestProcessesOfAnotherUser: the system refuses the signal, and kill returns the process.
func TestProcessesOfAnotherUser(t *testing.T) {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	sendSignal = func(int, syscall.Signal) error { return unix.EPERM }
	defer func() { sendSignal = unix.Kill }()
	pid := c.Process.Pid
	if foreign := kill(pid, "no mark"); !slices.Equal(foreign, []int{pid}) {
		t.Errorf("of another user are %v, not %d", foreign, pid)
	}
	sendSignal = unix.Kill
	if foreign := kill(pid, "no mark"); len(foreign) > 0 {
		t.Errorf("of another user are %v", foreign)
	}
	_ = c.Wait()
}

func TestPause(t *testing.T) {
	for since, want := range map[time.Time]time.Duration{
		time.Now().Add(time.Hour): LookPause, time.Now().Add(-time.Hour): LongestPause,
	} {
		if got := Pause(since); got != want {
			t.Errorf("%v after the first look the pause is %v", time.Since(since), got)
		}
	}
}
