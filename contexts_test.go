package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// contextScene is the setting of one case: two nodes, a key unused by earlier cases, and the values
// made by prepare.
type contextScene struct {
	*testing.T
	w    *wire
	a, b *Mesh // a makes the call; b checks the keys afterwards
	key  string
	ctx  *faultyContext

	lease   *Lease
	leases  *Leases
	leader  *Leadership
	count   *Count
	barrier *DoubleBarrier
	joined  *Mesh
}

// got keeps the lease returned by the call.
func (s *contextScene) got(l *Lease, err error) error {
	if err == nil {
		s.lease = l
	}
	return err
}

// giveBack releases everything that the caller still has after the call.
func (s *contextScene) giveBack() {
	ctx := s.Context()
	if s.lease != nil {
		_ = s.lease.Unlock(ctx)
	}
	if s.leases != nil {
		_ = s.leases.Unlock(ctx)
	}
	if s.leader != nil {
		_ = s.leader.Resign(ctx)
	}
	if s.count != nil {
		_ = s.count.TakeBack(ctx)
	}
	if s.barrier != nil {
		_ = s.barrier.Leave(ctx)
	}
	if s.joined != nil {
		if err := s.joined.Close(); err != nil {
			s.Error(err)
		}
	}
}

// contextCall is a call of an exported function with a context parameter.
type contextCall struct {
	prepare func(s *contextScene)
	call    func(s *contextScene, ctx context.Context) error
	// givesUp: the call gives up the caller's lease even if the context fails.
	givesUp bool
	ends    bool // the call ends the node or its use
}

// prepareLease has node a hold the key.
func prepareLease(s *contextScene) {
	s.lease = must[*Lease](s.T)(s.a.Lock(s.Context(), s.key, WithTTL(5*time.Second), WithoutRenewal()))
}

func prepareLeader(s *contextScene) {
	s.leader = must[*Leadership](s.T)(s.a.Election(s.key).Campaign(s.Context(), nil))
}

// prepareRival has node b hold the key for a moment.
func prepareRival(s *contextScene) {
	l := must[*Lease](s.T)(s.b.Lock(s.Context(), s.key))
	stop := time.AfterFunc(200*time.Millisecond, func() { _ = l.Unlock(context.WithoutCancel(s.Context())) })
	s.Cleanup(func() { stop.Stop() })
}

