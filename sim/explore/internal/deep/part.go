package deep

import (
	"reflect"
	"unsafe"
)

// Part returns the address of a field of *p, exported or not, for modification.
func Part[F, T any](p *T, name string) *F {
	v := reflect.ValueOf(p).Elem().FieldByName(name)
	if v.Type() != reflect.TypeFor[F]() {
		panic("deep: field " + name + " is a " + v.Type().String())
	}
	return (*F)(unsafe.Pointer(v.UnsafeAddr()))
}
