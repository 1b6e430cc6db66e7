package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers requests on a listener until ctx ends, and then returns nil; or until the listener
// fails, and then returns the error. In any case Serve closes the listener, and returns only when
// all connections of the listener are closed. On a [Socket] every request may act; elsewhere the
// handler needs a token ([WithToken]), or [AllowReads]: without either, Serve returns an error at
// once.
//
// When ctx ends, streams end, clients with keys are told (see [Handler.Close]) and keep their keys
// until they close their connections, or until the leases' deadlines; waiting requests fail with
// [ErrStopping]. Serve waits for all requests, for a few seconds as a rule and 20 at most. End ctx
// before the mesh is closed, so that keys are released. Leases with a ttl, and keys of clients that
// Serve didn't wait for, last until their ends; [lockmesh.Mesh.Stop] and Leave would release the
// leases at once, and another client would get a key on which this client counts: call Drain first,
// or Close.
//
// Headers, bodies, idle connections, slow readers and the number of connections are bounded: see
// [MaxConns], [WithMaxConns] and the other limits. For TLS pass a listener of package crypto/tls.
func Serve(ctx context.Context, l net.Listener, h *Handler) error {
	_, ownerOnly := l.(*Socket)
	return serve(ctx, l, h, ownerOnly)
}

func serve(ctx context.Context, l net.Listener, h *Handler, ownerOnly bool) error {
	defer l.Close()
	if !ownerOnly && h.token == nil && (h.openActs || !h.openReads) {
		return failure(ErrForbidden, "Serve needs a token (WithToken), or AllowReads without AllowActions, on a listener not made by Listen: otherwise "+
			"any process that reaches the address could act, or none could read")
	}
	serving, cancel := context.WithCancel(context.Background())
	defer cancel()
	requests := &requests{idle: make(chan struct{})}
	server := &http.Server{
		Handler:           requests.count(h),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			c := &connection{ownerOnly: ownerOnly, serving: serving}
			if bounded, is := conn.(*boundedConn); is {
				c.vanished = &bounded.vanished
			}
			return context.WithValue(ctx, connectionKey{}, c)
		},
	}
	bounded := newBoundedListener(l, h.maxConns, h.log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(bounded) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		// The listener goes first, so no further client comes in.
		if err = l.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		<-failed //nolint:errcheck // the error of the closed listener
	}
	cancel()
	requests.end()
	// Answers are complete, but for the ends of streams. A connection without a request isn't
	// waited for.
	last, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if server.Shutdown(last) != nil {
		_ = server.Close() // the connections are to be cut
	}
	bounded.end()
	return err
}

// requests counts the requests under way.
type requests struct {
	mu    sync.Mutex
	n     int
	ended bool
	idle  chan struct{} // closed when ended is set and n is zero
}

// count returns a handler with a count of its requests.
func (s *requests) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.add(1)
		defer s.add(-1)
		h.ServeHTTP(w, r)
	})
}

func (s *requests) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.n
	s.n += n
	if s.ended && was > 0 && s.n == 0 {
		s.closeIdle()
	}
}

func (s *requests) closeIdle() {
	select {
	case <-s.idle: // a request after the end is answered with the stop of the server
	default:
		close(s.idle)
	}
}

// end waits until no request is under way, for stopTime at most.
func (s *requests) end() {
	s.mu.Lock()
	s.ended = true
	if s.n == 0 {
		s.closeIdle()
	}
	s.mu.Unlock()
	limit := time.NewTimer(stopTime)
	defer limit.Stop()
	select {
	case <-s.idle:
	case <-limit.C:
	}
}