// contextCalls has all exported functions with a context parameter, by name; a suffix behind a
// slash marks a further way to call the same function.
var contextCalls = map[string]contextCall{
	"Join": {call: func(s *contextScene, ctx context.Context) (err error) {
		p := s.w.Start()
		s.joined, err = join(ctx, Config{
			Name: "e", Bind: wireAddr("e"), Voters: []string{"a", "b", "c"}, Peers: []string{wireAddr("a")},
			Insecure: true, Clock: p.Clock(), Logger: s.a.cfg.Logger,
		}, p.World())
		return err
	}},
	"Mesh.Lock": {call: func(s *contextScene, ctx context.Context) error { return s.got(s.a.Lock(ctx, s.key)) }},
	"Mesh.Lock/behind another": {prepare: prepareRival, call: func(s *contextScene, ctx context.Context) error {
		return s.got(s.a.Lock(ctx, s.key))
	}},
	"Mesh.Lock/WithWait": {call: func(s *contextScene, ctx context.Context) error {
		return s.got(s.a.Lock(ctx, s.key, WithWait(time.Minute)))
	}},
	// The caller cancels a context derived from the lease's context, so the derived context has the
	// values of the faulty context; Unlock looks for the cause of the cancellation.
	"Mesh.Lock/and Unlock with a derived context": {call: func(s *contextScene, ctx context.Context) error {
		if err := s.got(s.a.Lock(ctx, s.key)); err != nil {
			return err
		}
		derived, cancel := context.WithCancel(s.lease.Context())
		cancel()
		return s.lease.Unlock(derived)
	}},
	"Mesh.TryLock":  {call: func(s *contextScene, ctx context.Context) error { return s.got(s.a.TryLock(ctx, s.key)) }},
	"Mesh.RLock":    {call: func(s *contextScene, ctx context.Context) error { return s.got(s.a.RLock(ctx, s.key)) }},
	"Mesh.TryRLock": {call: func(s *contextScene, ctx context.Context) error { return s.got(s.a.TryRLock(ctx, s.key)) }},
	"Semaphore.Acquire": {call: func(s *contextScene, ctx context.Context) error {
		return s.got(s.a.Semaphore(s.key, 1).Acquire(ctx))
	}},
	"Semaphore.TryAcquire": {call: func(s *contextScene, ctx context.Context) error {
		return s.got(s.a.Semaphore(s.key, 1).TryAcquire(ctx))
	}},
	"Mesh.LockAll": {call: func(s *contextScene, ctx context.Context) (err error) {
		s.leases, err = s.a.LockAll(ctx, s.key+"/1", s.key+"/2", s.key)
		return err
	}},
	"Mesh.Do": {call: func(s *contextScene, ctx context.Context) error {
		return s.a.Do(ctx, s.key, func(context.Context, *Lease) error { return nil })
	}},
	"Mesh.Do/until the context ends": {call: func(s *contextScene, ctx context.Context) error {
		return s.a.Do(ctx, s.key, func(ctx context.Context, l *Lease) error {
			<-ctx.Done()
			return l.Unlock(ctx)
		})
	}},
	"Mesh.Lead": {call: func(s *contextScene, ctx context.Context) error {
		return s.a.Lead(ctx, s.key, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}},
	"Mesh.LeadOnce": {call: func(s *contextScene, ctx context.Context) error {
		return s.a.LeadOnce(ctx, s.key, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}},
	"Mesh.Alive":   {call: func(s *contextScene, ctx context.Context) error { return s.a.Alive(ctx) }},
	"Mesh.Ready":   {call: func(s *contextScene, ctx context.Context) error { return s.a.Ready(ctx) }},
	"Mesh.Settled": {call: func(s *contextScene, ctx context.Context) error { return s.a.Settled(ctx) }},
	"Mesh.Ping": {call: func(s *contextScene, ctx context.Context) error {
		return second(s.a.Ping(ctx, "b"))
	}},
	"Mesh.Inspect": {call: func(s *contextScene, ctx context.Context) error { return second(s.a.Inspect(ctx, s.key)) }},
	"Mesh.ListPage": {call: func(s *contextScene, ctx context.Context) error {
		return second(s.a.ListPage(ctx, s.key, "", 0))
	}},
	"Mesh.List": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) (err error) {
		for _, e := range s.a.List(ctx, s.key) {
			err = e
		}
		return err
	}},
	"Mesh.Revoke": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.a.Revoke(ctx, s.key)
	}},
	"Mesh.Evict": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.a.Evict(ctx, s.key, s.lease.Token())
	}},
	"Mesh.Watch":       {call: func(s *contextScene, ctx context.Context) error { return readAll(s.a.Watch(ctx, s.key)) }},
	"Mesh.WatchPrefix": {call: func(s *contextScene, ctx context.Context) error { return readAll(s.a.WatchPrefix(ctx, s.key)) }},
	"Mesh.WatchElectorate": {call: func(s *contextScene, ctx context.Context) error {
		states, err := s.a.WatchElectorate(ctx)
		for err == nil {
			if _, ok := <-states; !ok {
				break
			}
		}
		return err
	}},
	"Mesh.Recover": {call: func(s *contextScene, ctx context.Context) error { return s.a.Recover(ctx, "a") }},
	"Mesh.Drain": {ends: true, prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.a.Drain(ctx)
	}},
	"Mesh.Leave": {ends: true, givesUp: true, prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.a.Leave(ctx)
	}},
	"Mesh.Stop": {ends: true, givesUp: true, prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.a.Stop(ctx)
	}},

	"Lease.Unlock": {givesUp: true, prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.lease.Unlock(ctx)
	}},
	"Lease.Unlock/in the lease's context": {givesUp: true, prepare: func(s *contextScene) {
		prepareLease(s)
		s.ctx.parent = s.lease.Context()
	}, call: func(s *contextScene, ctx context.Context) error { return s.lease.Unlock(ctx) }},
	"Lease.SetValue": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.lease.SetValue(ctx, []byte("v"))
	}},
	"Lease.Extend": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.lease.Extend(ctx, 5*time.Second)
	}},
	"Lease.Downgrade": {prepare: prepareLease, call: func(s *contextScene, ctx context.Context) error {
		return s.lease.Downgrade(ctx)
	}},
	"Lease.Upgrade": {prepare: func(s *contextScene) {
		s.lease = must[*Lease](s.T)(s.a.RLock(s.Context(), s.key))
	}, call: func(s *contextScene, ctx context.Context) error { return s.lease.Upgrade(ctx) }},
	"Leases.Unlock": {givesUp: true, prepare: func(s *contextScene) {
		s.leases = must[*Leases](s.T)(s.a.LockAll(s.Context(), s.key, s.key+"/1"))
	}, call: func(s *contextScene, ctx context.Context) error { return s.leases.Unlock(ctx) }},

	"Election.Campaign": {call: func(s *contextScene, ctx context.Context) (err error) {
		s.leader, err = s.a.Election(s.key).Campaign(ctx, nil)
		return err
	}},
	"Election.Leader": {prepare: prepareLeader, call: func(s *contextScene, ctx context.Context) error {
		return second(s.a.Election(s.key).Leader(ctx))
	}},
	"Election.Observe": {prepare: prepareLeader, call: func(s *contextScene, ctx context.Context) (err error) {
		for _, e := range s.a.Election(s.key).Observe(ctx) {
			err = e
		}
		return err
	}},
	"Leadership.Proclaim": {prepare: prepareLeader, call: func(s *contextScene, ctx context.Context) error {
		return s.leader.Proclaim(ctx, []byte("v"))
	}},
	"Leadership.Resign": {givesUp: true, prepare: prepareLeader, call: func(s *contextScene, ctx context.Context) error {
		return s.leader.Resign(ctx)
	}},

	"CountDownLatch.CountDown": {call: func(s *contextScene, ctx context.Context) (err error) {
		s.count, err = s.a.CountDownLatch(s.key, 1).CountDown(ctx)
		return err
	}},
	"CountDownLatch.Await": {call: func(s *contextScene, ctx context.Context) error {
		return s.a.CountDownLatch(s.key, 1).Await(ctx)
	}},
	"CountDownLatch.Count": {call: func(s *contextScene, ctx context.Context) error {
		return second(s.a.CountDownLatch(s.key, 1).Count(ctx))
	}},
	"Count.TakeBack": {givesUp: true, prepare: func(s *contextScene) {
		s.count = must[*Count](s.T)(s.a.CountDownLatch(s.key, 2).CountDown(s.Context()))
	}, call: func(s *contextScene, ctx context.Context) error { return s.count.TakeBack(ctx) }},
	"DoubleBarrier.Enter": {call: func(s *contextScene, ctx context.Context) error {
		s.barrier = s.a.DoubleBarrier(s.key, 1)
		return s.barrier.Enter(ctx)
	}},
	"DoubleBarrier.Enter/alone": {call: func(s *contextScene, ctx context.Context) error {
		s.barrier = s.a.DoubleBarrier(s.key, 2)
		return s.barrier.Enter(ctx)
	}},
	"DoubleBarrier.Leave": {givesUp: true, prepare: func(s *contextScene) {
		s.barrier = s.a.DoubleBarrier(s.key, 1)
		if err := s.barrier.Enter(s.Context()); err != nil {
			s.Fatal(err)
		}
	}, call: func(s *contextScene, ctx context.Context) error { return s.barrier.Leave(ctx) }},
}

