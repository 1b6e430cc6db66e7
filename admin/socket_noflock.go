//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package admin

// lockDir does nothing where the system has no lock for a directory: simultaneously starting
// processes should use different paths there.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
