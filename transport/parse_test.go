package transport

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// spoken reports whether a value of each sort may begin with a byte. Any other beginning is
// refused, whatever the library accepts.
var spoken = map[string]func(c byte) bool{
	"uint": isUint,
	"int": func(c byte) bool {
		return isUint(c) || c >= msgpcode.NegFixedNumLow || c >= msgpcode.Int8 && c <= msgpcode.Int64
	},
	"bool":   func(c byte) bool { return c == msgpcode.True || c == msgpcode.False },
	"string": func(c byte) bool { return msgpcode.IsFixedString(c) || c == msgpcode.Str8 || c == msgpcode.Str16 },
	"bytes":  func(c byte) bool { return c == msgpcode.Bin8 || c == msgpcode.Bin16 },
	"array":  func(c byte) bool { return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 },
}

func isUint(c byte) bool {
	return c <= msgpcode.PosFixedNumHigh || c >= msgpcode.Uint8 && c <= msgpcode.Uint64
}

// theirs reads a value with the library: the value, and the number of bytes left. ok is false for
// any bytes that the protocol doesn't allow.
func theirs(sort string, frame []byte) (v any, left int, ok bool) {
	if len(frame) == 0 || !spoken[sort](frame[0]) {
		return nil, 0, false
	}
	rest := bytes.NewReader(frame)
	dec := msgpack.NewDecoder(rest)
	var err error
	switch sort {
	case "uint":
		v, err = dec.DecodeUint64()
	case "int":
		var n int64
		n, err = dec.DecodeInt64()
		if n < 0 && frame[0] == msgpcode.Uint64 {
			return nil, 0, false // the number has wrapped round
		}
		v = n
	case "bool":
		v, err = dec.DecodeBool()
	case "string":
		var s string
		s, err = dec.DecodeString()
		if !utf8.ValidString(s) {
			return nil, 0, false
		}
		v = s
	case "bytes":
		var b []byte
		b, err = dec.DecodeBytes()
		v = string(b)
	case "array":
		var n int
		n, err = dec.DecodeArrayLen()
		if n > rest.Len() {
			return nil, 0, false // each element takes a byte
		}
		v = n
	}
	return v, rest.Len(), err == nil
}

// ours reads a value with the parser.
func ours(sort string, frame []byte) (v any, left int, err error) {
	p := parse(frame)
	switch sort {
	case "uint":
		v = p.uint()
	case "int":
		v = p.int()
	case "bool":
		v = p.bool()
	case "string":
		v = p.string(0, math.MaxUint16, "string")
	case "bytes":
		v = string(p.bytes(math.MaxUint16))
	case "array":
		v = p.array(math.MaxUint16)
	}
	return v, p.left(), p.err
}

// zeros are the values after an error.
var zeros = map[string]any{"uint": uint64(0), "int": int64(0), "bool": false, "string": "", "bytes": "", "array": 0}

func compareWords(t *testing.T, frame []byte) {
	t.Helper()
	for sort := range spoken {
		want, wantLeft, ok := theirs(sort, frame)
		got, left, err := ours(sort, frame)
		switch {
		case ok && (err != nil || got != want || left != wantLeft):
			t.Fatalf("%s of %x: %v with %d bytes left (%v); the library reads %v with %d left", sort, frame, got, left, err, want, wantLeft)
		case !ok && (!errors.Is(err, errMalformed) || left != 0 || got != zeros[sort]):
			t.Fatalf("%s of %x: %v with %d bytes left, error %v; it isn't one", sort, frame, got, left, err)
		}
	}
}

// tails may follow the first byte of a value: lengths that fit, lengths that don't, and numbers at
// their bounds.
var tails = func() [][]byte {
	all := [][]byte{nil}
	for _, b := range []byte{0, 1, 5, 31, 32, 0x7f, 0x80, 0xff} {
		all = append(all, []byte{b}, bytes.Repeat([]byte{b}, 9), append([]byte{0, b}, bytes.Repeat([]byte{'x'}, 300)...),
			append([]byte{b}, bytes.Repeat([]byte{'x'}, 300)...), append([]byte{b, 0, 0, 0, 0, 0, 0, 0}, 1, 2), append([]byte{b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1))
	}
	return append(all, append([]byte{1, 0x2c}, bytes.Repeat([]byte{'x'}, 300)...), append([]byte{0xff, 0xff}, bytes.Repeat([]byte{'x'}, math.MaxUint16)...))
}()

func TestWordsAreReadAsTheLibraryReadsThem(t *testing.T) {
	sampled.Computes(t)
	sampled.Unraced(t)
	compareWords(t, nil)
	for c := range 256 {
		for _, tail := range tails {
			frame := append([]byte{byte(c)}, tail...)
			for n := 1; n <= min(len(frame), 12); n++ { // cut short anywhere
				compareWords(t, frame[:n])
			}
			compareWords(t, frame)
		}
	}
}

func TestWordsAreReadAsTheLibraryWritesThem(t *testing.T) {
	for _, compact := range []bool{false, true} {
		var b bytes.Buffer
		enc := msgpack.NewEncoder(&b)
		enc.UseCompactInts(compact)
		for _, v := range []int64{0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64,
			-1, -32, -33, -128, -129, -32768, -32769, math.MinInt32, math.MinInt32 - 1, math.MinInt64} {
			b.Reset()
			if err := enc.EncodeInt64(v); err != nil {
				t.Fatal(err)
			}
			if got, left, err := ours("int", b.Bytes()); err != nil || left != 0 || got != v {
				t.Errorf("%d, %x: %v, %d left, %v", v, b.Bytes(), got, left, err)
			}
			b.Reset()
			if err := enc.EncodeUint64(uint64(v)); err != nil {
				t.Fatal(err)
			}
			if got, left, err := ours("uint", b.Bytes()); err != nil || left != 0 || got != uint64(v) {
				t.Errorf("%d, %x: %v, %d left, %v", uint64(v), b.Bytes(), got, left, err)
			}
		}
	}
}

// FuzzWords compares every sort of value with the library, whatever the bytes.
func FuzzWords(f *testing.F) {
	for c := range 256 {
		f.Add([]byte{byte(c), 0, 3, 'a', 'b', 'c', 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, frame []byte) { compareWords(t, frame) })
}
