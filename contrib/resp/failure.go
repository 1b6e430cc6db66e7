package resp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// Codes of errors unknown to Redis. Clients show these codes, and act on none.
const (
	// codeRefused is the code of a request answered by Redis, and here not safe or not offered
	// here.
	codeRefused = "REFUSED"
	// codeHeld is the code of a change of a key held elsewhere in the mesh.
	codeHeld = "HELD"
	// codeNoQuorum is the code of an unknown answer: too few voters answer.
	codeNoQuorum = "NOQUORUM"
)

// failf returns an error. The format begins with the code.
func failf(format string, args ...any) failure {
	return failure(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", ", "))
}

// Errors with texts known from Redis.
const (
	errSyntax    = failure("ERR syntax error")
	errInteger   = failure("ERR value is not an integer or out of range")
	errWrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	errNoScript  = failure("NOSCRIPT No matching script. Please use EVAL.")
	errNoAuth    = failure("NOAUTH Authentication required.")
	errWrongPass = failure("WRONGPASS invalid username-password pair or user is disabled.")
	errFull      = failure("ERR max number of clients reached")
)

// failed returns the answer for an error of a call to the mesh.
func failed(err error) failure {
	text := strings.TrimPrefix(err.Error(), "lockmesh: ")
	switch {
	case errors.Is(err, lockmesh.ErrHeld):
		return failf("%s %s", codeHeld, text)
	case errors.Is(err, lockmesh.ErrNoQuorum):
		return failf("%s too few voters answer, so the state of the key isn't known: %s", codeNoQuorum, text)
	case errors.Is(err, errLowered):
		return refused("%s", text)
	}
	return failf("ERR %s", text)
}

// refused returns the answer to a request refused by design.
func refused(format string, args ...any) failure {
	return failf(codeRefused+" "+format, args...)
}
