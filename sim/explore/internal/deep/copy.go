package deep

import (
	"reflect"
	"sync"
	"unsafe"
)

// Copy returns a copy of *p that shares only immutable values with *p: strings, and functions,
// which must not close over mutable state. Pointers to the same object in *p point to the same
// object in the copy. Copy uses unsafe to reach unexported fields: the core has no copying code of
// its own, since no shipped code needs any.
//
// Copy doesn't follow pointers into the middle of an object, and two slices of one array become two
// arrays. The core keeps neither.
func Copy[T any](p *T) *T {
	c := copier{}
	return (*T)(c.object(reflect.TypeFor[T](), unsafe.Pointer(p)))
}

// copier maps the objects met so far to their copies.
type copier map[unsafe.Pointer]unsafe.Pointer

// object copies the target of a pointer.
func (c copier) object(t reflect.Type, p unsafe.Pointer) unsafe.Pointer {
	if d, ok := c[p]; ok {
		return d
	}
	d := reflect.New(t)
	d.Elem().Set(reflect.NewAt(t, p).Elem())
	c[p] = d.UnsafePointer()
	if own := owner(t); own != nil {
		own(c, d.UnsafePointer())
	}
	return d.UnsafePointer()
}

// An owning function makes a value, just copied byte by byte, own everything that the value refers
// to.
type owning func(c copier, p unsafe.Pointer)

var owners sync.Map // of reflect.Type: owning

// owner returns the owning function of a type; nil if the bytes are the whole value.
func owner(t reflect.Type) owning {
	if o, ok := owners.Load(t); ok {
		return o.(owning)
	}
	o := newOwner(t)
	owners.Store(t, o)
	return o
}

func newOwner(t reflect.Type) owning {
	switch t.Kind() {
	case reflect.Pointer:
		return func(c copier, p unsafe.Pointer) {
			if at := (*unsafe.Pointer)(p); *at != nil {
				*at = c.object(t.Elem(), *at)
			}
		}
	case reflect.Interface:
		return func(c copier, p unsafe.Pointer) {
			v := reflect.NewAt(t, p).Elem()
			if !v.IsNil() {
				v.Set(c.value(v.Elem()))
			}
		}
	case reflect.Map:
		if owner(t.Key()) != nil {
			panic("deep: can't copy a " + t.String() + ": its keys have pointers")
		}
		return func(c copier, p unsafe.Pointer) {
			v := reflect.NewAt(t, p).Elem()
			if v.IsNil() {
				return
			}
			d := reflect.MakeMapWithSize(t, v.Len())
			for i := v.MapRange(); i.Next(); {
				d.SetMapIndex(i.Key(), c.value(i.Value()))
			}
			v.Set(d)
		}
	case reflect.Slice:
		own := elements(t.Elem())
		return func(c copier, p unsafe.Pointer) {
			v := reflect.NewAt(t, p).Elem()
			if v.IsNil() {
				return
			}
			d := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(d, v)
			v.Set(d)
			own(c, d.UnsafePointer(), d.Len())
		}
	case reflect.Array:
		own := elements(t.Elem())
		if owner(t.Elem()) == nil { // an array can't contain its own type
			return nil
		}
		return func(c copier, p unsafe.Pointer) { own(c, p, t.Len()) }
	case reflect.Struct:
		return fieldsOwner(t)
	case reflect.Chan, reflect.UnsafePointer, reflect.Uintptr:
		panic("deep: can't copy a " + t.String())
	}
	return nil
}

func fieldsOwner(t reflect.Type) owning {
	type part struct {
		offset uintptr
		own    owning
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if own := owner(f.Type); own != nil {
			parts = append(parts, part{f.Offset, own})
		}
	}
	if parts == nil {
		return nil
	}
	return func(c copier, p unsafe.Pointer) {
		for i := range parts {
			parts[i].own(c, unsafe.Add(p, parts[i].offset))
		}
	}
}

// elements returns a function that makes the elements of an array own everything that they refer
// to.
func elements(t reflect.Type) func(c copier, first unsafe.Pointer, n int) {
	return func(c copier, first unsafe.Pointer, n int) {
		own := owner(t) // not earlier, since the type may contain itself
		for i := range n {
			if own != nil {
				own(c, unsafe.Add(first, uintptr(i)*t.Size()))
			}
		}
	}
}

// value returns a copy of a value that isn't stored in memory of the copy.
func (c copier) value(v reflect.Value) reflect.Value {
	own := owner(v.Type())
	if own == nil {
		return v
	}
	d := reflect.New(v.Type())
	d.Elem().Set(v)
	own(c, d.UnsafePointer())
	return d.Elem()
}