// readAll reads a watch to its end.
func readAll(w *Watch, err error) error {
	if err != nil {
		return err
	}
	for range w.Events() {
	}
	return w.Err()
}

// TestTheTableOfContextsHasEveryFunction reads the source, so that no function with a context
// parameter is missing in the tests below.
func TestTheTableOfContextsHasEveryFunction(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	exported := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !takesContext(f.Type) {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				receiver, ok := f.Recv.List[0].Type.(*ast.StarExpr)
				if !ok {
					t.Fatalf("the receiver of %s is no pointer; this test knows pointers only", name)
				}
				name = receiver.X.(*ast.Ident).Name + "." + name
			}
			if ast.IsExported(name) && name != "Mesh.LeaseOf" { // which neither waits nor fails
				exported[name] = true
			}
		}
	}
	tested := make(map[string]bool)
	for name := range contextCalls {
		name, _, _ = strings.Cut(name, "/")
		tested[name] = true
	}
	if is, want := slices.Sorted(maps.Keys(tested)), slices.Sorted(maps.Keys(exported)); !slices.Equal(is, want) {
		t.Errorf("the table has %q;\nthe package has %q", is, want)
	}
}

// takesContext reports whether a function has a parameter of the type context.Context.
func takesContext(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		s, ok := p.Type.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Context" && s.X.(*ast.Ident).Name == "context"
	})
}

