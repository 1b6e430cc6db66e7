package lockmesh

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// users are zero values of all types with methods that need more than that.
func users() []any {
	return []any{
		&Mesh{}, &Lease{}, &Leases{}, &Semaphore{}, &Election{}, &Leadership{}, &DoubleBarrier{}, &CountDownLatch{}, &Count{}, &Watch{},
	}
}

// panicOf calls a method with the arguments and returns what it panics with, as a text; empty if it doesn't.
func panicOf(method reflect.Value, args []reflect.Value) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	method.Call(args)
	return ""
}

// arguments are zero values for all parameters of a method but for contexts and functions.
func arguments(t *testing.T, method reflect.Type, ctx context.Context, call bool) []reflect.Value {
	var args []reflect.Value
	for i := range method.NumIn() {
		in := method.In(i)
		switch {
		case method.IsVariadic() && i == method.NumIn()-1:
		case in == reflect.TypeFor[context.Context]() && ctx != nil:
			args = append(args, reflect.ValueOf(ctx))
		case in.Kind() == reflect.Func && call:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				t.Error("called")
				return nil
			}))
		case in.Kind() == reflect.String:
			args = append(args, reflect.ValueOf("k"))
		case in.Kind() == reflect.Int:
			args = append(args, reflect.ValueOf(1))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	return args
}

// Every method of a zero value, and of a nil pointer, panics with our own words.
func TestZeroValuesSayWhatMakesUsableOnes(t *testing.T) {
	for _, zero := range users() {
		typ := reflect.TypeOf(zero)
		for _, v := range []reflect.Value{reflect.ValueOf(zero), reflect.Zero(typ)} {
			for i := range typ.NumMethod() {
				method := v.Method(i)
				want := fmt.Sprintf("lockmesh: %s.%s was called on a nil or zero value; only ", typ.Elem().Name(), typ.Method(i).Name)
				if got := panicOf(method, arguments(t, method.Type(), t.Context(), true)); !strings.HasPrefix(got, want) {
					t.Errorf("nil: %v, %s.%s: %q; want %q…", v.IsNil(), typ.Elem().Name(), typ.Method(i).Name, got, want)
				}
			}
		}
	}
}

// Every method that takes a context panics with our own words when it gets none, and every one that takes a function.
func TestNilContextsAndFunctions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		m, _, _ := w.three()
		lease := must[*Lease](t)(m.Lock(t.Context(), "k"))
		leases := must[*Leases](t)(m.LockAll(t.Context(), "l", "m"))
		leader, err := m.Election("e").Campaign(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		count, err := m.CountDownLatch("c", 2).CountDown(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watch, err := m.Watch(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		usable := map[reflect.Type]any{}
		for _, u := range []any{
			m, lease, leases, leader, count, watch, m.Semaphore("s", 2), m.Election("e"), m.DoubleBarrier("b", 2), m.CountDownLatch("c", 2),
		} {
			usable[reflect.TypeOf(u)] = u
		}
		contexts, functions := 0, 0
		for _, zero := range users() {
			typ := reflect.TypeOf(zero)
			v := reflect.ValueOf(usable[typ])
			for i := range typ.NumMethod() {
				method, name := v.Method(i), typ.Elem().Name()+"."+typ.Method(i).Name
				for in := range method.Type().Ins() {
					switch {
					case in == reflect.TypeFor[context.Context]():
						contexts++
						want := "lockmesh: " + name + " was called with a nil context; pass context.Background() if there is no other"
						if got := panicOf(method, arguments(t, method.Type(), nil, true)); got != want {
							t.Errorf("%s: %q", name, got)
						}
					case in.Kind() == reflect.Func:
						functions++
						want := "lockmesh: " + name + " was called with a nil function"
						if got := panicOf(method, arguments(t, method.Type(), t.Context(), false)); got != want {
							t.Errorf("%s: %q", name, got)
						}
					}
				}
			}
		}
		if contexts < 35 || functions != 3 {
			t.Errorf("%d methods take a context and %d a function; are some left out?", contexts, functions)
		}
		if got, want := panicOf(reflect.ValueOf(Join), []reflect.Value{reflect.Zero(reflect.TypeFor[context.Context]()), reflect.ValueOf(Config{})}),
			"lockmesh: Join was called with a nil context; pass context.Background() if there is no other"; got != want {
			t.Errorf("%q", got)
		}
		if lease.Err() != nil || leases.Err() != nil || leader.Err() != nil || count.Err() != nil {
			t.Error("a mistake has ended a lease")
		}
	})
}
