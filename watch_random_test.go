package lockmesh

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestAWatchOfATurbulentMesh compares the events of a watch with the leases of the holders, while
// nodes crash, restart and are cut off.
func TestAWatchOfATurbulentMesh(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if seed > 0 {
				sampled.Unraced(t)
			}
			inBubble(t, func(t *testing.T, w *wire) { turbulent(t, w, seed) })
		})
	}
}

// cut is long enough for a connection to be given up: no message is lost within a connection.
const cut = 1500 * time.Millisecond

func turbulent(t *testing.T, w *wire, seed uint64) {
	voters := []string{"a", "b", "c"}
	random := rand.New(rand.NewPCG(seed, 9))
	short := func(c *Config) { c.MaxTTL = 2 * time.Second }
	nodes := make(map[string]*Mesh)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range append(names, "w") {
		nodes[name] = w.join(name, voters, short)
	}
	var mu sync.Mutex
	// granted has the time of each grant, by key and token, of the leases with a confirmed release.
	granted := make(map[string]map[uint64]time.Time)
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	client := func(m *Mesh, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 10))
		for ctx.Err() == nil {
			key := fmt.Sprintf("%c%d", "xrs"[random.IntN(3)], random.IntN(2))
			limited, free := context.WithTimeout(ctx, time.Second)
			var l *Lease
			var err error
			switch {
			case key[0] == 's':
				l, err = m.Semaphore(key, 2).Acquire(limited)
			case key[0] == 'r' && random.IntN(3) > 0:
				l, err = m.RLock(limited, key)
			default:
				l, err = m.Lock(limited, key)
			}
			free()
			if err != nil {
				if m.eng.IsClosing() {
					return
				}
				continue
			}
			token, at := l.Token(), time.Now()
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			if key[0] == 'r' && random.IntN(2) == 0 {
				limited, free := context.WithTimeout(ctx, time.Second)
				if l.Mode() == ModeShared {
					_ = l.Upgrade(limited)
				} else {
					_ = l.Downgrade(limited)
				}
				free()
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			}
			if random.IntN(10) > 0 && l.Unlock(ctx) == nil {
				mu.Lock()
				if granted[key] == nil {
					granted[key] = make(map[uint64]time.Time)
				}
				granted[key][token] = at
				mu.Unlock()
			}
			if l.Err() == nil && random.IntN(3) == 0 {
				_ = l.SetValue(ctx, []byte("v"))
			}
		}
	}
	start := func(name string) {
		m, seed := nodes[name], random.Uint64()
		work.Go(func() { client(m, seed) })
	}
	for _, name := range names {
		start(name)
	}
	watch := must[*Watch](t)(nodes["w"].WatchPrefix(ctx, ""))
	views := make(map[string]*view) // by key
	last := make(map[string]uint64)
	told, gaps, synced := 0, 0, false
	var since time.Time
	heard := make(map[string]map[uint64]bool)
	events := make(chan struct{})
	var seenMu sync.Mutex
	go func() {
		defer close(events)
		for e := range watch.Events() {
			seenMu.Lock()
			told++
			if e.Kind == EventGap || e.Kind == EventSynced {
				for _, v := range views {
					v.apply(e)
				}
				if synced = e.Kind == EventSynced; !synced {
					gaps++
				} else if since.IsZero() {
					since = time.Now()
				}
				seenMu.Unlock()
				continue
			}
			v := views[e.Key]
			if v == nil {
				heard[e.Key] = make(map[uint64]bool)
				v = &view{held: make(map[uint64]Event)}
				views[e.Key] = v
			}
			heard[e.Key][e.Token] = true
			switch e.Kind {
			case EventGranted:
				if _, twice := v.held[e.Token]; twice {
					t.Errorf("told twice: %v", e)
				}
				for _, h := range v.held {
					if h.Mode != e.Mode || h.Mode == ModeExclusive || h.Mode == ModePermit && h.Slot == e.Slot {
						t.Errorf("%v, while %v", e, h)
					}
				}
				if e.Mode == ModeExclusive && e.Token <= last[e.Key] && !e.Current {
					t.Errorf("%v, after token %d", e, last[e.Key])
				}
				if e.Mode == ModeExclusive {
					last[e.Key] = e.Token
				}
			case EventReleased, EventLost, EventChanged:
				token := e.Token
				if e.Previous != 0 {
					token = e.Previous
				}
				if _, ok := v.held[token]; !ok {
					t.Errorf("%v, which isn't held", e)
				}
			}
			v.apply(e)
			seenMu.Unlock()
		}
	}()
	for range 40 {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		name := names[random.IntN(len(names))]
		switch random.IntN(4) {
		case 0:
			if err := nodes[name].Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			nodes[name] = w.join(name, voters, short)
			start(name)
		case 1:
			w.stall(vote.NodeID(name), true)
			time.Sleep(cut + time.Duration(random.IntN(3000))*time.Millisecond)
			w.stall(vote.NodeID(name), false)
		case 2:
			w.stall("w", true)
			time.Sleep(cut + time.Duration(random.IntN(3000))*time.Millisecond)
			w.stall("w", false)
		}
	}
	mu.Lock()
	before := len(granted)
	mu.Unlock()
	if before != 6 {
		t.Errorf("only %d keys were used", before)
	}
	holders := func() []string {
		var all []string
		for _, key := range []string{"x0", "x1", "r0", "r1", "s0", "s1"} {
			for _, h := range must[Info](t)(nodes["w"].Inspect(t.Context(), key)).Holders {
				all = append(all, fmt.Sprintf("%s %s %d %s", key, h.Node, h.Token, h.Value))
			}
		}
		slices.Sort(all)
		return all
	}
	time.Sleep(10 * time.Second) // late events arrive
	seenMu.Lock()
	if gaps == 0 {
		mu.Lock()
		for key, tokens := range granted {
			for token, at := range tokens {
				if at.After(since) && !heard[key][token] {
					t.Errorf("%s with token %d was held at %v, and nothing was told", key, token, at)
				}
			}
		}
		mu.Unlock()
	}
	seenMu.Unlock()
	for _, name := range names { // the clients end, the watch goes on
		if err := nodes[name].Close(); err != nil {
			t.Error(err)
		}
		nodes[name] = w.join(name, voters, short)
	}
	work.Wait()
	if err := nodes["w"].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"x0", "r0"} {
		must[*Lease](t)(nodes[names[i]].Lock(t.Context(), key))
	}
	time.Sleep(10 * time.Second)
	want := holders()
	seenMu.Lock()
	var got []string
	for _, v := range views {
		for _, e := range v.held {
			got = append(got, fmt.Sprintf("%s %s %d %s", e.Key, e.Node, e.Token, e.Value))
		}
	}
	slices.Sort(got)
	if !synced || !slices.Equal(got, want) || len(got) < 2 {
		t.Errorf("in the end %q was told, and is %q (synced: %v)", got, want, synced)
	}
	if told < 200 {
		t.Errorf("only %d events were told", told)
	}
	seenMu.Unlock()
	stop()
	<-events
}
