package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// lockFlags are the flags of the verbs to take locks. Flags of flock(1) keep their letters.
type lockFlags struct {
	Nonblock     bool          `short:"n" aliases:"nb" xor:"wait" help:"Fail at once if the lock is held."`
	Wait         *waitTime     `short:"w" xor:"wait" placeholder:"TIME" help:"Wait no longer than TIME, such as 30s or 30, and at most 24h. Without -n and -w, wait for as long as it takes."`
	ConflictExit int           `short:"E" name:"conflict-exit-code" default:"75" placeholder:"CODE" help:"The exit code when the lock is held or the wait is over. (${default})"`
	Shared       bool          `short:"s" xor:"mode" help:"Take a shared lock: others may share the key meanwhile."`
	Exclusive    bool          `short:"x" xor:"mode" help:"Take an exclusive lock, as without any of -s, -x and --permits."`
	Permits      *int          `xor:"mode" placeholder:"N" help:"Take one of N permits, a semaphore. All users of the key give the same N."`
	TTL          time.Duration `name:"ttl" placeholder:"TIME" help:"How long others wait after a crash of the node: the length of the lease, which the node renews. (the node's own)"`
	Value        string        `placeholder:"TEXT" help:"What others see with the lock. (the host, the number of the process, the command's name)"`
	Revoke       string        `placeholder:"REASON" help:"Ask the present holders to release the key, for this reason."`
}

// check returns an error about the flags.
func (f *lockFlags) check() error {
	switch {
	case f.Wait != nil && *f.Wait < 0:
		return usage("-w %v: a wait is not negative", time.Duration(*f.Wait))
	case f.Wait != nil && time.Duration(*f.Wait) > admin.MaxWait:
		return usage("-w %v: at most %v; without -w the wait has no end", time.Duration(*f.Wait), admin.MaxWait)
	case f.Permits != nil && *f.Permits < 1:
		return usage("--permits %d: a semaphore has at least one permit", *f.Permits)
	case f.TTL < 0:
		return usage("--ttl %v: a lease has a positive length", f.TTL)
	case f.ConflictExit < 0 || f.ConflictExit > 255:
		return usage("-E %d: an exit code is a number from 0 to 255", f.ConflictExit)
	}
	return nil
}

// holder takes locks and keeps the locks.
type holder struct {
	*lockFlags
	link  *link
	name  string // of the command, for others to see; may be empty
	holds []*admin.Hold
	keys  []string

	clients []*admin.Client // a client for each key
	length  time.Duration   // of the shortest lease

	mu    sync.Mutex
	conns []net.Conn // on which the keys rest
}

// take takes all keys, one after the other in the order of their names, so that no two processes
// wait for each other. The loss of a held key ends the wait for the next key. If take fails to get
// a key or loses a key, take releases the others.
func (h *holder) take(ctx context.Context, keys []string) error {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	var until time.Time
	if h.Wait != nil {
		until = time.Now().Add(time.Duration(*h.Wait))
	}
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	for _, key := range keys {
		hold, err := h.takeOne(waiting, key, until)
		if err == nil {
			line := hold.Last()
			// A node that has just ended doesn't tell the length.
			if length := milliseconds(cmp.Or(line.TTLMS, line.LeftMS)); len(h.holds) == 0 || length < h.length {
				h.length = length
			}
			h.holds, h.keys = append(h.holds, hold), append(h.keys, key)
			h.link.g.verbosef("%q is held, with token %d", key, hold.Token())
			go endWith(waiting, end, hold)
		}
		if loss := h.loss(); loss != nil && (err == nil || ctx.Err() == nil) {
			err = loss
		}
		if err != nil {
			_ = h.release()
			if errors.Is(err, lockmesh.ErrHeld) && context.Cause(ctx) == nil {
				return &exit{code: h.ConflictExit, err: err}
			}
			return err
		}
	}
	return nil
}

// endWith ends a wait for further keys when a held key is lost. The goroutine of endWith ends with
// the wait.
func endWith(waiting context.Context, end context.CancelCauseFunc, hold *admin.Hold) {
	select {
	case <-hold.Done():
		end(hold.Err())
	case <-waiting.Done():
	}
}

// loss returns an error if a taken key is lost: nothing may be started or printed then.
func (h *holder) loss() error {
	for i, hold := range h.holds {
		if err := hold.Err(); err != nil {
			return &exit{code: exitLost, err: fmt.Errorf("a lock was lost before all keys were held, and none is held now: %q: %w", h.keys[i], err)}
		}
	}
	return nil
}

