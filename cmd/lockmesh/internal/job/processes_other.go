//go:build unix && !linux

package job

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the command run in a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// setName does nothing: on this system a process has the name of its program.
func setName(string) {}

// processes returns the group if a process of the group runs. This system has no list of processes,
// so processes outside of the group aren't found.
func processes(group int, _ string) []int {
	if unix.Kill(-group, 0) == nil {
		return []int{-group}
	}
	return nil
}

// ownProcesses does the same as processes.
func ownProcesses(group int, mark string) []int { return processes(group, mark) }
