//go:build !unix

package main

import (
	"errors"
	"os"
)

// pauses are the ways to pause a holder on this system.
var pauses = []string{"cut"}

func stop(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