// contextMethods are the methods of a context.
var contextMethods = []string{"Done", "Err", "Value", "Deadline"}

// faultyContext is a context with a method that panics from call number from on, counted from 1.
type faultyContext struct {
	method string
	from   int
	parent context.Context // has the values; nil if there are none

	mu    sync.Mutex
	calls int
	done  chan struct{}
	err   error
}

// contextFault is the panic value of a faultyContext.
type contextFault struct{ *faultyContext }

func (c contextFault) String() string { return "a mistake in " + c.method }

func (c *faultyContext) called(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if method != c.method {
		return
	}
	if c.calls++; c.calls >= c.from {
		panic(contextFault{c})
	}
}

// fired reports whether the context has panicked.
func (c *faultyContext) fired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls >= c.from
}

// end ends the context.
func (c *faultyContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = context.Canceled
		close(c.done)
	}
}

func (c *faultyContext) Done() <-chan struct{} { c.called("Done"); return c.done }

func (c *faultyContext) Err() error {
	c.called("Err")
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *faultyContext) Value(key any) any {
	c.called("Value")
	if c.parent == nil {
		return nil
	}
	return c.parent.Value(key)
}

func (c *faultyContext) Deadline() (time.Time, bool) { c.called("Deadline"); return time.Time{}, false }

// make makes a call and returns the panic value, nil without a panic.
func (c *contextCall) make(s *contextScene, ctx context.Context) (fault any) {
	defer func() { fault = recover() }()
	_ = c.call(s, ctx)
	return nil
}

// contextStep is the length of the pauses of a case, long enough for a call to begin to wait.
const contextStep = 100 * time.Millisecond

// play plays a case: a call with a faulty context that ends after a while. With apart, node a
// reaches no other node until the context has ended, so the call waits.
func (c *contextCall) play(s *contextScene, apart bool) {
	if c.prepare != nil {
		c.prepare(s)
	}
	if apart {
		s.w.stall("a", true)
	}
	returned := make(chan any)
	go func() { returned <- c.make(s, s.ctx) }()
	time.Sleep(3 * contextStep)
	s.ctx.end()
	time.Sleep(contextStep)
	if apart {
		s.w.stall("a", false)
	}
	what := fmt.Sprintf("%s panics from call %d on, apart %v", s.ctx.method, s.ctx.from, apart)
	select {
	case fault := <-returned:
		switch {
		case fault == nil:
			if s.ctx.from == 1 && s.ctx.fired() && !c.givesUp && s.ctx.method != "Value" {
				s.Errorf("%s: no panic reaches the caller", what)
			}
		case fault != any(contextFault{s.ctx}):
			s.Errorf("%s: the call panics with %v", what, fault)
		}
	case <-time.After(time.Minute):
		s.Fatalf("%s: the call hangs", what)
	}
	synctest.Wait()
	if c.givesUp {
		s.lease, s.leases, s.leader, s.count = nil, nil, nil, nil
	}
	s.giveBack()
	s.free(what, c.ends)
}

