package transport

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

func frameOf(t testing.TB, payload []byte) []byte {
	t.Helper()
	b, err := appendFrame(nil, WireVersion, func(b []byte) ([]byte, error) { return append(b, payload...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFramesComeOutAsTheyWentIn(t *testing.T) {
	payloads := [][]byte{
		{}, []byte("x"), bytes.Repeat([]byte("y"), readBuffer-frameHeader), bytes.Repeat([]byte("z"), readBuffer-frameHeader+1),
		bytes.Repeat([]byte("w"), maxFrame-1), []byte("last"),
	}
	var stream []byte
	for _, p := range payloads {
		stream = append(stream, frameOf(t, p)...)
	}
	readers := map[string]io.Reader{
		"all at once":     bytes.NewReader(stream),
		"byte by byte":    iotest.OneByteReader(bytes.NewReader(stream)),
		"half by half":    iotest.HalfReader(bytes.NewReader(stream)),
		"with the end on": iotest.DataErrReader(bytes.NewReader(stream)),
	}
	for name, r := range readers {
		t.Run(name, func(t *testing.T) {
			f := newFrameReader(r)
			for i, want := range payloads {
				version, got, err := f.next(maxFrame)
				if err != nil || version != WireVersion || !bytes.Equal(got, want) {
					t.Fatalf("frame %d: version %d, %d bytes, error %v", i, version, len(got), err)
				}
			}
			if _, _, err := f.next(maxFrame); err != io.EOF {
				t.Fatalf("at the end: %v", err)
			}
		})
	}
}

func TestBadFramesAreErrors(t *testing.T) {
	long := frameOf(t, make([]byte, readBuffer))
	tests := []struct {
		name   string
		stream []byte
		want   error
	}{
		{"no bytes", nil, io.EOF},
		{"half a length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"a length of zero", []byte{0, 0, 0, 0, 1, 2, 3}, errMalformed},
		{"a length beyond the bound", []byte{0, 1, 0, 1, 1}, errMalformed},
		{"a length of four gigabytes", []byte{0xff, 0xff, 0xff, 0xff, 1}, errMalformed},
		{"no body", []byte{0, 0, 0, 5}, io.ErrUnexpectedEOF},
		{"half a body", []byte{0, 0, 0, 5, 1, 2}, io.ErrUnexpectedEOF},
		{"half a long body", long[:len(long)-1], io.ErrUnexpectedEOF},
		{"a long length alone", long[:lengthBytes], io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFrameReader(bytes.NewReader(tt.stream))
			if _, _, err := f.next(maxFrame); !errors.Is(err, tt.want) {
				t.Fatalf("error %v", err)
			}
			if cap(f.long) > maxFrame {
				t.Fatalf("%d bytes were allocated", cap(f.long))
			}
		})
	}
}

func TestAFrameTooLongIsNotWritten(t *testing.T) {
	before := []byte("before")
	got, err := appendFrame(slices.Clone(before), 1, func(b []byte) ([]byte, error) { return append(b, make([]byte, maxFrame)...), nil })
	if !errors.Is(err, errMalformed) || !bytes.Equal(got, before) {
		t.Fatalf("%d bytes, error %v", len(got), err)
	}
}
