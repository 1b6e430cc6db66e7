package lockmesh

import "golang.org/x/sys/unix"

// mknodZero makes a device like /dev/zero.
func mknodZero(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) }
