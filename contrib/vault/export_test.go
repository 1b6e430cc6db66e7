package vaultlock

import "time"

// WithPatience sets how long a Backend waits for the storage.
func WithPatience(d time.Duration) Option { return func(b *Backend) { b.patience = d } }
