//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package admin

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockTime is how long another call of Listen may take: dialTime, and some more.
	lockTime = 3 * time.Second

	lockPause = 10 * time.Millisecond // between tries
)

// lockDir keeps other processes from replacing a socket in the directory at the same time: two
// processes that find the same abandoned socket would both replace the socket, and the first would
// be cut off from its clients. The lock lasts until the returned function is called, or the process
// ends. A process with the lock for longer than lockTime is no call of Listen, and doesn't matter.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for limit := time.Now().Add(lockTime); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || err == unix.EWOULDBLOCK && time.Now().After(limit):
			return func() { f.Close() }, nil
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			f.Close()
			return nil, fmt.Errorf("can't lock the directory: %w", err)
		}
	}
}
