package meshtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

// logRecorder counts the log lines of all nodes of a mesh, by level and text.
type logRecorder struct {
	mu    sync.Mutex
	lines map[string]int
	each  []string // node and line, in order
}

func (b *logRecorder) of(node string) *slog.Logger { return slog.New(&recorderHandler{b, node}) }

// take returns the counts since the last call, and clears the counts.
func (b *logRecorder) take() (lines map[string]int, each []string) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, each = b.lines, b.each
	b.lines, b.each = nil, nil
	return lines, each
}

type recorderHandler struct {
	*logRecorder
	node string
}

func (p *recorderHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}
func (p *recorderHandler) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p *recorderHandler) WithGroup(string) slog.Handler      { return p }
func (p *recorderHandler) Handle(_ context.Context, r slog.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = make(map[string]int)
	}
	p.lines[r.Level.String()+" "+r.Message]++
	text := fmt.Sprintf("%s %s: %s %s", r.Time.Format("15:04:05.0"), p.node, r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	p.each = append(p.each, text)
	return nil
}

// A mesh that starts as it should logs no warning, nor does a calm hour; in a rolling restart and
// in a cut each node logs each missing voter and the loss of the majority once, and each return
// once. No other line is logged. The mesh has five nodes, for each kind of mesh.
func TestTheLogIsWorthReading(t *testing.T) {
	sampled.Unraced(t)
	sampled.Computes(t)
	const nodes = 5
	for _, kind := range []string{"fixed", "dynamic"} {
		t.Run(kind, func(t *testing.T) {
			var book logRecorder
			opts := []meshtest.Option{meshtest.WithConfig(func(c *lockmesh.Config) { c.Logger, c.Secret = book.of(c.Name), []byte("sixteen bytes or more") })}
			start := map[string]int{"INFO node started": nodes}
			if kind == "dynamic" {
				opts = append(opts, meshtest.WithDynamicMembership())
				start["INFO this node bootstraps the electorate as soon as all founders reach each other"] = nodes
				start["INFO the electorate has changed"] = nodes
				start["WARN BOOTSTRAP IS STILL SET"] = nodes
			}
			meshtest.Run(t, nodes, func(t *testing.T, m *meshtest.Mesh) {
				expect := func(what string, want map[string]int) {
					t.Helper()
					got, each := book.take()
					for text, n := range got { // without the details and the advice
						for _, mark := range []string{" though ", ": a majority of", ": enough of"} {
							if short, _, cut := strings.Cut(text, mark); cut {
								delete(got, text)
								got[short] += n
							}
						}
					}
					if !maps.Equal(got, want) {
						t.Errorf("%s: the logs say %v, want %v; line by line:\n%s", what, got, want, strings.Join(each, "\n"))
					}
				}
				work := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Second) {
						for _, n := range m.Nodes() {
							ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
							if lease, err := n.Lock(ctx, "k"); err == nil {
								_ = lease.Unlock(ctx)
							}
							cancel()
						}
					}
				}

				m.Ready()
				time.Sleep(time.Minute)
				expect("a first start", start)

				work(time.Hour)
				expect("a calm hour", nil)

				names := []string{"a", "b", "c", "d", "e"}
				for _, name := range names {
					m.Crash(name)
					time.Sleep(3 * time.Second)
					n := m.Restart(name)
					if err := n.Settled(t.Context()); err != nil {
						t.Fatal(err)
					}
					work(time.Minute)
				}
				restart := map[string]int{
					"INFO node started":          nodes,
					"WARN a voter doesn't count": nodes * (nodes - 1),
					"INFO a voter counts again":  nodes * (nodes - 1),
				}
				expect("a rolling restart", restart)

				m.Partition([]string{"a", "b"}, []string{"c", "d", "e"})
				work(2 * time.Minute)
				m.Heal()
				work(2 * time.Minute)
				cut := map[string]int{
					"WARN a voter doesn't count": 2*3 + 3*2, "INFO a voter counts again": 2*3 + 3*2,
					"WARN no majority: locks can't be granted": 2, "INFO majority back: locks can be granted again": 2,
				}
				// c, d and e vote a and b out, and in again, so a and b are other voters on their
				// return
				if kind == "dynamic" {
					cut["INFO a voter counts again"] = 2 * 3
					cut["INFO the electorate has changed"] = 18
					cut["ERROR the electorate is lost"], cut["INFO the electorate is no longer lost"] = 2, 2
				}
				expect("a cut of two minutes", cut)
			}, opts...)
		})
	}
}
