package fence

import (
	"errors"
	"fmt"
	"math"
)

// MaxToken is the largest token: tokens have 63 bits, so that databases can store tokens as signed
// numbers.
const MaxToken = math.MaxInt64

// The errors of this package, for [errors.Is].
var (
	// ErrStale means that a newer token has been seen. Another client has acquired the lock: stop,
	// and lock again if there is more to do. The error wrapping ErrStale is a [StaleError].
	ErrStale = errors.New("fence: the token is stale")

	// ErrToken means that no lease can have the token, since the token is 0 or has more than 63
	// bits. The resource was not accessed.
	ErrToken = errors.New("fence: not a token")

	// ErrResource means that the name of the resource is empty or too long. The resource was not
	// accessed.
	ErrResource = errors.New("fence: not a name of a resource")
)

// StaleError is the refusal of a token. A StaleError is an [ErrStale].
type StaleError struct {
	// Resource is the name of the refusing resource; empty for a [Guard], which has no name.
	Resource string
	// Token is the refused token.
	Token uint64
	// Newest is the newest token that the resource has seen; with Forgotten, an upper bound.
	Newest uint64
	// Forgotten says that the resource was forgotten by [Guards], which remember a bounded number
	// of resources.
	Forgotten bool
}

func (e *StaleError) Error() string {
	what := "the resource"
	if e.Resource != "" {
		what = fmt.Sprintf("%q", e.Resource)
	}
	if e.Forgotten {
		return fmt.Sprintf("fence: token %d is refused: the newest token seen by %s is forgotten, "+
			"and may be as new as %d", e.Token, what, e.Newest)
	}
	return fmt.Sprintf("fence: token %d is stale: %s has seen %d", e.Token, what, e.Newest)
}

// Is makes every StaleError an [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Validate returns an [ErrToken] unless token can be the token of a lease. Adapters validate the
// token first.
func Validate(token uint64) error {
	switch {
	case token == 0:
		return fmt.Errorf("%w: it is 0, which no lease has; was it never set?", ErrToken)
	case token > MaxToken:
		return fmt.Errorf("%w: %d has more than 63 bits", ErrToken, token)
	}
	return nil
}

// MaxName is the maximum length of a resource's name in bytes: the same as for the key of a lock,
// which makes a good name.
const MaxName = 512

// ValidateName returns an [ErrResource] unless resource is a valid name. Adapters validate the name
// first.
func ValidateName(resource string) error {
	switch {
	case resource == "":
		return fmt.Errorf("%w: it is empty", ErrResource)
	case len(resource) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrResource, len(resource), MaxName)
	}
	return nil
}
