package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// The latest KeptUntil read from a live lease is a promise: no other node gets the key before,
// though the node crashes at any instant, amid extensions, upgrades and re-entries.
func TestNoOtherNodeIsGrantedAKeyBeforeKeptUntil(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	var sum keptFigures
	worlds := sampled.Count(50, 2000)
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 58))
			latency := pick(rng, 0, 3*time.Millisecond, 60*time.Millisecond)
			inBubbleOver(t, latency, func(t *testing.T, w *wire) { newKeptWorld(w, rng, &sum).run() })
		})
	}
	complete := sum.worlds == worlds && !t.Failed() // not a single seed, by -run
	if complete && (sum.outlasting < 20 || sum.shorter < 1 || sum.left < 2) {
		t.Errorf("the worlds prove too little: %+v", sum)
	}
	t.Logf("%+v", sum)
}

// keptWorld is a mesh with a node that holds keys until its crash. The voters are a, b and c.
type keptWorld struct {
	*wire
	rng     *rand.Rand
	ttl     time.Duration
	holder  *Mesh
	keys    []*keptKey
	work    sync.WaitGroup
	figures *keptFigures

	mu      sync.Mutex // guards crashed, the fields of the keys, the figures, and calls of stall
	crashed time.Time  // zero before the crash
}

// keptKey is a key held by the node that crashes, and wanted by another node.
type keptKey struct {
	name    string
	mode    Mode
	leases  []*Lease  // the outermost lease, then the leases that have re-entered the key
	kept    time.Time // the latest KeptUntil read from a live lease
	shorter bool      // kept was before the Deadline
	granted time.Time // when the other node got the key
	story   []string
}

// keptFigures count the keys of all worlds for which the promise was put to the test.
type keptFigures struct {
	worlds     int
	outlasting int // promises that outlasted the crash
	shorter    int // promises that outlasted the crash and ended before the Deadline
	left       int // outer Unlocks that left a key to readers
}

func newKeptWorld(in *wire, rng *rand.Rand, sum *keptFigures) *keptWorld {
	w := &keptWorld{wire: in, rng: rng, figures: sum}
	sum.worlds++
	w.ttl = pick(rng, 2*time.Second, 5*time.Second, 10*time.Second)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.join(name, []string{"a", "b", "c"}, func(c *Config) { c.TTL = w.ttl })
	}
	for _, m := range w.meshes {
		check(w.t, m.Ready(w.t.Context()))
	}
	w.holder = pick(rng, w.meshes[0], w.meshes[3])
	for i := range 1 + rng.IntN(3) {
		k := &keptKey{name: fmt.Sprint("k", i), mode: pick(rng, ModeExclusive, ModeShared, ModePermit)}
		l := must[*Lease](w.t)(k.take(w.t.Context(), w.holder, k.mode, w.options(k)...))
		k.leases, w.keys = []*Lease{l}, append(w.keys, k)
	}
	return w
}

// take acquires the key for a node, or re-enters a lease if ctx is from the lease.
func (k *keptKey) take(ctx context.Context, m *Mesh, as Mode, opts ...Option) (*Lease, error) {
	switch as {
	case ModeShared:
		return m.RLock(ctx, k.name, opts...)
	case ModePermit:
		return m.Semaphore(k.name, 1).Acquire(ctx, opts...)
	}
	return m.Lock(ctx, k.name, opts...)
}

func (w *keptWorld) options(k *keptKey) []Option {
	ttl := pick(w.rng, w.ttl, w.ttl, time.Second, 3*time.Second, 9*time.Second, 30*time.Second)
	fixed := ttl > DefaultMaxTTL || w.rng.IntN(3) > 0
	least := pick(w.rng, 0, 0, time.Second, 7*time.Second, 20*time.Second)
	delays := least == 0 && ttl < 9*time.Second && w.rng.IntN(2) == 0
	k.tell("%v for %v of %v, fixed %t, least %v, delay %t", k.mode, ttl, w.ttl, fixed, least, delays)
	opts := []Option{WithTTL(ttl)}
	if fixed {
		opts = append(opts, WithoutRenewal())
	}
	if least > 0 {
		opts = append(opts, WithMinHold(least))
	}
	if delays {
		opts = append(opts, WithDelay(time.Second/2))
	}
	return opts
}

func (k *keptKey) tell(f string, args ...any) { k.story = append(k.story, fmt.Sprintf(f, args...)) }