// free demands that another node can lock the keys of the case at once, and that node a works.
func (s *contextScene) free(what string, ended bool) {
	s.Helper()
	for _, key := range []string{s.key, s.key + "/1", s.key + "/2"} {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		l, err := s.b.Lock(ctx, key)
		cancel()
		if err != nil {
			s.Errorf("%s: afterwards another node can't lock %q: %v", what, key, err)
			continue
		}
		unlock(s.T, l)
	}
	if ended {
		return
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	if err := s.a.Alive(ctx); err != nil {
		s.Errorf("%s: %v", what, err)
	}
	if st := s.a.Status(); len(st.Held)+len(st.Waiting) != 0 {
		s.Errorf("%s: the node holds %v and waits for %v", what, st.Held, st.Waiting)
	}
}

// If a method of the caller's context panics, at once or later, the call panics in the caller's
// goroutine or fails. The process goes on, no key is held afterwards, and the node works.
func TestContextsThatPanic(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(contextCalls)) {
		c := contextCalls[name]
		t.Run(name, func(t *testing.T) {
			if c.ends {
				eachFault(func(ctx *faultyContext, apart bool, n int) {
					inBubble(t, func(t *testing.T, w *wire) {
						a, b, _ := w.three()
						ctx.done = make(chan struct{})
						c.play(&contextScene{T: t, w: w, a: a, b: b, key: "k", ctx: ctx}, apart)
					})
				})
				return
			}
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				eachFault(func(ctx *faultyContext, apart bool, n int) {
					ctx.done = make(chan struct{})
					c.play(&contextScene{T: t, w: w, a: a, b: b, key: fmt.Sprint("k", n), ctx: ctx}, apart)
				})
			})
		})
	}
}

// eachFault calls f once for each call of each context method by f's function, with a context that
// panics from this call on.
func eachFault(f func(ctx *faultyContext, apart bool, n int)) {
	n := 0
	for _, apart := range []bool{false, true} {
		for _, method := range contextMethods {
			for from := 1; ; from++ {
				n++
				ctx := &faultyContext{method: method, from: from}
				if f(ctx, apart, n); !ctx.fired() {
					break
				}
			}
		}
	}
}

// With a nil context each call panics with a message of lockmesh, and changes nothing.
func TestNilContexts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for name, c := range contextCalls {
			s := &contextScene{T: t, w: w, a: a, b: b, key: name, ctx: &faultyContext{}}
			if c.prepare != nil {
				c.prepare(s)
			}
			name, _, _ := strings.Cut(name, "/")
			want := "lockmesh: " + name + " was called with a nil context; pass context.Background() if there is no other"
			if got := c.make(s, nil); got != want {
				t.Errorf("%s: %v", name, got)
			}
			if s.lease != nil && s.lease.Err() != nil || s.leases != nil && s.leases.Err() != nil ||
				s.leader != nil && s.leader.Err() != nil || s.count != nil && s.count.Err() != nil {
				t.Errorf("%s: the mistake has ended a lease", name)
			}
			s.giveBack()
			time.Sleep(contextStep)
		}
		if a.Draining() {
			t.Error("the mistake has ended the node")
		}
	})
}

// endsAsAsked is a context with a deadline that passes during a call of Err that returns nil.
type endsAsAsked struct {
	context.Context
	done chan struct{}
}

func (c *endsAsAsked) Done() <-chan struct{} { return c.done }

func (c *endsAsAsked) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		close(c.done)
		return nil
	}
}

// A deadline that passes during a call of Err isn't reported as a cancellation.
func TestAGuardedContextTellsWhyItEnded(t *testing.T) {
	c := &endsAsAsked{context.Background(), make(chan struct{})}
	g := &guardedContext{Context: c, done: c.done}
	if err := g.Err(); err != nil {
		t.Errorf("before its end: %v", err)
	}
	_ = c.Err() // the deadline passes
	if err := g.Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its end: %v", err)
	}
}
