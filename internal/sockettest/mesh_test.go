package sockettest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// The tests wait for conditions, and run in parallel, since the tests mostly wait.

const (
	// loopTTL is for meshes without leases that must stay held: a busy machine may stop a process
	// for longer.
	loopTTL = 500 * time.Millisecond
	// calmTTL is for all other meshes.
	calmTTL = 10 * time.Second
	// patience bounds every wait. Only a hang takes so long.
	patience = time.Minute
)

// ownSecret returns the secret of a mesh. No two meshes of tests share a secret: a node may be
// given the port of an ended node of another mesh, and the peers of the ended node still dial this
// port. With a shared secret the two meshes would become one, with two nodes of each name.
func ownSecret() []byte { return []byte(rand.Text()) }

// onLoopback is a mesh of real nodes.
type onLoopback struct {
	t      *testing.T
	secret []byte
	ttl    time.Duration
	voters []string
	peers  []string
	nodes  []*lockmesh.Mesh
}

// loopback starts a mesh and waits until every node is ready.
func loopback(t *testing.T, ttl time.Duration, voters ...string) *onLoopback {
	sampled.Waits(t)
	r := &onLoopback{t: t, secret: ownSecret(), ttl: ttl, voters: voters}
	for _, v := range voters {
		r.join(v, nil)
	}
	for _, m := range r.nodes {
		r.ready(m)
	}
	return r
}

// calmMesh starts the mesh shared by tests: three voters, which are quiet for calmTTL at first, and
// a node without a vote. All of these nodes go on. A test has keys of its own.
var calmMesh = sync.OnceValues(func() ([]*lockmesh.Mesh, error) {
	r := &onLoopback{secret: calmSecret, ttl: calmTTL, voters: []string{"a", "b", "c"}}
	for _, name := range []string{"a", "b", "c", "d"} {
		m, err := lockmesh.Join(context.Background(), r.config(name))
		if err != nil {
			return nil, err
		}
		calmNodes, r.peers = append(calmNodes, m), append(r.peers, m.Addr())
	}
	return calmNodes, nil
})

// calmNodes are the nodes of the shared mesh.
var calmNodes []*lockmesh.Mesh

func closeCalmMesh() {
	for _, m := range calmNodes {
		_ = m.Close() // the tests judge their own leftovers
	}
}

var calmSecret = ownSecret()

// calm returns the shared mesh when all its nodes are ready. Further nodes joined by the test
// belong to the test.
func calm(t *testing.T) *onLoopback {
	t.Helper()
	sampled.Waits(t)
	nodes, err := calmMesh()
	if err != nil {
		t.Fatal(err)
	}
	r := &onLoopback{t: t, secret: calmSecret, ttl: calmTTL, voters: []string{"a", "b", "c"}, nodes: slices.Clone(nodes)}
	for _, m := range nodes {
		r.ready(m)
		r.peers = append(r.peers, m.Addr())
	}
	return r
}

func (r *onLoopback) config(name string) lockmesh.Config {
	return lockmesh.Config{
		Name: name, Bind: "127.0.0.1:0", Peers: r.peers, Voters: r.voters, MaxTTL: r.ttl, Secret: r.secret, Logger: slog.New(slog.DiscardHandler),
	}
}

func (r *onLoopback) join(name string, edit func(*lockmesh.Config)) *lockmesh.Mesh {
	r.t.Helper()
	cfg := r.config(name)
	if edit != nil {
		edit(&cfg)
	}
	m, err := lockmesh.Join(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.nodes = append(r.nodes, m)
	r.peers = append(r.peers, m.Addr())
	r.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			r.t.Errorf("closing %s: %v", name, err)
		}
	})
	return m
}

func (r *onLoopback) ready(m *lockmesh.Mesh) {
	r.t.Helper()
	if err := m.Ready(testwait.Within(r.t, patience)); err != nil {
		r.t.Fatalf("%v\n%v", err, m.Status())
	}
}

func (r *onLoopback) lock(m *lockmesh.Mesh, key string) *lockmesh.Lease {
	r.t.Helper()
	lease, err := m.Lock(testwait.Within(r.t, patience), key)
	if err != nil {
		r.t.Fatal(err)
	}
	return lease
}

