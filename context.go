package lockmesh

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// A context is code of the application, and that code may be wrong: a method of the context may
// panic. In the caller's goroutine, before anything is sent, such a panic is the caller's affair.
// Later a panic would leave a request behind that no caller can release, and in a goroutine of
// this package, or of a context derived here, a panic would end the process. So a call has its
// context probed first (checkContext), and a call that derives contexts from its context, or hands
// its context to another goroutine, uses a guarded context (guardContext).

// guardedContext is the caller's context without panics. Done and Deadline are asked once, in the
// caller's goroutine; both always return the same, as package context demands.
type guardedContext struct {
	context.Context
	done        <-chan struct{}
	deadline    time.Time
	hasDeadline bool
}

// probeKey is a context key without a value.
type probeKey struct{}

// guardContext panics if a method was called with a nil context, or with a context whose methods
// panic. Otherwise it returns the context, guarded against later panics.
func guardContext(ctx context.Context, method string) context.Context {
	checkContext(ctx, method)
	if guarded, ok := ctx.(*guardedContext); ok {
		return guarded
	}
	_ = ctx.Value(probeKey{})
	g := &guardedContext{Context: ctx, done: ctx.Done()}
	g.deadline, g.hasDeadline = ctx.Deadline()
	return g
}

// guardGivingUp is guardContext for a call that gives up what the caller has, such as Leave. A
// context that panics must not keep a key held: the call proceeds as with an ended context, and
// rethrow, which the caller defers, then panics as the context did.
func guardGivingUp(ctx context.Context, method string) (guarded context.Context, rethrow func()) {
	checkNotNil(ctx, method)
	fault := func() (fault any) {
		defer func() { fault = recover() }()
		guarded = guardContext(ctx, method)
		return nil
	}()
	if fault == nil {
		return guarded, func() {}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return ended, func() { panic(fault) }
}

func (g *guardedContext) Done() <-chan struct{} { return g.done }

func (g *guardedContext) Deadline() (time.Time, bool) { return g.deadline, g.hasDeadline }

// Err returns an error if and only if Done is closed, whatever the caller's context does. Done is
// asked first: a context that ends after its Err has returned nil would be taken for canceled, even
// if its deadline has passed.
func (g *guardedContext) Err() (err error) {
	select {
	case <-g.done:
	default:
		return nil
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w, and its method Err panicked: %v", context.Canceled, fault)
		}
	}()
	return cmp.Or(g.Context.Err(), context.Canceled)
}

// Value returns nil if the caller's context panics.
func (g *guardedContext) Value(key any) any { return guardedValue(g.Context, key) }

// guardedValue returns a value of a context; nil if the context panics.
func guardedValue(ctx context.Context, key any) (value any) {
	defer func() {
		if recover() != nil {
			value = nil
		}
	}()
	return ctx.Value(key)
}
