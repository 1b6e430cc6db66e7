package lockmesh

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// users returns zero values of all types with methods that need an initialized value.
func users() []any {
	return []any{
		&Mesh{}, &Lease{}, &Leases{}, &Semaphore{}, &Election{}, &Leadership{}, &DoubleBarrier{}, &CountDownLatch{}, &Count{}, &Watch{},
	}
}

// panicOf calls a method with the arguments and returns the text of the panic; empty without a
// panic.
func panicOf(method reflect.Value, args []reflect.Value) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	method.Call(args)
	return ""
}

// arguments returns the arguments for a call of a method: ctx for a context, "k" for a string, 1
// for an integer, zero values otherwise. With call, a function argument reports its call as an
// error; else a function argument is nil.
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

// Every method of a zero value, and of a nil pointer, panics with a message of lockmesh, save the
// methods that print a Mesh: see TestAMeshPrintsItsNameAndNoSecret.
func TestZeroValuesSayWhatMakesUsableOnes(t *testing.T) {
	for _, zero := range users() {
		typ := reflect.TypeOf(zero)
		for _, v := range []reflect.Value{reflect.ValueOf(zero), reflect.Zero(typ)} {
			for i := range typ.NumMethod() {
				method := v.Method(i)
				if name := typ.Method(i).Name; name == "Format" || name == "LogValue" {
					continue
				}
				want := fmt.Sprintf("lockmesh: %s.%s was called on a nil or zero value; only ", typ.Elem().Name(), typ.Method(i).Name)
				if got := panicOf(method, arguments(t, method.Type(), t.Context(), true)); !strings.HasPrefix(got, want) {
					t.Errorf("nil: %v, %s.%s: %q; want %q…", v.IsNil(), typ.Elem().Name(), typ.Method(i).Name, got, want)
				}
			}
		}
	}
}

// Every method with a function parameter panics with a message of lockmesh if the function is nil.
// (For contexts see contexts_test.go.)
func TestNilFunctions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		m, _, _ := w.three()
		functions := 0
		for _, zero := range users() {
			typ := reflect.TypeOf(zero)
			for i := range typ.NumMethod() {
				for in := range typ.Method(i).Type.Ins() {
					if in.Kind() != reflect.Func {
						continue
					}
					functions++
					name := typ.Elem().Name() + "." + typ.Method(i).Name
					method := reflect.ValueOf(m).MethodByName(typ.Method(i).Name)
					if typ != reflect.TypeOf(m) {
						t.Fatalf("%s takes a function; this test calls methods of Mesh only", name)
					}
					want := "lockmesh: " + name + " was called with a nil function"
					if got := panicOf(method, arguments(t, method.Type(), t.Context(), false)); got != want {
						t.Errorf("%s: %q", name, got)
					}
				}
			}
		}
		if functions != 3 {
			t.Errorf("%d methods take a function; are some left out?", functions)
		}
	})
}