// run changes leases and disturbs the network while other nodes wait for the keys, until the holder
// crashes at a random instant.
func (w *keptWorld) run() {
	for _, k := range w.keys {
		wait, other := w.below(40*time.Second), pick(w.rng, w.meshes[2], w.meshes[4])
		w.work.Go(func() { w.await(k, wait, other) })
	}
	for range 1 + w.rng.IntN(20) {
		w.readFor(w.below(4 * time.Second))
		w.change(pick(w.rng, w.keys...))
		w.disturb()
	}
	w.readFor(pick(w.rng, w.below(100*time.Millisecond), w.below(10*time.Second)))
	w.locked(func() {
		w.crashed = time.Now()
		w.processes[w.holder].Kill()
	})
	check(w.t, w.holder.Close())
	w.work.Wait()
	for _, k := range w.keys {
		w.judge(k)
	}
}

func (w *keptWorld) await(k *keptKey, wait time.Duration, other *Mesh) {
	time.Sleep(wait)
	as := ModeExclusive
	if k.mode == ModePermit {
		as = ModePermit
	}
	if _, err := k.take(w.t.Context(), other, as); err != nil {
		w.t.Error(err)
	}
	w.locked(func() { k.granted = time.Now() })
}

// readFor reads the promises of all leases again and again.
func (w *keptWorld) readFor(d time.Duration) {
	for end := time.Now().Add(d); ; time.Sleep(min(time.Until(end), 37*time.Millisecond)) {
		w.locked(w.read)
		if !time.Now().Before(end) {
			return
		}
	}
}

func (w *keptWorld) read() {
	for _, k := range w.keys {
		for _, l := range k.leases {
			kept, deadline := l.KeptUntil(), l.Deadline()
			if kept.After(deadline) {
				w.t.Errorf("kept until %v after the deadline: %q", kept.Sub(deadline), k.story)
			}
			if w.crashed.IsZero() && l.Err() == nil && kept.After(k.kept) {
				k.kept, k.shorter = kept, kept.Before(deadline)
			}
		}
	}
}

// change begins a random change of a random lease of a key.
func (w *keptWorld) change(k *keptKey) {
	name := pick(w.rng, "extend", "extend", "upgrade", "downgrade", "value", "read", "write", "unlock")
	by, patience, nth := w.below(15*time.Second), w.below(6*time.Second), w.rng.Uint64()
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		defer cancel()
		began, l, err := time.Now(), w.lease(k, nth), error(nil)
		switch name {
		case "extend":
			err = l.Extend(ctx, by)
		case "upgrade":
			err = l.Upgrade(ctx)
		case "downgrade":
			err = l.Downgrade(ctx)
		case "value":
			err = l.SetValue(ctx, []byte("v"))
		case "read":
			err = w.reenter(k, l, ModeShared)
		case "write":
			err = w.reenter(k, l, ModeExclusive)
		case "unlock":
			err = w.unlockOutermost(ctx, k)
		}
		w.locked(func() { k.tell("%v: %s %v: %v", began, name, by, err) })
		w.locked(w.read)
	})
}

func (w *keptWorld) reenter(k *keptKey, l *Lease, as Mode) error {
	if k.mode == ModePermit {
		return nil
	}
	inner, err := k.take(l.Context(), w.holder, as)
	if err == nil {
		w.locked(func() { k.leases = append(k.leases, inner) })
	}
	return err
}

// unlockOutermost unlocks a key that other leases have re-entered. If readers keep the key, the
// promise stands.
func (w *keptWorld) unlockOutermost(ctx context.Context, k *keptKey) (err error) {
	alone := false
	if w.locked(func() { alone = len(k.leases) == 1 }); alone {
		return nil
	}
	err = k.leases[0].Unlock(ctx)
	w.locked(func() {
		for _, l := range k.leases {
			if !errors.Is(l.Err(), ErrReleased) {
				w.figures.left++
				return
			}
		}
		k.kept = time.Time{}
	})
	return err
}

// disturb now and then cuts a node off for a while, or breaks the holder's connections.
func (w *keptWorld) disturb() {
	switch w.rng.IntN(8) {
	case 0:
		name := vote.NodeID(pick(w.rng, "b", "c", "e", w.holder.Name()))
		w.locked(func() { w.stall(name, true) })
		time.AfterFunc(w.below(8*time.Second), func() { w.locked(func() { w.stall(name, false) }) })
	case 1:
		w.HangUp(w.holder.Name())
	}
}

func (w *keptWorld) judge(k *keptKey) {
	if early := k.kept.Sub(k.granted); early > 0 {
		w.t.Errorf("granted %v before KeptUntil: %q", early, k.story)
	}
	if k.kept.After(w.crashed) {
		w.figures.outlasting++
		if k.shorter {
			w.figures.shorter++
		}
	}
}

func (w *keptWorld) lease(k *keptKey, nth uint64) (l *Lease) {
	w.locked(func() { l = k.leases[nth%uint64(len(k.leases))] })
	return l
}

func (w *keptWorld) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *keptWorld) below(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d)))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
