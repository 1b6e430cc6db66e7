// Service is a service as an orchestrator runs it: all settings come from the environment, it
// answers probes over HTTP, and it ends in good order upon SIGTERM. Its work stands for any work
// that one instance at a time may do: it takes a lock, holds it for a while, and unlocks it.
//
// The manifests in deploy run this program. -h lists the environment variables, and -check only
// checks them. -alive asks the running service whether it is alive, for a health check inside of a
// container that has no other program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/lockmeshhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, and returns the exit code: 0, 1 after an error, 2 if a setting is
// wrong.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	checks, asks := slices.Equal(args, []string{"-check"}), slices.Equal(args, []string{"-alive"})
	if len(args) > 0 && !checks && !asks {
		_, _ = io.WriteString(stderr, usage)
		if slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
			return 0
		}
		_, _ = fmt.Fprintf(stderr, "service: %q: all settings come from the environment\n", args)
		return 2
	}
	s, err := parse(env)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "service: the environment can't be used:\n%v\nTry -h.\n", err)
		return 2
	case checks:
		return 0
	case asks:
		if err := s.alive(ctx); err != nil {
			_, _ = fmt.Fprintf(stderr, "service: %v\n", err)
			return 1
		}
		return 0
	}
	s.lock.Logger = slog.New(slog.NewJSONHandler(stderr, nil))
	if err := s.serve(ctx, &events{out: json.NewEncoder(stdout)}); err != nil {
		_, _ = fmt.Fprintf(stderr, "service: %v\n", err)
		return 1
	}
	return 0
}

// alive asks the service of this container for /livez.
func (s *settings) alive(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.http)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, port) + "/livez"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// serve runs the service until ctx ends.
func (s *settings) serve(ctx context.Context, out *events) error {
	mesh, err := lockmesh.Join(ctx, s.lock)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil //nolint:nilerr // it was told to end before it had begun
	case err != nil:
		return err
	}
	listener, err := net.Listen("tcp", s.http)
	if err != nil {
		return errors.Join(err, mesh.Close())
	}
	server := &http.Server{Handler: lockmeshhttp.New(mesh), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	out.print(event{Event: "listening", Name: mesh.Name(), Addr: mesh.Addr(), HTTP: listener.Addr().String()})

	var work sync.WaitGroup
	for _, key := range s.keys {
		work.Go(func() { s.work(ctx, mesh, key, out) })
	}
	<-ctx.Done()
	err = s.end(mesh)
	work.Wait()
	out.print(event{Event: "ended", Text: text(err)})
	// The probes answer until the very end.
	_ = server.Close()
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// end ends the node: work under way may end first. A process that comes back with its name and
// directory keeps its seat. Another one will take its place otherwise, so it gives the seat up.
func (s *settings) end(mesh *lockmesh.Mesh) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	drain, done := context.WithTimeout(ctx, s.grace/2)
	defer done()
	err := mesh.Drain(drain)
	if errors.Is(err, lockmesh.ErrHeld) {
		err = nil // the work takes longer: its leases are released now, and end with their contexts
	}
	if s.lock.Expect == 0 {
		return errors.Join(err, mesh.Stop(ctx))
	}
	gone := mesh.Leave(ctx)
	if errors.Is(gone, lockmesh.ErrStillVoter) {
		gone = nil // the others need this voter until it is replaced, which is no fault of this end
	}
	return errors.Join(err, gone)
}

// work takes a lock over and over, until ctx ends or the node takes no more locks: it drains, or
// has ended.
func (s *settings) work(ctx context.Context, mesh *lockmesh.Mesh, key string, out *events) {
	for ctx.Err() == nil {
		asked := time.Now()
		lease, err := mesh.Lock(ctx, key)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			out.print(event{Event: "error", Key: key, Text: err.Error()})
			if errors.Is(err, lockmesh.ErrClosed) {
				return
			}
			sleep(ctx, time.Second)
			continue
		}
		out.print(event{Event: "granted", Key: key, Token: lease.Token(), Waited: time.Since(asked).Seconds()})
		// The work itself: it ends with lease.Context(). Your own work passes lease.Token() to
		// the resource of each write, and commits nothing once lease.Err() isn't nil.
		sleep(lease.Context(), s.hold)
		if lease.Err() == nil {
			out.print(event{Event: "done", Key: key, Token: lease.Token()})
		}
		// At the end of the node the lease may have been released already.
		if err := lease.Unlock(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, lockmesh.ErrReleased) {
			out.print(event{Event: "lost", Key: key, Token: lease.Token(), Text: err.Error()})
		}
		sleep(ctx, s.pause)
	}
}

// sleep waits until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// event is a line of the service's output.
type event struct {
	At     time.Time `json:"at"`
	Event  string    `json:"event"` // listening, granted, done, lost, error, ended
	Name   string    `json:"name,omitempty"`
	Addr   string    `json:"addr,omitempty"`
	HTTP   string    `json:"http,omitempty"`
	Key    string    `json:"key,omitempty"`
	Token  uint64    `json:"token,omitempty"`
	Waited float64   `json:"waited_s,omitempty"`
	Text   string    `json:"text,omitempty"`
}

// events writes events as lines of JSON.
type events struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (e *events) print(v event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.At = time.Now()
	_ = e.out.Encode(v) // without a reader there is no one to tell
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
