package shrink

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// literal returns a value of package sim as Go code of another package. Fields are left out if
// they are zero or empty, and so are functions, pointers and interfaces, since a literal can't hold
// such values. The fields of the outermost struct and the structs in a slice have a line each.
func literal(v any) string {
	var b strings.Builder
	writeLiteral(&b, reflect.ValueOf(v), true, "\n")
	return b.String()
}

// writeLiteral writes a value, with its type if typed is set, for places where the surrounding code
// doesn't determine the type. Each field ends with the text end.
func writeLiteral(b *strings.Builder, v reflect.Value, typed bool, end string) {
	switch x := v.Interface().(type) {
	case time.Duration:
		b.WriteString(durationLiteral(x))
		return
	case fault.Kind:
		b.WriteString("fault." + x.GoName())
		return
	case vote.Mode:
		b.WriteString("sim." + [...]string{"Exclusive", "Exclusive", "Shared", "Permit"}[x])
		return
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array:
		if typed {
			b.WriteString(v.Type().String())
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		b.WriteString("{" + end)
		for i := range v.NumField() {
			f, t := v.Field(i), v.Type().Field(i)
			if !t.IsExported() || !isSaid(f) {
				continue
			}
			fmt.Fprintf(b, "%s: ", t.Name)
			writeLiteral(b, f, true, "")
			b.WriteString("," + end)
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		b.WriteByte('{')
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct {
				b.WriteByte('\n')
			}
			writeLiteral(b, v.Index(i), false, "")
			b.WriteString(", ")
		}
		if v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct {
			b.WriteByte('\n')
		}
		b.WriteByte('}')
	case reflect.String:
		b.WriteString(strconv.Quote(v.String()))
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := v.Uint(); n < shortNumber {
			b.WriteString(strconv.FormatUint(n, 10))
		} else {
			fmt.Fprintf(b, "%#x", n)
		}
	default:
		panic(fmt.Sprintf("shrink: there is no literal of a %v yet", v.Type()))
	}
}

// shortNumber is from where on numbers are written in hexadecimal.
const shortNumber = 1_000_000

// isSaid reports whether a field is written. Every act states its kind of fault, even though the
// first kind, fault.Crash, is zero.
func isSaid(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Interface:
		return false
	case reflect.Slice:
		return f.Len() > 0
	}
	return !f.IsZero() || f.Type() == reflect.TypeFor[fault.Kind]()
}

// durationLiteral returns a duration as a multiple of the largest unit that divides the duration.
func durationLiteral(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}, {1, "Nanosecond"}} {
		if d%unit.d != 0 {
			continue
		}
		switch n := int64(d / unit.d); n {
		case 0:
			return "0"
		case 1:
			return "time." + unit.name
		case -1:
			return "-time." + unit.name
		default:
			return fmt.Sprintf("%d * time.%s", n, unit.name)
		}
	}
	panic("shrink: a nanosecond divides every duration")
}
