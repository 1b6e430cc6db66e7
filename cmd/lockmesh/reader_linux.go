package main

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// whileRead returns a context that also ends once no process can read a pipe any more, as with
// "lockmesh watch | head -1": a verb that waits for events would learn of it with the next event
// only. The verb then ends as by SIGPIPE. The returned function ends the wait.
func whileRead(ctx context.Context, out *os.File) (context.Context, func()) {
	info, err := out.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return ctx, func() {}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fds := []unix.PollFd{{Fd: int32(out.Fd())}, {Fd: int32(read.Fd()), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, -1) // POLLERR needs no asking
			switch {
			case err == unix.EINTR:
			case err != nil || n == 0 || fds[1].Revents != 0:
				return
			case fds[0].Revents != 0:
				cancel(interrupted{unix.SIGPIPE})
				return
			}
		}
	}()
	return ctx, func() {
		write.Close()
		<-ended
		read.Close()
		cancel(nil)
	}
}
