//go:build !unix

package main

import (
	"syscall"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

// passedOn are the signals to this process that end the command.
var passedOn = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}

// stopKey is no signal of this system.
const stopKey = syscall.Signal(-1)

func isEnd(syscall.Signal) bool          { return true }
func isForAll(syscall.Signal) bool       { return true }
func isTerminalStop(syscall.Signal) bool { return false }
func isUserStop(syscall.Signal) bool     { return false }
func resume(*job.Job)                    {}
func ownGroup() int                      { return 0 }
func signalOwnGroup(syscall.Signal)      {}
func stopUntilContinued()                {}
func dieOf(syscall.Signal, bool)         {}
