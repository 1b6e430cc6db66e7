package lockmesh

import "github.com/lockmesh/lockmesh/internal/vote"

// Option changes one call of Lock, TryLock or Do. No options exist yet: every lock is exclusive.
type Option interface {
	apply(*wish)
}

// wish is what one call asks for, before it is a request with a number.
type wish struct {
	key vote.Key
	try bool // fail rather than wait behind another
}

func newWish(key string, try bool, opts []Option) wish {
	w := wish{key: vote.Key(key), try: try}
	for _, o := range opts {
		if o != nil {
			o.apply(&w)
		}
	}
	return w
}
