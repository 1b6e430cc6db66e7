package lockmesh

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// living is a mesh in memory with dynamic membership, in a bubble.
type living struct {
	*wire
	founders []string
	procs    map[string]*memnet.Process
	nodes    map[string]*Mesh
	logs     *logged
}

// logged keeps the log lines of nodes.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// count returns the number of lines with all the words.
func (l *logged) count(words ...string) int { return len(l.all(words...)) }

// all returns the lines with all the words.
func (l *logged) all(words ...string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

func inLivingBubble(t *testing.T, f func(t *testing.T, w *living)) {
	t.Helper()
	inBubble(t, func(t *testing.T, w *wire) {
		f(t, &living{
			wire: w, founders: []string{"a", "b", "c"}, procs: make(map[string]*memnet.Process), nodes: make(map[string]*Mesh), logs: &logged{},
		})
	})
}

func statePath(name string) string { return "/state/" + name }

// config returns the configuration of a node without Bootstrap.
func (w *living) config(name string) Config {
	cfg := Config{
		Name: name, Bind: wireAddr(name), Voters: w.founders, Insecure: true, StateDir: statePath(name),
		Logger: slog.New(slog.NewTextHandler(w.logs, nil)).With("on", name),
	}
	for _, v := range w.founders {
		cfg.Peers = append(cfg.Peers, wireAddr(v))
	}
	return cfg
}

// try starts a node; edit may be nil.
func (w *living) try(name string, edit func(*Config)) (*Mesh, error) {
	w.t.Helper()
	p := w.Start()
	cfg := w.config(name)
	cfg.Clock = p.Clock()
	if edit != nil {
		edit(&cfg)
	}
	m, err := join(w.t.Context(), cfg, p.World())
	if err == nil {
		w.meshes = append(w.meshes, m)
		w.procs[name], w.nodes[name], w.clocks[m] = p, m, p.Clock()
	}
	return m, err
}

func (w *living) start(name string, edit func(*Config)) *Mesh {
	w.t.Helper()
	m, err := w.try(name, edit)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func found(c *Config) { c.Bootstrap = true }

// crash ends a node without a message to the others.
func (w *living) crash(name string) {
	w.t.Helper()
	w.procs[name].Kill()
	if err := w.nodes[name].Close(); err != nil {
		w.t.Error(err)
	}
}

// foundAll starts the founders, and waits until every voter counts at each founder. Two voters are
// a majority, so a node is Ready before the third voter has answered, and before the node has
// stored the electorate. If a test then ended two nodes, a node that was not Ready would become
// Ready for a moment by messages still under way.
func (w *living) foundAll() {
	w.t.Helper()
	for _, name := range w.founders {
		w.start(name, found)
	}
	for _, name := range w.founders {
		w.ready(name)
	}
	for _, name := range w.founders {
		w.until(name, "the electorate stored, and every voter counting", func(s ElectorateStatus) bool {
			return s.Version > 0 && s.StoredVersion == s.Version && s.Counting == len(w.founders)
		})
	}
}

func (w *living) ready(name string) {
	w.t.Helper()
	if err := w.nodes[name].Ready(testwait.Within(w.t, time.Minute)); err != nil {
		w.t.Fatalf("%v\n%v", err, w.nodes[name].Status())
	}
}

// until waits for a state of the electorate in the view of a node.
func (w *living) until(name, what string, ok func(s ElectorateStatus) bool) ElectorateStatus {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	states, err := w.nodes[name].WatchElectorate(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for s := range states {
		if ok(s) {
			cancel()
			for range states {
			}
			return s
		}
	}
	w.t.Fatalf("%s never saw %s:\n%v", name, what, w.nodes[name].Status())
	return ElectorateStatus{}
}

func (s ElectorateStatus) names() (names []string) {
	for _, v := range s.Voters {
		names = append(names, v.Name)
	}
	return names
}

// untilVoters waits until a node sees these voters, in an electorate that isn't joint.
func (w *living) untilVoters(name string, voters ...string) ElectorateStatus {
	w.t.Helper()
	return w.until(name, strings.Join(voters, ", ")+" vote", func(s ElectorateStatus) bool {
		return !s.Joint && slices.Equal(s.names(), voters)
	})
}

// lock has a node take a lock.
func (w *living) lock(name, key string) *Lease {
	w.t.Helper()
	l, err := w.nodes[name].Lock(testwait.Within(w.t, time.Minute), key)
	if err != nil {
		w.t.Fatalf("%v\n%v", err, w.nodes[name].Status())
	}
	return l
}

func (w *living) unlock(l *Lease) {
	w.t.Helper()
	if err := l.Unlock(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestThreeFoundersFoundOnce(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		for _, name := range w.founders {
			w.until(name, "version 1", func(s ElectorateStatus) bool {
				return s.Version == 1 && s.StoredVersion == 1 && s.Voter && s.Majority == 2 && s.Counting == 3 && s.Change == "" && s.Trouble == "" && s.Lost == ""
			})
			w.unlock(w.lock(name, "k"))
		}
		time.Sleep(time.Minute)
		if n := w.logs.count("the electorate has changed"); n != 3 {
			t.Errorf("%d changes were logged, want one on each of three nodes", n)
		}
		synctest.Wait()
		if v := w.nodes["a"].Status().Electorate.Version; v != 1 {
			t.Errorf("version %d", v)
		}
	})
}