func TestThreeNodesNeverShareALock(t *testing.T) {
	t.Parallel()
	r := calm(t)
	var holders, turns atomic.Int64
	var last atomic.Uint64
	var work sync.WaitGroup
	for i := range 12 {
		m := r.nodes[i%len(r.nodes)]
		work.Go(func() {
			for range 10 {
				err := m.Do(testwait.Within(t, patience), "shared by nobody", func(_ context.Context, l *lockmesh.Lease) error {
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d hold the lock", n)
					}
					if before := last.Swap(l.Token()); before >= l.Token() {
						t.Errorf("token %d follows %d", l.Token(), before)
					}
					turns.Add(1)
					holders.Add(-1)
					return l.Err()
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if turns.Load() != 120 {
		t.Errorf("%d of 120 had their turn", turns.Load())
	}
}

func TestExactlyOneOfManyTryLocksWinsOverSockets(t *testing.T) {
	t.Parallel()
	r := calm(t)
	for range 20 {
		var work sync.WaitGroup
		leases := make([]*lockmesh.Lease, 12)
		for i := range leases {
			work.Go(func() {
				lease, err := r.nodes[i%4].TryLock(testwait.Within(t, patience), "tried by many")
				if err != nil && !errors.Is(err, lockmesh.ErrHeld) {
					t.Error(err)
				}
				leases[i] = lease
			})
		}
		work.Wait()
		won := 0
		for _, lease := range leases {
			if lease != nil {
				won++
				if err := lease.Unlock(testwait.Within(t, patience)); err != nil {
					t.Error(err)
				}
			}
		}
		if won != 1 {
			t.Fatalf("%d of %d won", won, len(leases))
		}
	}
}

func TestTheNextWaiterFollowsAHolderThatCrashed(t *testing.T) {
	sampled.OnlyRaced(t)
	t.Parallel()
	r := calm(t)
	crashes, b := r.join("crashes", nil), r.nodes[1]
	r.ready(crashes)
	first := r.lock(crashes, "of the crashed")
	served := make(chan *lockmesh.Lease, 1)
	go func() {
		lease, err := b.Lock(testwait.Within(t, patience), "of the crashed")
		if err != nil {
			t.Error(err)
		}
		served <- lease
	}()
	testwait.Until(t, "b waits", func() bool { return waits(b, "of the crashed") })
	deadline := first.Deadline() // the deadline may be extended before the crash, and then is later
	if err := crashes.Close(); err != nil {
		t.Fatal(err)
	}
	wantIs(t, first.Err(), lockmesh.ErrLost, lockmesh.ErrClosed)
	second := <-served
	if second == nil {
		return
	}
	late := time.Since(deadline)
	t.Logf("taken over %v after the deadline", late)
	if late < 0 {
		t.Errorf("taken over %v before the deadline", -late)
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d follows %d", second.Token(), first.Token())
	}
	if err := second.Unlock(testwait.Within(t, patience)); err != nil {
		t.Error(err)
	}
}

// waits reports whether a node waits for a key.
func waits(m *lockmesh.Mesh, key string) bool {
	return slices.ContainsFunc(m.Status().Waiting, func(w lockmesh.WaitStatus) bool { return w.Key == key })
}

// knows reports whether gossip shows a member in a state to a node.
func knows(m *lockmesh.Mesh, name, state string) bool {
	return slices.ContainsFunc(m.Status().Members, func(s lockmesh.MemberStatus) bool { return s.Name == name && s.State == state })
}

func TestAVoterThatComesBackCounts(t *testing.T) {
	t.Parallel()
	r := loopback(t, loopTTL, "a", "b", "c")
	a, b := r.nodes[0], r.nodes[1]
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	again := r.join("a", func(c *lockmesh.Config) { c.Peers = r.peers[1:] })
	r.ready(again)
	testwait.Until(t, "b counts on the new life of a", func() bool {
		s := b.Status()
		for _, m := range s.Members {
			if m.Name == "a" && m.Incarnation == again.Status().Incarnation {
				return s.Electorate.Voters[0].State == lockmesh.VoterReachable
			}
		}
		return false
	})
}

func TestLeaveHandsOverOverSockets(t *testing.T) {
	t.Parallel()
	r := calm(t)
	leaves, b := r.join("leaves", nil), r.nodes[1]
	r.ready(leaves)
	lease := r.lock(leaves, "of the leaver")
	served := make(chan *lockmesh.Lease, 1)
	go func() {
		lease, err := b.Lock(testwait.Within(t, patience), "of the leaver")
		if err != nil {
			t.Error(err)
		}
		served <- lease
	}()
	testwait.Until(t, "b waits", func() bool { return waits(b, "of the leaver") })
	defer func() {
		if t.Failed() {
			t.Logf("b sees %+v", b.Status().Members)
		}
	}()
	// gossip ignores the leave message of a node that isn't known yet
	testwait.Until(t, "b knows the leaver", func() bool { return knows(b, "leaves", "alive") })
	began := time.Now()
	if err := leaves.Leave(testwait.Within(t, patience)); err != nil {
		t.Error(err)
	}
	next := <-served
	t.Logf("the waiter was served %v after Leave began", time.Since(began))
	wantIs(t, lease.Err(), lockmesh.ErrReleased)
	testwait.Until(t, "b hears the goodbye", func() bool { return knows(b, "leaves", "left") })
	if next != nil {
		if err := next.Unlock(testwait.Within(t, patience)); err != nil {
			t.Error(err)
		}
	}
}

func TestARefusalNamesBothValuesOverSockets(t *testing.T) {
	t.Parallel()
	r := loopback(t, loopTTL, "a", "b", "c")
	for _, row := range []struct {
		name string
		edit func(*lockmesh.Config)
		says []string
	}{
		{"another MaxTTL", func(c *lockmesh.Config) { c.MaxTTL = 2 * loopTTL }, []string{"MaxTTL", "1s", "500ms"}},
		{"other voters", func(c *lockmesh.Config) { c.Voters = []string{"a", "b", "d"} }, []string{"voters", "[a b c]", "[a b d]"}},
		{"another mesh", func(c *lockmesh.Config) { c.Mesh = "other" }, []string{"mesh name", `"other"`, `"default"`}},
		{"another secret", func(c *lockmesh.Config) { c.Secret = []byte("of another test, 16") }, []string{"secret"}},
		{"no secret", func(c *lockmesh.Config) { c.Secret = nil }, []string{"secret"}},
	} {
		cfg := r.config("d")
		row.edit(&cfg)
		m, err := lockmesh.Join(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Lock(testwait.Within(t, patience), "k")
		wantIs(t, err, lockmesh.ErrRefused)
		for _, text := range row.says {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q doesn't say %q", row.name, err, text)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLaterOfTwoProcessesIsRefusedOverSockets(t *testing.T) {
	sampled.OnlyRaced(t)
	t.Parallel()
	r := loopback(t, calmTTL, "a", "b", "c")
	first := r.lock(r.nodes[0], "k")
	twin := r.join("a", nil)
	testwait.Until(t, "the twin is refused", func() bool {
		lease, err := twin.TryLock(testwait.Within(t, patience), "other")
		if lease != nil {
			_ = lease.Unlock(t.Context())
		}
		return errors.Is(err, lockmesh.ErrRefused)
	})
	for range 20 {
		_, err := twin.TryLock(testwait.Within(t, patience), "other")
		wantIs(t, err, lockmesh.ErrRefused)
	}
	if err := first.Err(); err != nil {
		t.Errorf("the first was disturbed: %v", err)
	}
}

func TestBindTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = lockmesh.Join(t.Context(), lockmesh.Config{Name: "a", Bind: l.Addr().String(), Voters: []string{"a"}})
	wantIs(t, err, lockmesh.ErrConfig)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is taken", l.Addr())) {
		t.Errorf("%v doesn't name the address", err)
	}
}

func TestPeersThatCantBeLookedUpAreTriedOn(t *testing.T) {
	t.Parallel()
	log := &lineCount{want: "can't be looked up"}
	m, err := lockmesh.Join(t.Context(), lockmesh.Config{
		Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a", "b"}, Peers: []string{"no.such.host.invalid:7950"}, MaxTTL: loopTTL, Logger: slog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the log says so", func() bool { return log.n.Load() > 0 })
	_, err = m.TryLock(testwait.Within(t, patience), "k")
	wantIs(t, err, lockmesh.ErrNoQuorum)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := log.n.Load(); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// lineCount counts log lines that contain a text.
type lineCount struct {
	want string
	n    atomic.Int64
}

func (*lineCount) Enabled(context.Context, slog.Level) bool { return true }

func (l *lineCount) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.want) {
		l.n.Add(1)
	}
	return nil
}

func (l *lineCount) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lineCount) WithGroup(string) slog.Handler { return l }

func TestOnLoopbackThreeFoundAndAFourthTakesLocks(t *testing.T) {
	sampled.Waits(t)
	// A founder must know the address of another founder, so each founder but the first names the
	// earlier founders.
	t.Parallel()
	r := &onLoopback{t: t, secret: ownSecret(), ttl: calmTTL, voters: []string{"a", "b", "c"}}
	dirs := t.TempDir()
	follow := func(c *lockmesh.Config) {
		c.StateDir, c.Bootstrap = filepath.Join(dirs, c.Name), slices.Contains(r.voters, c.Name)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.join(name, follow)
	}
	for _, m := range r.nodes {
		r.ready(m)
		lease := r.lock(m, "k")
		if err := lease.Unlock(testwait.Within(t, patience)); err != nil {
			t.Error(err)
		}
	}
	if s := r.nodes[3].Status().Electorate; s.Version != 1 || s.Voter || len(s.Voters) != 3 {
		t.Errorf("%v", r.nodes[3].Status())
	}
	if _, err := lockmesh.Join(t.Context(), lockmesh.Config{Name: "a", Bind: "127.0.0.1:0", Voters: r.voters, StateDir: filepath.Join(dirs, "a"), Secret: r.secret}); err == nil ||
		!errors.Is(err, lockmesh.ErrStateDir) || !strings.Contains(err.Error(), "stop the other process") {
		t.Errorf("a directory that is in use: %v", err)
	}
}
