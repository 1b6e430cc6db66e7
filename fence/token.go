package fence

import (
	"errors"
	"fmt"
	"math"
)

// MaxToken is the largest token: they have 63 bits, so that databases can store them as signed numbers.
const MaxToken = math.MaxInt64

// The errors of this package, for [errors.Is].
var (
	// ErrStale : a newer token has been seen. The lock has passed on to another: stop, and lock again if there is more to do. The error
	// that wraps it is a [StaleError].
	ErrStale = errors.New("fence: the token is stale")

	// ErrToken : this can't be the token of a lease, since it is 0 or has more than 63 bits. Nothing was looked at.
	ErrToken = errors.New("fence: not a token")

	// ErrResource : the name of the resource is empty or too long. Nothing was looked at.
	ErrResource = errors.New("fence: not a name of a resource")
)

// StaleError is the refusal of a token. It is an [ErrStale].
type StaleError struct {
	// Resource is what refused; empty for a [Guard], which has no name.
	Resource string
	// Token is the one that was refused.
	Token uint64
	// Newest is the newest token that the resource has seen; with Forgotten, no less than that.
	Newest uint64
	// Forgotten says that the resource was one of those that [Guards] no longer remember one by one.
	Forgotten bool
}

func (e *StaleError) Error() string {
	what := "the resource"
	if e.Resource != "" {
		what = fmt.Sprintf("%q", e.Resource)
	}
	if e.Forgotten {
		return fmt.Sprintf("fence: token %d is refused: what %s has seen is forgotten, and may be as new as %d", e.Token, what, e.Newest)
	}
	return fmt.Sprintf("fence: token %d is stale: %s has seen %d", e.Token, what, e.Newest)
}

// Is makes every StaleError an [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Validate returns an [ErrToken] unless this can be the token of a lease. Adapters ask it first.
func Validate(token uint64) error {
	switch {
	case token == 0:
		return fmt.Errorf("%w: it is 0, which no lease has; was it never set?", ErrToken)
	case token > MaxToken:
		return fmt.Errorf("%w: %d has more than 63 bits", ErrToken, token)
	}
	return nil
}

// MaxName is how long the name of a resource may be, in bytes. It is that of a lock's key, which makes a good name.
const MaxName = 512

// ValidateName returns an [ErrResource] unless a resource can be called so. Adapters ask it first.
func ValidateName(resource string) error {
	switch {
	case resource == "":
		return fmt.Errorf("%w: it is empty", ErrResource)
	case len(resource) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrResource, len(resource), MaxName)
	}
	return nil
}