// takeOne takes a single key. A zero until stands for no end of the wait.
func (h *holder) takeOne(ctx context.Context, key string, until time.Time) (*admin.Hold, error) {
	c, err := h.link.client(h.keep)
	if err != nil {
		return nil, err
	}
	h.clients = append(h.clients, c)
	stop := h.showWait(ctx, key)
	defer stop()
	for {
		o := h.options()
		switch {
		case h.Nonblock:
		case until.IsZero():
			o.Wait = admin.MaxWait
		default:
			o.Wait = max(time.Until(until), 0).Round(time.Millisecond)
		}
		hold, err := h.ask(ctx, c, key, o)
		if errors.Is(err, lockmesh.ErrHeld) && ctx.Err() == nil && !h.Nonblock && until.IsZero() {
			continue // a day is over
		}
		return hold, err
	}
}

// ask asks the node for a key. With -n and -w the node has the time of --timeout to answer, besides
// the wait; otherwise a node that doesn't answer is waited for, as a holder is.
func (h *holder) ask(ctx context.Context, c *admin.Client, key string, o admin.LockOptions) (*admin.Hold, error) {
	if limit := h.link.g.Timeout; h.Nonblock || h.Wait != nil {
		silent := fmt.Errorf("%w: the node sent no answer within %v, besides the wait for the lock "+
			"(the node hangs, or waits for the voters: lockmesh status shows which; a longer --timeout waits longer)", errNoAgent, limit)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Wait+limit, silent)
		defer cancel()
	}
	return c.Hold(ctx, key, o)
}

func (h *holder) options() admin.LockOptions {
	o := admin.LockOptions{TTL: h.TTL, Value: []byte(h.Value), Revoke: h.Revoke != "", Reason: h.Revoke}
	if h.Permits != nil {
		o.Permits = *h.Permits
	}
	if h.Shared {
		o.Mode = lockmesh.ModeShared
	}
	if h.Value == "" {
		o.Value = []byte(introduction(h.name))
	}
	return o
}

// introduction tells others of this process: the machine, the process, the command. The arguments
// of the command aren't told, since there may be secrets among them.
func introduction(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("%s pid %d", host, os.Getpid())
	if command != "" {
		text += " " + filepath.Base(command)
	}
	return text[:min(len(text), maxIntroduction)]
}

// maxIntroduction is the length of the longest introduction in bytes: an introduction must fit on a
// line.
const maxIntroduction = 200

// keep is a dialer for dial, and keeps the connections for the guard of a job.
func (h *holder) keep(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			h.mu.Lock()
			h.conns = append(h.conns, conn)
			h.mu.Unlock()
		}
		return conn, err
	}
}

// files returns copies of the connections with the keys, to be closed by the caller. Connections in
// memory have no files, and end with this process.
func (h *holder) files() (files []*os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		if f, ok := c.(interface{ File() (*os.File, error) }); ok {
			if file, err := f.File(); err == nil {
				files = append(files, file)
			}
		}
	}
	return files
}

// release releases all keys, returns when they are free, and leaves no connection. The error names
// the keys lost before.
func (h *holder) release() error {
	errs := make([]error, len(h.holds))
	var all sync.WaitGroup
	for i, hold := range h.holds {
		all.Go(func() {
			if err := hold.Release(); err != nil {
				errs[i] = fmt.Errorf("%q: %w", h.keys[i], err)
			}
		})
	}
	all.Wait()
	for _, c := range h.clients {
		h.link.drop(c)
	}
	h.holds, h.keys, h.clients = nil, nil, nil
	return errors.Join(errs...)
}

// deadline returns when the first of the leases ends without a renewal by the node.
func (h *holder) deadline() (first time.Time) {
	for _, hold := range h.holds {
		if d := hold.Deadline(); first.IsZero() || d.Before(first) {
			first = d
		}
	}
	return first
}

// lost returns a channel of losses. The writing goroutines end when the keys are released.
func (h *holder) lost() <-chan error {
	out := make(chan error, len(h.holds))
	for i, hold := range h.holds {
		key := h.keys[i]
		go func() {
			<-hold.Done()
			if err := hold.Err(); !errors.Is(err, lockmesh.ErrReleased) || errors.Is(err, lockmesh.ErrLost) {
				out <- fmt.Errorf("%q: %w", key, err)
			}
		}()
	}
	return out
}

// environment returns the variables with the locks, for the command.
func (h *holder) environment() []string {
	last := h.holds[0].Last()
	return []string{
		"LOCKMESH_KEY=" + last.Key, fmt.Sprintf("LOCKMESH_TOKEN=%d", last.Token), "LOCKMESH_NODE=" + last.Node,
		"LOCKMESH_TOKENS=" + h.tokens(),
	}
}

// tokens returns all keys and their tokens, a line each.
func (h *holder) tokens() (text string) {
	for i, hold := range h.holds {
		if i > 0 {
			text += "\n"
		}
		text += fmt.Sprintf("%d %s", hold.Token(), h.keys[i])
	}
	return text
}

// interrupted is the cause of a context ended by a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by a signal: " + i.signal.String() }
