package admin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// maxSocketPath is the length of the longest path of a socket in bytes on all systems: the field of
// the address has 104 bytes on BSD and macOS, the last for the end.
const maxSocketPath = 103

// Socket is a unix socket for this process's user and root alone: no other user can connect.
// [Listen] makes a Socket, and [Serve] closes the Socket.
type Socket struct {
	*net.UnixListener
	path     string
	file     os.FileInfo // the file made by this process
	replaced bool
	once     sync.Once
	err      error
}

// Replaced reports whether [Listen] has replaced a socket left behind by another process: the other
// process was killed, or has called [Socket.Abandon]. The clients of the other process may count on
// leases that aren't over yet.
func (s *Socket) Replaced() bool { return s.replaced }

// Abandon closes the socket like Close, but leaves the file, as a killed process does: the next
// call of Listen finds the file, see [Socket.Replaced].
func (s *Socket) Abandon() error {
	s.once.Do(func() { s.err = s.UnixListener.Close() })
	return s.err
}

// Addr returns the address of the socket, with the path given to [Listen].
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close closes the socket, and removes the file if still made by Listen. Further calls return the
// result of the first call.
func (s *Socket) Close() error {
	s.once.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
			s.err = os.Remove(s.path)
		}
		s.err = errors.Join(s.err, s.UnixListener.Close())
	})
	return s.err
}

// Listen makes a unix socket at a path, with mode 0600. Close, or the end of [Serve], removes the
// socket.
//
// A socket left there by an ended process is replaced. Anything else there is an error: a socket
// with an answering process, or another file. The directory must exist, belong to this process's
// user or root, and be writable by this owner alone, or else have the sticky bit: otherwise other
// users could put a socket of their own in its place, and answer the clients. The path has up to
// 103 bytes, and the directory's 86.
//
// Listen is for Unix systems. On Windows Listen returns an error: there the mode of a socket keeps
// no other user out.
func Listen(path string) (*Socket, error) {
	s, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("admin: can't make the socket %s: %w", path, err)
	}
	return s, nil
}

func listen(path string) (*Socket, error) {
	if strings.HasPrefix(path, "@") || strings.ContainsRune(path, 0) {
		return nil, errors.New("an abstract socket has no permissions; give the path of a file")
	}
	path, err := filepath.Abs(path) // the process may change its directory before removing the file
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	replaced, err := checkFree(path)
	if err != nil {
		return nil, err
	}
	// The socket is made in a directory closed to other users, and moved when the socket's mode is
	// right, so another user can't connect at any moment.
	private, err := os.MkdirTemp(dir, ".lm")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(private) }()
	made := filepath.Join(private, "s")
	if n := max(len(made), len(path)); n > maxSocketPath {
		return nil, fmt.Errorf("the path is too long by %d bytes; choose a shorter one, such as in /run", n-maxSocketPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &Socket{UnixListener: l, path: path, replaced: replaced}
	if err = os.Chmod(made, 0o600); err == nil {
		if s.file, err = os.Lstat(made); err == nil {
			err = os.Rename(made, path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// checkFree returns an error unless there is nothing at a path, or a socket without a process; left
// is true for such a socket.
func checkFree(path string) (left bool, err error) {
	switch f, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case f.Mode()&os.ModeSocket == 0:
		return false, errors.New("there is another file that isn't a socket; remove the file or choose another path")
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	if err == nil {
		_ = c.Close() // made for its errors only
		return false, errors.New("another process answers there; stop that process, or choose another path")
	}
	if !isRefused(err) {
		return false, fmt.Errorf("a process may use the socket there: %w; stop that process, or remove the file", err)
	}
	return true, nil
}
