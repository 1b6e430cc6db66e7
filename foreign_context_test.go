package lockmesh

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// curious is a context with a method Err that calls into the mesh first.
type curious struct {
	context.Context
	mesh *Mesh
}

func (c curious) Err() error {
	_ = c.mesh.Status()
	return c.Context.Err()
}

// The loop calls no method of a context: a context is the application's code, and may call into the
// loop.
func TestTheLoopAsksNoContext(t *testing.T) {
	for name, call := range map[string]func(m *Mesh, ctx context.Context) error{
		"lock":  func(m *Mesh, ctx context.Context) error { _, err := m.Lock(ctx, "k"); return err },
		"ready": func(m *Mesh, ctx context.Context) error { return m.Ready(ctx) },
		"leave": func(m *Mesh, ctx context.Context) error { return m.eng.LeaveElectorate(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inLivingBubble(t, func(t *testing.T, w *living) {
				// Of three voters a may leave, once the other voters are back. One of two would
				// hear at once that the vote can't be given up.
				w.founders = []string{"a", "b", "c"}
				w.foundAll()
				a := w.nodes["a"]
				w.crash("b")
				w.crash("c")
				if name == "ready" {
					w.untilNotReady("a")
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(a, curious{ctx, a}) }()
				synctest.Wait()
				cancel()
				time.Sleep(time.Second)
				select {
				case err := <-done:
					wantIs(t, err, context.Canceled)
				default:
					t.Fatal("the call doesn't return")
				}
			})
		})
	}
}

func (w *living) untilNotReady(name string) {
	w.until(name, "no majority", func(s ElectorateStatus) bool { return !s.Ready })
}

func TestTheLoopAsksNoContextOfAWatchThatIsOverBeforeItBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		hold := make(chan struct{})
		a.eng.Post(false, func(vote.Now) { <-hold })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			states, err := a.WatchElectorate(watching{ctx, a})
			if err == nil {
				for range states {
				}
			}
			over <- err
		}()
		synctest.Wait()
		cancel()
		close(hold)
		time.Sleep(time.Second)
		select {
		case err := <-over:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the watch doesn't end")
		}
	})
}

// watching is a curious that calls into the mesh only after its end.
type watching curious

func (c watching) Err() error {
	if err := c.Context.Err(); err == nil {
		return nil
	}
	return curious(c).Err()
}
