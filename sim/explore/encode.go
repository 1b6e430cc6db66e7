package explore

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// encoder writes a node's state as bytes, such that nodes with equal bytes behave equally ever
// after.
//
// The encoder walks the objects by reflection: maps in order of their keys, pointers as numbers in
// order of the first visit. A node's state about each voter goes into a column of that voter, so a
// state with voters exchanged is a state with columns exchanged. The fields that are left out or
// written differently, and the reasons, are listed in rules.go.
type encoder struct {
	x    *explorer
	node int // the node to encode
	now  vote.Instant
	main []byte
	cols [maxVoters][]byte
	buf  *[]byte // main or a column
	raw  bool    // every field as its plain value
	ptrs map[unsafe.Pointer]uint64
	// requests are those of the node's requester, to which later fields refer by number.
	requests reflect.Value
}

func newEncoder(x *explorer, node int) *encoder {
	e := &encoder{x: x, node: node, ptrs: map[unsafe.Pointer]uint64{}}
	e.buf = &e.main
	return e
}

// column has f write into a voter's column.
func (e *encoder) column(place int, f func()) {
	was := e.buf
	e.buf = &e.cols[place]
	f()
	e.buf = was
}

func (e *encoder) num(n uint64) { *e.buf = binary.AppendUvarint(*e.buf, n) }

var (
	nodeIDType = reflect.TypeFor[vote.NodeID]()
	connType   = reflect.TypeFor[vote.Conn]()
	setType    = reflect.TypeFor[quorum.Set]()
)

// value writes a value, and everything reachable from the value.
func (e *encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			e.num(1)
		} else {
			e.num(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		*e.buf = binary.AppendVarint(*e.buf, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		switch v.Type() {
		case connType:
			c := vote.Conn(v.Uint())
			if e.x.ranked && !e.raw {
				c = anonymous(c)
			}
			e.num(uint64(c))
		case setType:
			e.named(v)
			e.num(v.Uint())
		default:
			e.num(v.Uint())
		}
	case reflect.String:
		if v.Type() == nodeIDType {
			e.named(v)
		}
		e.num(uint64(v.Len()))
		*e.buf = append(*e.buf, v.String()...)
	case reflect.Pointer:
		e.pointer(v)
	case reflect.Interface:
		if v.IsNil() {
			e.num(0)
			return
		}
		*e.buf = append(*e.buf, v.Elem().Type().String()...)
		e.value(v.Elem())
	case reflect.Slice, reflect.Array:
		e.num(uint64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.Map:
		e.mapping(v)
	case reflect.Struct:
		for i, r := range rulesOf(v.Type()) {
			if r.rule == nil || e.raw && !r.form {
				e.value(v.Field(i))
			} else {
				r.rule(e, v, v.Field(i))
			}
		}
	case reflect.Func: // never changes
	default:
		panic("explore: can't encode a " + v.Type().String())
	}
}

// pointer numbers the pointer's target. Columns hold trees; pointers in trees need no numbers.
func (e *encoder) pointer(v reflect.Value) {
	if v.IsNil() {
		e.num(0)
		return
	}
	if e.buf != &e.main {
		e.num(1)
		e.value(v.Elem())
		return
	}
	if n, ok := e.ptrs[v.UnsafePointer()]; ok {
		e.num(n)
		return
	}
	n := uint64(len(e.ptrs) + 1)
	e.ptrs[v.UnsafePointer()] = n
	e.num(n)
	e.value(v.Elem())
}

func (e *encoder) mapping(v reflect.Value) {
	e.num(uint64(v.Len()))
	type pair struct {
		key   string
		value reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for i := v.MapRange(); i.Next(); {
		k := newEncoder(e.x, e.node)
		k.value(i.Key())
		pairs = append(pairs, pair{string(k.main), i.Value()})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	for _, p := range pairs {
		*e.buf = append(*e.buf, p.key...)
		e.value(p.value)
	}
}

// named panics if a value without a rule names a voter that can be exchanged.
func (e *encoder) named(v reflect.Value) {
	if v.Type() == setType && len(e.x.perms) > 1 || v.Type() == nodeIDType && e.x.moves(vote.NodeID(v.String())) {
		panic(fmt.Sprintf("explore: %s %v names voters, which symmetry can't exchange; give it a rule", v.Type(), v))
	}
}
