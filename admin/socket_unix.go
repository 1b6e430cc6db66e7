//go:build unix

package admin

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// dialTime is how long a process may take to answer on a socket before a replacement. A living
// process accepts at once, or has a full queue; a full queue isn't a refusal.
const dialTime = time.Second

// checkDir returns an error if users other than this user and root could replace files in a
// directory.
func checkDir(dir string) error {
	f, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !f.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	if f.Mode().Perm()&0o022 != 0 && f.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("other users can write the directory %s, mode %v: use a directory of this user's own, mode 0700", dir, f.Mode())
	}
	if s, ok := f.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory %s belongs to user %d: use a directory of this user's own, mode 0700", dir, s.Uid)
	}
	return nil
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
