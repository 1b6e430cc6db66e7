package objectfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// Probe tests whether a storage can be fenced, by writing to an object of the given name, which
// should have no other use. Probe returns nil if tokens are read back as written and each Put
// evaluates its condition. Run Probe once for a new storage, before relying on the storage. Probe
// can't tell whether the conditions also hold between simultaneous requests.
func Probe(ctx context.Context, store Store, name string) error {
	start, err := store.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("objectfence: probing: %w", err)
	}
	begin := Object{Token: probeToken, Data: []byte(rand.Text()), Version: start.Version}
	if err := store.Put(ctx, name, begin); err != nil {
		return fmt.Errorf("objectfence: probing: a write on a condition that holds: %w", err)
	}
	first, err := store.Get(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("objectfence: probing: %w", err)
	case first.Version == "" || string(first.Data) != string(begin.Data):
		return errors.New("objectfence: probing: what was written doesn't come back")
	case first.Token != probeToken:
		return fmt.Errorf("objectfence: probing: token %d comes back as %d", uint64(probeToken), first.Token)
	}
	// The same content with another token: unless the version changes, a late write would find its
	// expected version.
	if err := store.Put(ctx, name, Object{Token: probeToken + 1, Data: begin.Data, Version: first.Version}); err != nil {
		return fmt.Errorf("objectfence: probing: a write on a condition that holds: %w", err)
	}
	second, err := store.Get(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("objectfence: probing: %w", err)
	case second.Version == first.Version:
		return errors.New("objectfence: probing: the version stays the same when only the token changes")
	}
	for what, old := range map[string]Version{"another version is there": first.Version, "the object is there": ""} {
		err := store.Put(ctx, name, Object{Token: 1, Data: []byte("probe"), Version: old})
		if err == nil {
			return fmt.Errorf("objectfence: probing: the storage has written though %s: it ignores conditions", what)
		}
		if !errors.Is(err, ErrChanged) {
			return fmt.Errorf("objectfence: probing: a write though %s should be refused as changed: %w", what, err)
		}
	}
	return nil
}

// probeToken reveals a truncated token: probeToken has 63 bits, and its last bit is significant.
const probeToken = 1<<62 + 1
