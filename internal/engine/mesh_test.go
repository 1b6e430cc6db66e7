package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	minTTL  = 200 * time.Millisecond
	testTTL = 10 * time.Second
)

// mesh is a network in memory with engines, in a single bubble of fake time.
type mesh struct {
	*memnet.Network
	t       *testing.T
	stalled map[string]bool // messages from and to these nodes wait
	engines []*Engine
}

// inBubble runs a test in a bubble with a network on which messages take no time. All engines are
// closed at the end of the test.
func inBubble(t *testing.T, f func(t *testing.T, w *mesh)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &mesh{Network: memnet.New(0), t: t, stalled: make(map[string]bool)}
		defer func() {
			for _, eng := range w.engines {
				if eng.IsClosing() {
					continue
				}
				if err := eng.Close(); err != nil {
					t.Errorf("closing %s: %v", eng.self.Node, err)
				}
			}
		}()
		f(t, w)
	})
}

// start starts a node with a name of a single letter.
func (w *mesh) start(name string, voters ...string) *Engine {
	w.t.Helper()
	return w.startWith(name, func(*Config) {}, voters...)
}

// startWith starts a node with a changed configuration.
func (w *mesh) startWith(name string, edit func(*Config), voters ...string) *Engine {
	w.t.Helper()
	addr := func(name string) string { return fmt.Sprintf("10.0.0.%d:7950", name[0]-'a'+1) }
	p := w.Start()
	cfg := Config{
		Name: name, Mesh: "default", Bind: addr(name), Voters: voters, MaxTTL: testTTL, TTL: testTTL, Insecure: true,
		Clocks: clock.New(p.Clock()), Logger: slog.New(slog.DiscardHandler), API: api{}, Limits: Limits{Watches: 8, Peers: 8, MinTTL: minTTL},
	}
	for _, v := range voters {
		cfg.Peers = append(cfg.Peers, addr(v))
	}
	edit(&cfg)
	eng, err := Start(w.t.Context(), cfg, p.World())
	if err != nil {
		w.t.Fatal(err)
	}
	w.engines = append(w.engines, eng)
	return eng
}

// alone starts a node as the only voter, and waits until the node is ready and idle.
func (w *mesh) alone() *Engine {
	w.t.Helper()
	eng := w.start("a", "a")
	if err := eng.Ready(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return eng
}

// three starts three nodes, all voters, and waits until all are ready.
func (w *mesh) three() (a, b, c *Engine) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	a, b, c = w.start("a", voters...), w.start("b", voters...), w.start("c", voters...)
	for _, eng := range w.engines {
		if err := eng.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

// stall holds back all messages from and to a node from now on, or stops doing so.
func (w *mesh) stall(name string, on bool) {
	w.stalled[name] = on
	stalled := maps.Clone(w.stalled)
	w.Cut(func(from, to string) bool { return stalled[from] || stalled[to] })
}

// api is the API above the engine, for tests: a lease is its own handle.
type api struct{}

// failure is the error of a failed call.
type failure struct{ errs.Failure }

func (f failure) Error() string { return fmt.Sprintf("%+v", f.Failure) }

func (f failure) Unwrap() []error { return []error{f.Reason, f.Err} }

func (api) Error(f errs.Failure) error { return failure{f} }

func (api) EndError(op, key string, cause error, text string) error {
	return failure{errs.Failure{Op: op, Key: key, Reason: cause, Text: text}}
}

func (api) NewLease() (*Lease, any) {
	l := new(Lease)
	return l, l
}

func (api) NewRevocations() Revocations { return discarded{} }

type discarded struct{}

func (discarded) Add(_, _ string) {}

// requestFor returns a request for a key.
func requestFor(key string, mode vote.Mode) *Request {
	r := new(Request)
	r.Key, r.Mode = vote.Key(key), mode
	return r
}

// lock acquires a key exclusively.
func lock(ctx context.Context, eng *Engine, key string) (*Lease, error) {
	return granted(eng.Request(ctx, "lock", requestFor(key, vote.Exclusive)))
}

func granted(handle any, err error) (*Lease, error) {
	lease, _ := handle.(*Lease)
	return lease, err
}

// mustLock acquires a key in a mode.
func mustLock(t *testing.T, eng *Engine, key string, mode vote.Mode) *Lease {
	t.Helper()
	lease, err := granted(eng.Request(t.Context(), "lock", requestFor(key, mode)))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// unlock does the same as Unlock.
func unlock(ctx context.Context, l *Lease) error {
	if l.Err() != nil || !l.End() {
		return l.UnlockError(l.Cause())
	}
	l.Release()
	return l.AwaitRelease(ctx)
}

func mustUnlock(t *testing.T, l *Lease) {
	t.Helper()
	if err := unlock(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// wantIs fails the test unless the error is each of the targets.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v is not %v", err, target)
		}
	}
}
