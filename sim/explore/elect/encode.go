package elect

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// encoder writes a machine's state as bytes, such that machines with equal bytes behave equally
// ever after. The fields that are left out or written differently, and the reasons, are listed in
// rules.go.
type encoder struct {
	buf  []byte
	core reflect.Value // of the encoded machine
	now  vote.Instant
}

// encoded returns a value as bytes, without regard to any machine.
func encoded(v any) []byte {
	var e encoder
	e.value(reflect.ValueOf(v))
	return e.buf
}

func (e *encoder) num(n int64) { e.buf = binary.AppendVarint(e.buf, n) }

func (e *encoder) flag(b bool) {
	if b {
		e.num(1)
	} else {
		e.num(0)
	}
}

// value writes a value, and everything reachable from the value.
func (e *encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		e.flag(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.num(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.num(int64(v.Uint()))
	case reflect.String:
		e.num(int64(v.Len()))
		e.buf = append(e.buf, v.String()...)
	case reflect.Pointer, reflect.Interface:
		e.flag(!v.IsNil())
		if !v.IsNil() {
			e.value(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		e.num(int64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.Map:
		e.mapping(v)
	case reflect.Struct:
		for i, rule := range rulesOf(v.Type()) {
			if rule != nil {
				rule(e, v, v.Field(i))
			} else {
				e.value(v.Field(i))
			}
		}
	default:
		panic("elect: can't encode a " + v.Type().String())
	}
}

// mapping writes a map in order of its keys.
func (e *encoder) mapping(v reflect.Value) {
	var all []string
	for i := v.MapRange(); i.Next(); {
		k := encoder{core: e.core, now: e.now}
		k.value(i.Key())
		k.value(i.Value())
		all = append(all, string(k.buf))
	}
	e.set(all)
}

// set writes parts in sorted order, since their order doesn't matter.
func (e *encoder) set(all []string) {
	slices.Sort(all)
	e.num(int64(len(all)))
	e.buf = append(e.buf, strings.Join(all, "")...)
}
