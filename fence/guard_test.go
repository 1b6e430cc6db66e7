package fence_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/fencetest"
)

// journal is a list in memory, protected by a guard.
type journal struct {
	do    func(token uint64, write func() error) error
	lines []string // only the guard's mutual exclusion keeps the list free of races
}

func (j *journal) Append(_ context.Context, token uint64, line string) error {
	return j.do(token, func() error {
		j.lines = append(j.lines, line)
		return nil
	})
}

func (j *journal) Lines(context.Context) ([]string, error) { return j.lines, nil }

func TestAGuardFencesAResource(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Log { return &journal{do: new(fence.Guard).Do} })
}

func TestGuardsFenceEachResource(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Log {
		guards := fence.NewGuards(1)
		return &journal{do: func(token uint64, write func() error) error { return guards.Do("r", token, write) }}
	})
	fencetest.Run(t, func(*testing.T) fencetest.Log {
		var guards fence.Guards
		return &journal{do: func(token uint64, write func() error) error { return guards.Do("r", token, write) }}
	})
}

// A call without a function panics, and records no token.
func TestNoFunctionToWrite(t *testing.T) {
	var g fence.Guard
	var guards fence.Guards
	for name, do := range map[string]func(){
		"Guard":  func() { _ = g.Do(5, nil) },
		"Guards": func() { _ = guards.Do("r", 5, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if fault := recover(); fault != "fence: Do was called with a nil function" || g.Newest() != 0 || guards.Newest("r") != 0 {
					t.Errorf("it panicked with %v; the newest tokens are %d and %d", fault, g.Newest(), guards.Newest("r"))
				}
			}()
			do()
		})
	}
}

func TestARefusalNamesBothTokens(t *testing.T) {
	var g fence.Guard
	guards := fence.NewGuards(0)
	must(t, g.Check(9), guards.Check("billing", 9))
	for _, c := range []struct {
		err  error
		want string
	}{
		{g.Check(5), "fence: token 5 is stale: the resource has seen 9"},
		{guards.Check("billing", 5), `fence: token 5 is stale: "billing" has seen 9`},
		{g.Check(0), "fence: not a token: it is 0, which no lease has; was it never set?"},
		{g.Check(1 << 63), "fence: not a token: 9223372036854775808 has more than 63 bits"},
		{guards.Check("", 5), "fence: not a name of a resource: it is empty"},
		{guards.Check(strings.Repeat("x", 513), 5), "fence: not a name of a resource: it has 513 bytes, 512 are allowed"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%v, not %s", c.err, c.want)
		}
	}
	if g.Newest() != 9 || guards.Newest("billing") != 9 {
		t.Error("a refused token was taken note of")
	}
}

func TestAWritesErrorComesBackAndItsTokenStays(t *testing.T) {
	var g fence.Guard
	broken := errors.New("disk full")
	if err := g.Do(5, func() error { return broken }); err != broken {
		t.Errorf("%v, not the error of write", err)
	}
	if err := g.Check(4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token after a write that failed: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(6, func() error { panic("write") })
	}()
	if err := g.Check(5); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token after a write that panicked: %v", err)
	}
	must(t, g.Check(6)) // and no call waits for the panicked call
}

// An error of a write about another resource must not be taken for a refusal of this resource.
func TestGuardsHandOnAnotherResourcesRefusal(t *testing.T) {
	guards, other := fence.NewGuards(0), fence.NewGuards(0)
	must(t, other.Check("other", 9))
	err := guards.Do("this", 5, func() error { return other.Check("other", 5) })
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Resource != "other" {
		t.Errorf("%v", err)
	}
}

