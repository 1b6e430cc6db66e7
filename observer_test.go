package lockmesh

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// told keeps the events of an observer, in order.
type told struct {
	mu     sync.Mutex
	events []any
}

func (s *told) add(e any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// take returns the events of type E so far, once all goroutines wait, and forgets all events.
func take[E any](s *told) (of []E) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e, ok := e.(E); ok {
			of = append(of, e)
		}
	}
	s.events = nil
	return of
}

// words describes the events about locks so far, and forgets all events. The events LockRequested
// come first, since other goroutines deliver LockRequested.
func (s *told) words() (all []string) {
	events := take[any](s)
	for _, e := range events {
		if e, ok := e.(LockRequested); ok {
			all = append(all, fmt.Sprintf("%s %s asked", e.Op, e.Key))
		}
	}
	for _, e := range events {
		switch e := e.(type) {
		case LockGranted:
			text := fmt.Sprintf("%s %s granted", e.Request.Op, e.Request.Key)
			if e.Reentry {
				text += " again"
			}
			all = append(all, text)
		case LockRefused:
			all = append(all, fmt.Sprintf("%s %s %s", e.Request.Op, e.Request.Key, e.Outcome))
		case LeaseEnded:
			all = append(all, fmt.Sprintf("%s %s %s", e.Request.Op, e.Request.Key, e.Reason))
		}
	}
	return all
}

// observer returns an observer that keeps all events.
func (s *told) observer() *Observer {
	return &Observer{
		LockRequested: func(ctx context.Context, e LockRequested) context.Context {
			s.add(e)
			return ctx
		},
		LockGranted:       func(_ context.Context, e LockGranted) { s.add(e) },
		LockRefused:       func(_ context.Context, e LockRefused) { s.add(e) },
		LeaseEnded:        func(_ context.Context, e LeaseEnded) { s.add(e) },
		RefreshAnswered:   func(e RefreshAnswered) { s.add(e) },
		VoterChanged:      func(e VoterChanged) { s.add(e) },
		ElectorateChanged: func(e ElectorateChanged) { s.add(e) },
		LoopWorked:        func(e LoopWorked) { s.add(e) },
	}
}

// observe sets the observer of a configuration.
func (s *told) observe(c *Config) { c.Observer = s.observer() }

// observed starts three voters, the first with an observer, and waits until all are ready.
func (w *wire) observed(s *told) (a, b, c *Mesh) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	a, b, c = w.join("a", voters, s.observe), w.join("b", voters, nil), w.join("c", voters, nil)
	for _, m := range []*Mesh{a, b, c} {
		if err := m.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

func wantWords(t *testing.T, s *told, want ...string) {
	t.Helper()
	if got := s.words(); !slices.Equal(got, want) {
		t.Errorf("told:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestAnObserverIsToldOfALockAndItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, b, _ := w.observed(&s)
		other := must[*Lease](t)(b.Lock(t.Context(), "k"))
		synctest.Wait()
		s.words()

		asked := time.Now()
		waiting := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
		time.Sleep(3 * time.Second)
		granted := time.Now()
		unlock(t, other)
		l := (<-waiting).lease
		token := l.Token()
		time.Sleep(40 * time.Second)
		ended := time.Now()
		unlock(t, l)

		ask := LockRequested{Op: "lock", Key: "k", Mode: ModeExclusive, At: asked}
		want := []any{
			ask,
			LockGranted{Request: ask, At: granted, Waited: 3 * time.Second, Token: token},
			LeaseEnded{Request: ask, At: ended, Held: 40 * time.Second, Token: token, Reason: EndUnlocked, Err: ErrReleased},
		}
		var got []any
		for _, e := range take[any](&s) {
			switch e.(type) {
			case LockRequested, LockGranted, LockRefused, LeaseEnded:
				got = append(got, e)
			}
		}
		if !reflect.DeepEqual(local(got), local(want)) {
			t.Errorf("told:\n%+v\nwant:\n%+v", got, want)
		}
	})
}

// local makes times comparable, whether read from a clock or computed.
func local(events []any) (texts []string) {
	for _, e := range events {
		v := reflect.New(reflect.TypeOf(e)).Elem()
		v.Set(reflect.ValueOf(e))
		strip(v)
		texts = append(texts, fmt.Sprintf("%#v", v.Interface()))
	}
	return texts
}

func strip(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.UnixMicro(f.Interface().(time.Time).UnixMicro())))
		case f.Kind() == reflect.Struct:
			strip(f)
		}
	}
}

