package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// reasonOf is why locks can't be granted, or the mesh isn't settled, in a few words.
func reasonOf(err error) string {
	text := err.Error()
	var e *admin.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	for _, known := range []string{"lockmesh: ", "ready: ", "settled: "} {
		text = strings.TrimPrefix(text, known)
	}
	return safe(strings.TrimSuffix(text, ": "+context.DeadlineExceeded.Error()))
}

// isAway reports whether the node behind an error may be about to start, or to come back.
func isAway(err error) bool {
	var e *admin.Error
	if errors.As(err, &e) {
		return errors.Is(err, admin.ErrStopping) || errors.Is(err, lockmesh.ErrClosed) ||
			errors.Is(err, admin.ErrLimit) || errors.Is(err, lockmesh.ErrNoQuorum)
	}
	var n *net.OpError
	return !errors.Is(err, fs.ErrPermission) && (errors.Is(err, errNoAgent) || errors.As(err, &n) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded))
}

// rest waits for a time, or until a context ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
