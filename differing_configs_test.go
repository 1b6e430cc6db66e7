package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/lockmeshhttp"
)

// camp is a configuration of a mesh, and the nodes that start with the configuration.
type camp struct {
	voters  string        // the list, with spaces in between
	run     string        // the voters of the list that start with the configuration
	client  string        // a node without a vote
	maxTTL  time.Duration // zero: the default
	dynamic bool          // with state directories
	later   time.Duration // how long after the other camp the nodes start
	shows   []string      // the values of the settings that differ, as errors show the values
}

// voting returns the voters that start with the configuration.
func (c *camp) voting() []string { return strings.Fields(c.run) }

// nodes returns all nodes that start with the configuration.
func (c *camp) nodes() []string { return append(c.voting(), c.client) }

// last returns the last voter if there are several, else the client.
func (c *camp) last() string {
	if all := c.voting(); len(all) > 1 {
		return all[len(all)-1]
	}
	return c.client
}

func (c *camp) ttl() time.Duration {
	if c.maxTTL > 0 {
		return c.maxTTL
	}
	return lockmesh.DefaultMaxTTL
}

// camps is two camps of one mesh on a network in memory, in a bubble of simulated time.
type camps struct {
	*memnet.Network
	t      *testing.T
	side   map[string]*camp // by node: the side of a cut, even after a change of configuration
	nodes  map[string]*lockmesh.Mesh
	probes map[string]*lockmeshhttp.Probes
	logs   map[string]*campLog
}

// campLog keeps the log lines of one process.
type campLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *campLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

// errors returns the lines at the level ERROR.
func (l *campLog) errors() []string { return l.with("level=ERROR") }

// with returns the lines that contain a text.
func (l *campLog) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// inCamps runs a test of two camps in a bubble, and closes all nodes at the end.
func inCamps(t *testing.T, one, other *camp, play func(*camps)) {
	synctest.Test(t, func(t *testing.T) {
		f := &camps{
			Network: memnet.New(time.Millisecond), t: t, side: make(map[string]*camp),
			nodes: make(map[string]*lockmesh.Mesh), probes: make(map[string]*lockmeshhttp.Probes),
			logs: make(map[string]*campLog),
		}
		for _, c := range []*camp{one, other} {
			for _, name := range c.nodes() {
				f.side[name] = c
			}
		}
		defer func() {
			for _, name := range slices.Collect(maps.Keys(f.nodes)) {
				f.stop(name)
			}
		}()
		play(f)
	})
}

// all returns the names of all nodes, in order.
func (f *camps) all() []string { return slices.Sorted(maps.Keys(f.side)) }

// cut cuts the two sides off from each other, or ends the cut.
func (f *camps) cut(on bool) {
	f.Cut(func(from, to string) bool { return on && f.side[from] != f.side[to] })
}

// campAddr is where the node of a one-letter name listens.
func campAddr(name string) string { return fmt.Sprintf("10.0.0.%d:7950", name[0]-'a'+1) }

// joinIn is lockmesh.Join in a given world, here the network in memory.
var joinIn = world.Join.(func(
	context.Context, lockmesh.Config, world.World,
) (*lockmesh.Mesh, error))

// start starts a process of a node with the configuration of a camp.
func (f *camps) start(name string, c *camp) {
	f.t.Helper()
	p, log := f.Start(), &campLog{}
	cfg := lockmesh.Config{
		Name: name, Mesh: "camps", Bind: campAddr(name), Voters: strings.Fields(c.voters),
		MaxTTL: c.maxTTL, Secret: []byte("one secret for both sides"), Clock: p.Clock(),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	for _, peer := range f.all() {
		cfg.Peers = append(cfg.Peers, campAddr(peer))
	}
	if c.dynamic {
		cfg.StateDir, cfg.Bootstrap = "/state/"+name, slices.Contains(c.voting(), name)
	}
	m, err := joinIn(f.t.Context(), cfg, p.World())
	if err != nil {
		f.t.Fatal(err)
	}
	f.nodes[name], f.logs[name], f.probes[name] = m, log, lockmeshhttp.New(m)
}

// startAll starts both camps, the later one after its time, and waits until all nodes are ready.
func (f *camps) startAll(cs ...*camp) {
	f.t.Helper()
	slices.SortFunc(cs, func(a, b *camp) int { return int(a.later - b.later) })
	for _, c := range cs {
		time.Sleep(c.later)
		for _, name := range c.nodes() {
			f.start(name, c)
		}
	}
	f.ready(f.all()...)
}

// ready waits until nodes are ready.
func (f *camps) ready(names ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for _, name := range names {
		if err := f.nodes[name].Ready(ctx); err != nil {
			f.t.Fatalf("the occasion isn't there: %s: %v", name, err)
		}
	}
}

// stop ends a node's process.
func (f *camps) stop(name string) {
	f.t.Helper()
	if err := f.nodes[name].Close(); err != nil {
		f.t.Errorf("closing %s: %v", name, err)
	}
}

// lock has a node take a key that is free.
func (f *camps) lock(name, key string) *lockmesh.Lease {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	l, err := f.nodes[name].Lock(ctx, key)
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return l
}

func (f *camps) unlock(l *lockmesh.Lease) {
	f.t.Helper()
	if err := l.Unlock(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// serves demands that a node gets a free key at once.
func (f *camps) serves(name string) {
	f.t.Helper()
	f.unlock(f.lock(name, "free"))
}

// lockResult is the result of a call of Lock.
type lockResult struct {
	lease *lockmesh.Lease
	err   error
}

// later has a node wait for a key.
func (f *camps) later(name, key string) <-chan lockResult {
	result := make(chan lockResult, 1)
	go func() {
		l, err := f.nodes[name].Lock(f.t.Context(), key)
		result <- lockResult{l, err}
	}()
	synctest.Wait()
	return result
}

// calls makes each call that a refused node refuses, and returns the errors.
func (f *camps) calls(name string) []error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	m := f.nodes[name]
	_, lock := m.Lock(ctx, "k")
	_, free := m.Lock(ctx, "never held")
	_, try := m.TryLock(ctx, "k")
	all := []error{lock, free, try, m.Ready(ctx), m.Settled(ctx)}
	for i, err := range all {
		if err == nil {
			f.t.Fatalf("call %d of %s isn't refused", i, name)
		}
	}
	return all
}

// probe demands an answer of a node to its orchestrator.
func (f *camps) probe(name, path string, code int, start string) {
	f.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, path, nil)
	f.probes[name].ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != code || !strings.HasPrefix(text, start) {
		f.t.Errorf("%s answers %s by %d %s, want %d %s", name, path, w.Code, text, code, start)
	}
}

// is demands that an error matches each given error, or is nil if none is given.
func (f *camps) is(err error, want ...error) {
	f.t.Helper()
	if len(want) == 0 && err != nil {
		f.t.Fatal(err)
	}
	for _, target := range want {
		if !errors.Is(err, target) {
			f.t.Fatalf("%v isn't %v", err, target)
		}
	}
}

// says demands that a text contains each of some words.
func (f *camps) says(text string, words ...string) {
	f.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			f.t.Errorf("%q isn't in %s", word, text)
		}
	}
}