// Three callers of one node and a caller of another node compete for a key. The observer of the
// first node sees one lease at a time, with rising tokens.
func TestAnObserverSeesTheOrderOfAKey(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		var s told
		a, b, _ := w.observed(&s)
		take[any](&s)
		const callers, turns = 4, 10
		var all sync.WaitGroup
		for i := range callers {
			m := a
			if i == callers-1 {
				m = b
			}
			all.Go(func() {
				for range turns {
					l, err := m.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		asked, granted, ended, last := 0, 0, 0, uint64(0)
		for _, e := range take[any](&s) {
			switch e := e.(type) {
			case LockRequested:
				asked++
			case LockGranted:
				if granted++; granted != ended+1 || granted > asked || e.Token <= last {
					t.Errorf("grant %d after %d ends, %d calls and the token %d: %+v", granted, ended, asked, last, e)
				}
				last = e.Token
			case LeaseEnded:
				if ended++; ended != granted || e.Token != last || e.Held != 10*time.Millisecond {
					t.Errorf("end %d after %d grants: %+v", ended, granted, e)
				}
			}
		}
		if want := (callers - 1) * turns; asked != want || granted != want || ended != want {
			t.Errorf("%d asked, %d granted, %d ended; want %d", asked, granted, ended, want)
		}
	})
}

func TestTheContextIsCarriedToAnObserver(t *testing.T) {
	type key string
	inBubble(t, func(t *testing.T, w *wire) {
		var mu sync.Mutex
		var got []string
		note := func(ctx context.Context, what string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(what, " ", ctx.Value(key("caller")), " ", ctx.Value(key("span"))))
		}
		m := w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{
				LockRequested: func(ctx context.Context, e LockRequested) context.Context {
					note(ctx, "asked")
					if e.Op == "rlock" {
						return nil
					}
					return context.WithValue(ctx, key("span"), e.Op)
				},
				LockGranted: func(ctx context.Context, _ LockGranted) { note(ctx, "granted") },
				LockRefused: func(ctx context.Context, _ LockRefused) { note(ctx, "refused") },
				LeaseEnded:  func(ctx context.Context, _ LeaseEnded) { note(ctx, "ended") },
			}
		})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), key("caller"), "me")
		l := must[*Lease](t)(m.Lock(ctx, "k"))
		inner := l.Context()
		if inner.Value(key("caller")) != "me" || inner.Value(key("span")) != nil {
			t.Errorf("the lease's context has %v and %v", inner.Value(key("caller")), inner.Value(key("span")))
		}
		_, err := m.TryLock(ctx, "k")
		wantIs(t, err, ErrHeld)
		unlock(t, must[*Lease](t)(m.RLock(inner, "k")))
		unlock(t, l)
		if inner.Err() == nil {
			t.Error("the lease's context goes on")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(got)
		want := []string{
			"asked me <nil>", "asked me <nil>", "asked me <nil>", "ended me lock", "granted me <nil>", "granted me lock", "refused me trylock",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestJoinedObservers(t *testing.T) {
	if JoinObservers() != nil || JoinObservers(nil, nil) != nil {
		t.Error("no observer is joined to one")
	}
	for name, third := range map[string]*Observer{
		"nil":               nil,
		"without functions": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				type key string
				var s, other told
				first := s.observer()
				first.LockRequested = func(ctx context.Context, e LockRequested) context.Context {
					s.add(e)
					return context.WithValue(ctx, key("first"), true)
				}
				second := other.observer()
				second.LockRequested = func(ctx context.Context, e LockRequested) context.Context {
					if ctx.Value(key("first")) == nil {
						t.Error("the second isn't passed the first one's context")
					}
					other.add(e)
					return nil
				}
				second.LockGranted = func(ctx context.Context, e LockGranted) {
					if ctx.Value(key("first")) == nil {
						t.Error("the context of the first is lost")
					}
					other.add(e)
				}
				m := w.join("a", []string{"a"}, func(c *Config) { c.Observer = JoinObservers(third, first, third, second) })
				if err := m.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k")))
				_, _ = m.TryLock(testwait.Within(t, -1), "k")
				time.Sleep(time.Minute)
				synctest.Wait()
				byAsking := func(a, b any) int { // LockRequested is called by other goroutines
					rank := func(e any) int {
						if _, is := e.(LockRequested); is {
							return 0
						}
						return 1
					}
					return rank(a) - rank(b)
				}
				slices.SortStableFunc(s.events, byAsking)
				slices.SortStableFunc(other.events, byAsking)
				if len(s.events) < 10 || !reflect.DeepEqual(s.events, other.events) {
					t.Errorf("one was told\n%+v\nand the other\n%+v", s.events, other.events)
				}
			})
		})
	}
}