func TestANewerTokenWaitsForAWriteUnderWayAndShutsOutQueuedWrites(t *testing.T) {
	var g fence.Guard
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	var work sync.WaitGroup
	begun, goOn := make(chan struct{}), make(chan struct{})
	work.Go(func() {
		_ = g.Do(5, func() error {
			note("5 begins")
			close(begun)
			<-goOn
			note("5 ends")
			return nil
		})
	})
	<-begun
	work.Go(func() {
		if err := g.Do(5, func() error { note("5 writes again"); return nil }); !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older one that waited for its turn: %v", err)
		}
	})
	work.Go(func() { _ = g.Do(6, func() error { note("6 writes"); return nil }) })
	work.Go(func() {
		_ = g.Check(6)
		note("6 is checked")
	})
	for g.Newest() != 6 { // visible at once, though the call waits
		runtime.Gosched()
	}
	if err := g.Do(5, func() error { return nil }); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older one that comes later: %v", err)
	}
	close(goOn)
	work.Wait()
	slices.Sort(order[2:])
	if want := []string{"5 begins", "5 ends", "6 is checked", "6 writes"}; !slices.Equal(order, want) {
		t.Errorf("%q, not %q", order, want)
	}
}

func TestResourcesDontWaitForEachOther(t *testing.T) {
	guards := fence.NewGuards(0)
	must(t, guards.Do("a", 9, func() error { return guards.Check("b", 1) }))
	if guards.Newest("a") != 9 || guards.Newest("b") != 1 || guards.Newest("c") != 0 {
		t.Error("one resource's token has become another's")
	}
}

func TestForgottenResourcesShareAFloor(t *testing.T) {
	guards := fence.NewGuards(2)
	must(t, guards.Check("a", 10), guards.Check("b", 20), guards.Check("a", 11))
	must(t, guards.Check("c", 30)) // b was unused for longest
	var stale *fence.StaleError
	if err := guards.Check("b", 19); !errors.As(err, &stale) || !stale.Forgotten || stale.Newest != 20 || stale.Resource != "b" {
		t.Errorf("a late writer of a forgotten resource: %v", err)
	} else if want := `fence: token 19 is refused: the newest token seen by "b" is forgotten, and may be as new as 20`; err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if err := guards.Check("never seen", 19); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an unknown resource, under the floor: %v", err)
	}
	if guards.Newest("a") != 11 || guards.Newest("b") != 20 || guards.Newest("c") != 30 {
		t.Errorf("the refused ones have pushed out others: %d, %d, %d", guards.Newest("a"), guards.Newest("b"), guards.Newest("c"))
	}
	must(t, guards.Check("a", 11)) // known, so the bound of forgotten resources doesn't matter
	must(t, guards.Check("b", 20)) // the newest token of b itself
}

func TestAResourceInUseIsNotForgotten(t *testing.T) {
	guards := fence.NewGuards(1)
	must(t, guards.Do("a", 10, func() error {
		must(t, guards.Check("b", 20), guards.Check("c", 30))
		if err := guards.Check("a", 9); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%v", err)
		}
		if n := guards.Newest("a"); n != 10 {
			t.Errorf("a was forgotten while it was written: %d", n)
		}
		return nil
	}))
}

// FuzzGuards compares guards of any limit with a complete record: the accepted tokens of a resource
// never fall, and until a resource has to be forgotten, no other write is refused.
func FuzzGuards(f *testing.F) {
	f.Add(2, []byte{0, 5, 1, 6, 2, 7, 0, 4, 0, 5, 1, 6})
	f.Add(9, []byte{0, 5, 1, 6, 2, 7, 0, 4, 0, 5, 1, 6})
	f.Fuzz(func(t *testing.T, limit int, calls []byte) {
		limit = 1 + int(uint(limit)%8)
		guards := fence.NewGuards(limit)
		newest := map[string]uint64{}
		for ; len(calls) >= 2; calls = calls[2:] {
			resource, token := string('a'+rune(calls[0]%12)), 1+uint64(calls[1]%64)
			written := false
			err := guards.Do(resource, token, func() error { written = true; return nil })
			if written != (err == nil) {
				t.Fatalf("written %v, and %v", written, err)
			}
			if err == nil && token < newest[resource] {
				t.Fatalf("%s has accepted %d after %d", resource, token, newest[resource])
			}
			var stale *fence.StaleError
			if err != nil && !errors.As(err, &stale) {
				t.Fatal(err)
			}
			if err != nil && token >= newest[resource] && (!stale.Forgotten || len(newest) <= limit) {
				t.Fatalf("%s has refused %d after %d: %v", resource, token, newest[resource], err)
			}
			if err == nil {
				newest[resource] = token
			}
		}
	})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
