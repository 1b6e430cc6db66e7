// Package registertest tests whether a [register.Register] compares and sets atomically.
package registertest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/lockmesh/lockmesh/register"
)

// Run tests the register returned by open. Each call of open must prepare a place without a record,
// and return a function to connect to this place, as processes would one after the other.
func Run(t *testing.T, open func(t *testing.T) (connect func() register.Register)) {
	t.Run("there is no record at first", func(t *testing.T) { testEmpty(t, open(t)) })
	t.Run("what is stored is loaded, to the last byte", func(t *testing.T) { testBytes(t, open(t)) })
	t.Run("of two that add a record, one does", func(t *testing.T) { testAdd(t, open(t)) })
	t.Run("a record that has changed isn't replaced", func(t *testing.T) { testChanged(t, open(t)) })
	t.Run("of many at once, each change is made by one", func(t *testing.T) { testAtOnce(t, open(t)) })
	t.Run("a call ends with its context", func(t *testing.T) { testContext(t, open(t)) })
}

func load(t *testing.T, r register.Register) (record, version string) {
	t.Helper()
	data, version, err := r.Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return string(data), version
}

func store(t *testing.T, r register.Register, record, version string) {
	t.Helper()
	if err := r.Store(t.Context(), []byte(record), version); err != nil {
		t.Fatalf("Store: %v", err)
	}
}

func refused(t *testing.T, r register.Register, record, version string) {
	t.Helper()
	if err := r.Store(t.Context(), []byte(record), version); !errors.Is(err, register.ErrChanged) {
		t.Errorf("Store returns %v, not ErrChanged", err)
	}
}

func testEmpty(t *testing.T, connect func() register.Register) {
	for range 2 {
		if record, _ := load(t, connect()); record != "" {
			t.Errorf("it has the record %q", record)
		}
	}
}

func testBytes(t *testing.T, connect func() register.Register) {
	r := connect()
	for _, record := range []string{
		`{"a":"b","n":1}`, "x", "two\nlines\r\n", `quotes ' " ; -- \ % ? $1 é 世 <&>`, string(bytes.Repeat([]byte("0123456789abcdef"), register.MaxRecord/16)),
	} {
		_, version := load(t, r)
		store(t, r, record, version)
		for _, r := range []register.Register{r, connect()} {
			if got, _ := load(t, r); got != record {
				t.Errorf("%q was stored, and %q is loaded", record, got)
			}
		}
	}
}

func testAdd(t *testing.T, connect func() register.Register) {
	one, other := connect(), connect()
	_, v := load(t, one)
	_, w := load(t, other)
	store(t, one, "of one", v)
	refused(t, other, "of the other", w)
	refused(t, one, "once more", v)
	if got, _ := load(t, other); got != "of one" {
		t.Errorf("it has %q", got)
	}
}

func testChanged(t *testing.T, connect func() register.Register) {
	one, other := connect(), connect()
	var versions []string
	for i := range 4 {
		_, version := load(t, one)
		for _, v := range versions {
			if v == version {
				t.Errorf("two contents have the same version %q", v)
			}
		}
		versions = append(versions, version)
		store(t, one, "content "+strconv.Itoa(i), version)
	}
	for _, v := range versions {
		refused(t, other, "late", v)
	}
	got, version := load(t, other)
	if got != "content 3" {
		t.Errorf("it has %q", got)
	}
	store(t, other, "in time", version)
	refused(t, one, "late", version)
}

// testAtOnce has several goroutines count up to a number. If two stores of the same version
// succeeded, the goroutines would reach the number by more stores than the number.
func testAtOnce(t *testing.T, connect func() register.Register) {
	const goroutines, most = 4, 40
	counts := make(chan int, goroutines)
	for range goroutines {
		r := connect()
		go func() {
			stores := 0
			defer func() { counts <- stores }()
			for {
				data, version, err := r.Load(t.Context())
				if err != nil {
					t.Errorf("Load: %v", err)
					return
				}
				n := 0
				if len(data) > 0 {
					if n, err = strconv.Atoi(string(data)); err != nil {
						t.Error(err)
						return
					}
				}
				if n >= most {
					return
				}
				switch err := r.Store(t.Context(), []byte(strconv.Itoa(n+1)), version); {
				case err == nil:
					stores++
				case !errors.Is(err, register.ErrChanged):
					t.Errorf("Store: %v", err)
					return
				}
			}
		}()
	}
	sum := 0
	for range goroutines {
		sum += <-counts
	}
	if sum != most && !t.Failed() {
		t.Errorf("%d stores have succeeded on the way to %d", sum, most)
	}
}

func testContext(t *testing.T, connect func() register.Register) {
	r := connect()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.Load(ctx); err == nil {
		t.Error("Load returns nil though its context has ended")
	}
	_, version := load(t, r)
	if err := r.Store(ctx, []byte("x"), version); err == nil || errors.Is(err, register.ErrChanged) {
		t.Errorf("Store returns %v though its context has ended", err)
	}
}
