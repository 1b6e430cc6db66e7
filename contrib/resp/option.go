package resp

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Option changes a server made by [New].
type Option func(*Server)

// WithPassword sets the password, to be sent first by each client, with AUTH or HELLO, except over
// a socket made by [admin.Listen]. The user's name, where a client sends a name, is "default".
// WithPassword panics with the text of [CheckPassword] if the password can't be used.
func WithPassword(password string) Option {
	if err := CheckPassword(password); err != nil {
		panic(err.Error())
	}
	return func(s *Server) { s.password = new(sha256.Sum256([]byte(password))) }
}

// CheckPassword returns why a password can't be used, or nil: a password has at least
// [MinPasswordLen] bytes, all printable ASCII other than blanks. Check a password from a
// configuration before passing the password to [WithPassword]. The error doesn't contain the
// password.
func CheckPassword(password string) error {
	if len(password) < MinPasswordLen {
		return fmt.Errorf("resp: the password has %d bytes, fewer than %d; use random ones", len(password), MinPasswordLen)
	}
	if strings.ContainsFunc(password, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("resp: the password has other characters than printable ASCII; use letters and digits")
	}
	return nil
}

// WithoutPassword has all clients served, also without a password on a listener other than a
// socket of [admin.Listen]: for a network on which each process may take locks. A page in a browser
// can't speak the protocol, but each other program can.
func WithoutPassword() Option { return func(s *Server) { s.open = true } }

// WithMaxTTL sets the longest time for which a client may set a key: pass [lockmesh.Config].MaxTTL.
// The default is [lockmesh.DefaultMaxTTL], as there. The voters keep a key for no longer after a
// crash of this node, so a client with a longer time could lose the key unnoticed. While the voters
// have decided on a smaller maximum, the smaller value counts. WithMaxTTL panics if d isn't
// positive.
func WithMaxTTL(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("resp: WithMaxTTL(%v): pass the MaxTTL of the mesh, or lockmesh.DefaultMaxTTL", d))
	}
	return func(s *Server) { s.maxTTL = d }
}

// AllowLongTTL has clients set keys for longer than the limit of [WithMaxTTL], without an end, and
// extend a key beyond the time of the SET. This node keeps up such a lease, and if the node crashes
// or loses the majority of the voters, the lease ends early. Then the server cuts the connection of
// the SET or the last extension, and only a client that takes the end of its connection for the end
// of its lock is safe. Most clients connect again without a word: the option is for others.
func AllowLongTTL() Option { return func(s *Server) { s.allowLong = true } }

// WithMaxConns sets how many connections each call of [Server.Serve] keeps open at a time, instead
// of [DefaultMaxConns]. A connection takes some 10 KiB and a file descriptor. WithMaxConns panics
// if n isn't positive.
func WithMaxConns(n int) Option {
	if n <= 0 {
		panic(fmt.Sprintf("resp: WithMaxConns(%d): a server needs a connection", n))
	}
	return func(s *Server) { s.maxConns = n }
}

// WithMaxLeases sets how many keys clients can hold at a time through the server, instead of
// [DefaultMaxLeases]. WithMaxLeases panics if n isn't positive.
func WithMaxLeases(n int) Option {
	if n <= 0 {
		panic(fmt.Sprintf("resp: WithMaxLeases(%d): a server needs a lease", n))
	}
	return func(s *Server) { s.slots.limit = n }
}

// WithLogger sets the destination of log lines: lost leases, cut connections, and complaints of
// listeners (once a minute) at Warn, refused passwords and broken requests at Debug. Default:
// [slog.Default]. The lines have keys, but neither values nor passwords. A nil logger stands for
// the default.
func WithLogger(l *slog.Logger) Option {
	return func(s *Server) {
		if l != nil {
			s.log = l
		}
	}
}
