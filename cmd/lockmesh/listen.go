package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

// listen returns a channel of the passed-on signals, without some, and a function to end the
// channel. Signals ignored on behalf of this process's caller stay ignored.
func listen(without ...syscall.Signal) (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 16)
	for _, sig := range passedOn {
		if !signal.Ignored(sig) && !slices.Contains(without, sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// untilSignal returns a context that ends on the arrival of a signal to end processes, and a
// function to end the wait for signals; further signals stay in the channel. After the call of this
// function signalOf returns an arrived signal.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	return watchSignals(ctx, signals, func() { job.StopSelf() })
}

// watchSignals does the same as untilSignal, and calls stop for each key to stop processes.
func watchSignals(
	ctx context.Context, signals <-chan os.Signal, stop func(),
) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				sig := s.(syscall.Signal)
				switch {
				case isEnd(sig):
					cancel(interrupted{sig})
					return
				case sig == stopKey:
					stop()
				}
			}
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel(errors.New("the wait is over"))
	}
}

// connectUntilSignal is connect for a verb after its call of listen.
func (g *globals) connectUntilSignal(ctx context.Context, signals <-chan os.Signal) (*link, error) {
	waiting, stop := untilSignal(ctx, signals)
	l, err := g.connect(waiting)
	stop()
	err = causeOf(waiting, err)
	if err != nil {
		if l != nil {
			l.close()
		}
		return nil, err
	}
	return l, nil
}
