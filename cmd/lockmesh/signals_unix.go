//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

// passedOn are the signals passed on from this process to the command.
var passedOn = []syscall.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP,
}

// stopKey is the signal of Ctrl-Z.
const stopKey = unix.SIGTSTP

// isEnd reports whether a signal ends processes without a handler.
func isEnd(sig syscall.Signal) bool { return sig != unix.SIGWINCH && sig != stopKey }

// isForAll reports whether a signal is for all processes of a job, not for the command's group
// alone: signals of the terminal are for this group, and other signals have meanings of their own.
func isForAll(sig syscall.Signal) bool { return sig == unix.SIGTERM || sig == unix.SIGHUP }

// isTerminalStop reports whether a process was stopped for using the terminal from the background.
func isTerminalStop(sig syscall.Signal) bool { return sig == unix.SIGTTIN || sig == unix.SIGTTOU }

// isUserStop reports whether a user has stopped a process: by Ctrl-Z, or as a lockmesh within this
// one stops itself after Ctrl-Z.
func isUserStop(sig syscall.Signal) bool { return sig == stopKey || sig == unix.SIGSTOP }

// resume continues a stopped job.
func resume(j *job.Job) { j.Signal(unix.SIGCONT) }

// ownGroup returns this process's group.
func ownGroup() int { return unix.Getpgrp() }

// signalOwnGroup sends a signal to this process's group, as the terminal does.
func signalOwnGroup(sig syscall.Signal) { _ = unix.Kill(0, sig) }

// stopUntilContinued stops this process, and returns when the process is continued; at once if no
// other process would do so.
func stopUntilContinued() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if job.StopSelf() {
		<-continued // the call may return a moment before the stop
	}
}

// dieTime is how long a signal may take to end this process, before the process exits instead.
const dieTime = 10 * time.Second

// dieOf ends this process by a signal; with echo, all processes of its group get the signal, as if
// the terminal had sent it to this group. At a QUIT the runtime of Go would print all goroutines
// and exit with 2. So the process exits as a shell reports a process ended by QUIT.
func dieOf(sig syscall.Signal, echo bool) {
	if sig == unix.SIGQUIT {
		signal.Ignore(sig)
	} else {
		signal.Reset(sig)
	}
	if echo {
		signalOwnGroup(sig)
	}
	if sig == unix.SIGQUIT {
		os.Exit(exitSignal + int(sig))
	}
	_ = unix.Kill(unix.Getpid(), sig)
	time.Sleep(dieTime)
}
