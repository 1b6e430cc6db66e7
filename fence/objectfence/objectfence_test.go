package objectfence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/fencetest"
	"github.com/lockmesh/lockmesh/fence/objectfence"
)

// journal is a list of lines in one object.
type journal struct{ object *objectfence.Resource }

func (j journal) Append(ctx context.Context, token uint64, line string) error {
	return j.object.Do(ctx, token, func(data []byte) ([]byte, error) { return append(data, line+"\n"...), nil })
}

func (j journal) Lines(ctx context.Context) ([]string, error) {
	o, err := j.object.Get(ctx)
	return strings.Split(strings.TrimSuffix(string(o.Data), "\n"), "\n"), err
}

func TestAnObjectIsFenced(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Log { return journal{objectfence.New(new(objectfence.Memory), "journal")} })
}

func TestTheMemoryHeedsConditions(t *testing.T) {
	if err := objectfence.Probe(t.Context(), new(objectfence.Memory), "probe"); err != nil {
		t.Error(err)
	}
}

// between is a store with a hook right before each Put, as if the writer had been stopped there.
type between struct {
	objectfence.Store
	puts   int
	before func(put int) error
}

func (b *between) Put(ctx context.Context, name string, o objectfence.Object) error {
	b.puts++
	if err := b.before(b.puts); err != nil {
		return err
	}
	return b.Store.Put(ctx, name, o)
}

func TestAHolderThatIsStoppedBeforeItsPutIsRefused(t *testing.T) {
	for _, content := range []string{"by the new holder", "as before"} {
		t.Run(content, func(t *testing.T) {
			var store objectfence.Memory
			must(t, objectfence.New(&store, "o").Put(t.Context(), 4, []byte("as before")))
			stopped := &between{Store: &store, before: func(int) error {
				return objectfence.New(&store, "o").Put(t.Context(), 6, []byte(content))
			}}
			err := objectfence.New(stopped, "o").Put(t.Context(), 5, []byte("late"))
			var stale *fence.StaleError
			if !errors.As(err, &stale) || stale.Resource != "o" || stale.Token != 5 || stale.Newest != 6 {
				t.Errorf("%v", err)
			}
			want(t, &store, 6, content)
		})
	}
}

func TestAWriterThatLostARaceLooksAgain(t *testing.T) {
	var store objectfence.Memory
	raced := &between{Store: &store, before: func(put int) error {
		if put > 2 {
			return nil
		}
		return journal{objectfence.New(&store, "o")}.Append(t.Context(), 5, "by the other goroutine")
	}}
	must(t, journal{objectfence.New(raced, "o")}.Append(t.Context(), 5, "mine"))
	want(t, &store, 5, "by the other goroutine\nby the other goroutine\nmine\n")
}

func TestARequestThatAlwaysLosesGivesUp(t *testing.T) {
	raced := &between{Store: new(objectfence.Memory), before: func(int) error { return objectfence.ErrChanged }}
	err := objectfence.New(raced, "o").Put(t.Context(), 5, nil)
	if !errors.Is(err, objectfence.ErrChanged) || raced.puts != 64 {
		t.Errorf("%v after %d", err, raced.puts)
	}
}

// After an error the object may or may not have been written, so the package doesn't repeat the
// write.
func TestAnUnclearPutIsNotRepeated(t *testing.T) {
	cut := errors.New("connection reset")
	unclear := &between{Store: new(objectfence.Memory), before: func(int) error { return cut }}
	if err := objectfence.New(unclear, "o").Put(t.Context(), 5, nil); !errors.Is(err, cut) || unclear.puts != 1 {
		t.Errorf("%v after %d", err, unclear.puts)
	}
}

func TestAChangeThatFailsWritesNothing(t *testing.T) {
	var store objectfence.Memory
	broken := errors.New("can't be parsed")
	if err := objectfence.New(&store, "o").Do(t.Context(), 5, func([]byte) ([]byte, error) { return nil, broken }); err != broken {
		t.Errorf("%v", err)
	}
	want(t, &store, 0, "")
}

func TestAnObjectWithoutATokenIsOlderThanAll(t *testing.T) {
	var store objectfence.Memory
	must(t, store.Put(t.Context(), "o", objectfence.Object{Data: []byte("before there were tokens")}))
	must(t, objectfence.New(&store, "o").Put(t.Context(), 1, []byte("fenced")))
	want(t, &store, 1, "fenced")
}

func TestTakingNoteShutsOutOlderHolders(t *testing.T) {
	var store objectfence.Memory
	o := objectfence.New(&store, "o")
	must(t, o.Put(t.Context(), 5, []byte("kept")))
	must(t, o.Do(t.Context(), 6, func(data []byte) ([]byte, error) { return data, nil }))
	if err := o.Put(t.Context(), 5, nil); !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	want(t, &store, 6, "kept")
}

func TestNamesAreChecked(t *testing.T) {
	if err := objectfence.New(new(objectfence.Memory), "").Put(t.Context(), 1, nil); !errors.Is(err, fence.ErrResource) {
		t.Errorf("%v", err)
	}
}

func TestAnEndedContextEndsTheWrite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	store := &between{Store: new(objectfence.Memory), before: func(int) error {
		cancel(errors.New("the lease is lost"))
		return nil
	}}
	if err := objectfence.New(store, "o").Put(ctx, 5, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	want(t, store.Store, 0, "")
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	for _, c := range []struct {
		name, stored string
		token        uint64
		data         string
		ok           bool
	}{
		{"a token", "lockmesh-token: 7\nx\ny", 7, "x\ny", true},
		{"no content", "lockmesh-token: 9223372036854775807\n", fence.MaxToken, "", true},
		{"no token", "plain", 0, "plain", true},
		{"nothing", "", 0, "", true},
		{"zero", "lockmesh-token: 0\n", 0, "", false},
		{"too many bits", "lockmesh-token: 9223372036854775808\n", 0, "", false},
		{"cut off", "lockmesh-token: 92", 0, "", false},
		{"no number", "lockmesh-token: seven\nx", 0, "", false},
	} {
		token, data, err := objectfence.Decode([]byte(c.stored))
		if (err == nil) != c.ok || c.ok && (token != c.token || string(data) != c.data) {
			t.Errorf("%s: %d, %q, %v", c.name, token, data, err)
		}
		if c.ok && c.token > 0 && string(objectfence.Encode(c.token, []byte(c.data))) != c.stored {
			t.Errorf("%s: encoded as %q", c.name, objectfence.Encode(c.token, []byte(c.data)))
		}
	}
}

func want(t *testing.T, store objectfence.Store, token uint64, data string) {
	t.Helper()
	o, err := store.Get(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	if o.Token != token || string(o.Data) != data {
		t.Errorf("the object is %q by %d, not %q by %d", o.Data, o.Token, data, token)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
