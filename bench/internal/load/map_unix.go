//go:build unix

package load

import (
	"os"
	"syscall"
)

func mapFile(f *os.File, size int) (raw []byte, unmap func() error, err error) {
	raw, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return raw, func() error { return syscall.Munmap(raw) }, err
}
