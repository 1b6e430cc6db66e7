package load

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// fake is a service within this process. A sloppy service grants every request.
type fake struct {
	mu     sync.Mutex
	keys   map[string]chan struct{}
	token  uint64
	sloppy bool
	broken error
}

func (f *fake) Lock(ctx context.Context, key string) (peer.Unlock, uint64, error) {
	if f.broken != nil {
		return nil, 0, f.broken
	}
	f.mu.Lock()
	if f.keys == nil {
		f.keys = map[string]chan struct{}{}
	}
	c, ok := f.keys[key]
	if !ok {
		c = make(chan struct{}, 1)
		f.keys[key] = c
	}
	f.mu.Unlock()
	if !f.sloppy {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	f.mu.Lock()
	f.token++
	token := f.token
	f.mu.Unlock()
	return func(context.Context) error {
		if !f.sloppy {
			<-c
		}
		return nil
	}, token, nil
}

func (f *fake) Close() error { return nil }

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		k := Key("throughput12", i)
		if len(k) != KeySize || seen[k] {
			t.Fatalf("the key %q has %d bytes, or came before", k, len(k))
		}
		seen[k] = true
	}
}

func TestLatency(t *testing.T) {
	l, err := Latency(t.Context(), &fake{}, LatencyArgs{Name: "l", For: 10 * time.Millisecond})
	if err != nil || l.Acquire.N == 0 || l.Acquire.N != l.Cycle.N || l.Cycle.P99 < l.Cycle.P50 || l.Cycle.P50 < l.Acquire.P50 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestAnErrorEndsIt(t *testing.T) {
	broken := &fake{broken: errors.New("no")}
	if _, err := Cycles(t.Context(), broken, ThroughputArgs{For: time.Hour, Callers: 3}); !errors.Is(err, broken.broken) {
		t.Errorf("the error is %v", err)
	}
	if _, err := Contend(t.Context(), broken, ContendArgs{Callers: 3, Start: time.Now(), For: time.Hour}); !errors.Is(err, broken.broken) {
		t.Errorf("the error is %v", err)
	}
	if _, err := Questions(t.Context(), &fake{}, ThroughputArgs{}); err == nil {
		t.Error("a lock service answers questions")
	}
}

func TestContend(t *testing.T) {
	c, err := Contend(t.Context(), &fake{}, ContendArgs{Name: "c", Callers: 4, Start: time.Now(), For: 30 * time.Millisecond})
	if err != nil || len(c.Counts) != 4 || c.Longest <= 0 {
		t.Fatalf("%v, %v", c, err)
	}
	total := 0.0
	for _, n := range c.Counts {
		total += n
	}
	if total == 0 {
		t.Error("nobody had the key")
	}
}

func TestTheBoardSeesWhatMustNotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board")
	if err := CreateBoard(path); err != nil {
		t.Fatal(err)
	}
	a, err := OpenBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := OpenBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, board := range []*Board{a, b, b, a} {
		board.Hold(map[*Board]int{a: 0, b: 1}[board], uint64(i+1), true)
		board.Free()
	}
	if a.HandOvers() != 2 || b.Check() != nil {
		t.Errorf("a, b, b, a are %d hand-overs, %v", a.HandOvers(), b.Check())
	}
	a.Hold(0, 4, true) // as the last
	if a.Check() == nil {
		t.Error("a token that doesn't rise goes unnoticed")
	}
	c := NewBoard()
	c.Hold(0, 0, true)
	c.Hold(1, 0, true)
	if c.Check() == nil {
		t.Error("two at once go unnoticed")
	}
}

func TestHeld(t *testing.T) {
	f, h := &fake{}, &Held{}
	h.Room(500)
	if err := h.Take(t.Context(), f, HoldArgs{Name: "h"}); err != nil || len(f.keys) != 500 {
		t.Fatalf("%d keys were taken, %v", len(f.keys), err)
	}
	for k, c := range f.keys {
		if len(c) != 1 {
			t.Fatalf("%s isn't held", k)
		}
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k, c := range f.keys {
		if len(c) != 0 {
			t.Fatalf("%s is still held", k)
		}
	}
}
