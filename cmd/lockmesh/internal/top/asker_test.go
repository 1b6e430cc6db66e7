package top

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// node is a Node made of functions.
type node struct {
	status func(ctx context.Context) (*admin.Status, error)
	page   func(after string, limit int) (*admin.Locks, error)
	events func(prefix string) ([]admin.Event, error) // an end without an error lasts
}

func (n *node) Status(ctx context.Context) (*admin.Status, error) { return n.status(ctx) }

func (n *node) LocksPage(_ context.Context, _, after string, limit int) (*admin.Locks, error) {
	return n.page(after, limit)
}

func (n *node) Inspect(_ context.Context, key string) (*admin.Lock, error) {
	return &admin.Lock{Key: key}, nil
}

func (n *node) WatchPrefix(ctx context.Context, prefix string) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		events, err := n.events(prefix)
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err == nil {
			<-ctx.Done()
			err = ctx.Err()
		}
		yield(admin.Event{}, err)
	}
}

func newAsker(ctx context.Context, n *node) *asker {
	return &asker{ctx: ctx, node: n, patience: 10 * time.Second, describe: error.Error}
}

// TestAListIsPaged: a page may be empty, and the list knows of keys left behind.
func TestAListIsPaged(t *testing.T) {
	pages := map[string]*admin.Locks{
		"":  {Next: "b"},
		"b": {Locks: many(600), Next: "c"},
		"c": {Locks: many(400), Next: "d"},
	}
	var limits []int
	a := newAsker(t.Context(), &node{page: func(after string, limit int) (*admin.Locks, error) {
		limits = append(limits, limit)
		return pages[after], nil
	}})
	got := a.list("p")().(listed)
	if len(got.locks) != 1000 || !got.more || got.why != "" || got.prefix != "p" ||
		!slices.Equal(limits, []int{1000, 1000, 400}) {
		t.Errorf("%d keys, more: %v, %q; the limits were %v", len(got.locks), got.more, got.why, limits)
	}
	pages["c"] = &admin.Locks{Locks: many(300)}
	if got := a.list("p")().(listed); len(got.locks) != 900 || got.more {
		t.Errorf("%d keys, more: %v", len(got.locks), got.more)
	}
	endless := 0
	a.node = &node{page: func(string, int) (*admin.Locks, error) { endless++; return &admin.Locks{Next: "on"}, nil }}
	if got := a.list("")().(listed); !got.more || endless != pagesMost {
		t.Errorf("%d empty pages are asked for, more: %v", endless, got.more)
	}
	a.node = &node{page: func(string, int) (*admin.Locks, error) { return nil, errors.New("no \x1b majority") }}
	if got := a.list("")().(listed); got.why != "no � majority" {
		t.Errorf("the reason is %q", got.why)
	}
}

// TestAHungNodeIsGivenUp: after the asker's patience, with a reason for people.
func TestAHungNodeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t.Context(), &node{status: func(ctx context.Context) (*admin.Status, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("no answer: %w", ctx.Err())
		}})
		began := time.Now()
		got := a.look()().(looked)
		if got.status != nil || got.why != "the node doesn't answer" || got.at.Sub(began) != a.patience {
			t.Errorf("after %v the answer is %+v", got.at.Sub(began), got)
		}
	})
}

// TestAWatchBeginsAnew: after errors, with growing pauses, until its context ends.
func TestAWatchBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		began := time.Now()
		var tries []time.Duration
		a := newAsker(ctx, &node{events: func(prefix string) ([]admin.Event, error) {
			tries = append(tries, time.Since(began))
			if prefix != "jobs/" {
				t.Errorf("%q is watched", prefix)
			}
			switch len(tries) {
			case 1, 2, 3:
				return nil, errors.New("the node has ended")
			case 4:
				return []admin.Event{
					{Kind: "granted", Key: "k", Current: true}, {Kind: "synced"}, {Kind: "granted", Key: "k"},
				}, errors.New("broke off")
			}
			return []admin.Event{{Kind: "synced"}, {Kind: "granted", Key: "k"}}, nil
		}})
		a.follow(&group, "jobs/")
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if n := a.tally.take(); n.live || !strings.Contains(n.why, "the node has ended") {
			t.Errorf("without a watch the count is %+v", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := a.tally.take(); n.total != 2 || !n.live || n.gaps != 1 {
			t.Errorf("the count is %+v", n)
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 7 * time.Second}
		if !slices.Equal(tries, want) {
			t.Errorf("the watch begins at %v, not %v", tries, want)
		}
		cancel()
		group.Wait()
	})
}

func TestInspect(t *testing.T) {
	if got := newAsker(t.Context(), &node{}).inspect("k")().(inspected); got.key != "k" || got.lock.Key != "k" || got.why != "" {
		t.Errorf("the answer is %+v", got)
	}
}

func TestStopper(t *testing.T) {
	stops := 0
	s := stopper(func() { stops++ })
	if err := s.Run(); err != nil || stops != 1 {
		t.Errorf("%d stops, %v", stops, err)
	}
}
