package member

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func keyOf(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// usesOf describes the uses of keys for a test: by id, the accepting nodes and the sending nodes.
func usesOf(keys map[vote.NodeID][][]byte) []KeyUse {
	ids := make(map[vote.NodeID][]string)
	for name, ks := range keys {
		for _, k := range ks {
			ids[name] = append(ids[name], KeyID(k))
		}
	}
	return Uses(ids)
}

// Gossip's keys are changed in three steps: accept both, send the new key, drop the old key. After
// each step of each node all nodes see each other, and know the keys used by each node.
func TestKeysAreChangedWhileGossipGoesOn(t *testing.T) {
	inLab(t, func(l *lab) {
		old, fresh := keyOf(1), keyOf(2)
		with := func(c *Config) { c.Keys = [][]byte{old} }
		a, b, c := l.trio(with)
		nodes := map[vote.NodeID]*node{"a": a, "b": b, "c": c}
		keys := map[vote.NodeID][][]byte{"a": {old}, "b": {old}, "c": {old}}
		all := func() bool {
			for _, n := range nodes {
				if !n.sees("a", "b", "c") || !reflect.DeepEqual(n.Keys(), usesOf(keys)) {
					return false
				}
			}
			return true
		}
		for _, step := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}} {
			for _, name := range []vote.NodeID{"a", "b", "c"} {
				if err := nodes[name].SetKeys(step); err != nil {
					t.Fatal(err)
				}
				keys[name] = step
				l.within(inTheEnd, "all see all, and their keys", all)
			}
		}
		time.Sleep(time.Minute) // of the bubble's time: long enough for a failure to be noticed
		if !all() {
			t.Errorf("they have lost each other: %v", a.Keys())
		}
		for _, n := range nodes {
			n.mu.Lock()
			for _, e := range n.events {
				if e.Kind != Joined {
					t.Errorf("a member is told that %s has %v", e.Member.Name, e.Kind)
				}
			}
			n.mu.Unlock()
		}
		d := l.start("d", 4, addr(4), with)
		time.Sleep(time.Minute) // of the bubble's time
		if a.member("d").Name != "" || !d.sees("d") {
			t.Errorf("the old key still admits a member: %v, %v", a.Members(), d.Members())
		}
		e := l.start("e", 5, addr(5), func(c *Config) { c.Keys = [][]byte{fresh} })
		l.within(inTheEnd, "the new key admits e", func() bool { return a.sees("a", "b", "c", "e") && e.sees("a", "b", "c", "e") })
	})
}

// A dropped key is dropped, however many there were, and whatever their order is. Gossip reads the
// ring meanwhile, without a lock: the race detector looks on.
func TestTheRingHasTheKeysSetAndNoOthers(t *testing.T) {
	for _, row := range []struct{ before, after string }{
		{"1", "12"}, {"12", "21"}, {"21", "2"}, // the steps of a change
		{"12", "34"}, {"123", "4"}, {"123", "43"}, {"123", "456"}, {"123", "1"}, {"123", "2"}, {"123", "3"},
		{"123", "13"}, {"123", "31"}, {"123", "321"}, {"123", "24"}, {"12", "314"},
	} {
		t.Run(row.before+" to "+row.after, func(t *testing.T) {
			ring, err := memberlist.NewKeyring(keysFrom(row.before), keyOf(row.before[0]))
			if err != nil {
				t.Fatal(err)
			}
			var reader sync.WaitGroup
			defer reader.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			reader.Go(func() {
				for ctx.Err() == nil {
					for _, k := range ring.GetKeys() {
						if len(k) == 0 {
							t.Error("an empty key")
						}
					}
				}
			})
			for range 100 {
				for _, keys := range []string{row.before, row.after} {
					if err := setKeyring(ring, keysFrom(keys)); err != nil {
						t.Fatal(err)
					}
					if got := textOf(ring.GetKeys()); got[0] != keys[0] || sorted(got) != sorted(keys) {
						t.Fatalf("the ring has %s, want %s", got, keys)
					}
				}
			}
		})
	}
}

// keysFrom returns a key for each digit; textOf the digits of keys.
func keysFrom(digits string) (keys [][]byte) {
	for _, d := range []byte(digits) {
		keys = append(keys, keyOf(d))
	}
	return keys
}

func textOf(keys [][]byte) (digits string) {
	for _, k := range keys {
		digits += string(k[:1])
	}
	return digits
}

func sorted(digits string) string { return string(slices.Sorted(slices.Values([]byte(digits)))) }

// A leaked secret that is dropped together with others, as an interrupted change leaves them,
// admits no member.
func TestNoneOfSeveralDroppedKeysAdmitsAMember(t *testing.T) {
	for leaked := byte(1); leaked <= 3; leaked++ {
		inLab(t, func(l *lab) {
			a := l.start("a", 1, addr(1), func(c *Config) { c.Keys = [][]byte{keyOf(1), keyOf(2), keyOf(3)} })
			if err := a.SetKeys([][]byte{keyOf(4)}); err != nil {
				t.Fatal(err)
			}
			d := l.start("d", 4, addr(4), func(c *Config) { c.Keys = [][]byte{keyOf(leaked)} })
			time.Sleep(time.Minute) // of the bubble's time
			if a.member("d").Name != "" || !d.sees("d") {
				t.Errorf("dropped key %d still admits a member: %v, %v", leaked, a.Members(), d.Members())
			}
			e := l.start("e", 5, addr(5), func(c *Config) { c.Keys = [][]byte{keyOf(4)} })
			l.within(inTheEnd, "the new key admits e", func() bool { return a.sees("a", "e") && e.sees("a", "e") })
		})
	}
}

func TestKeysThatCannotBeSet(t *testing.T) {
	inLab(t, func(l *lab) {
		plain := l.start("a", 1, addr(1), func(c *Config) { c.Keys = nil })
		if err := plain.SetKeys([][]byte{keyOf(1)}); err == nil {
			t.Error("plain gossip got a key")
		}
		if got := plain.Keys(); got != nil {
			t.Errorf("plain gossip has keys %v", got)
		}
		sealed := l.start("b", 2, addr(2))
		for name, keys := range map[string][][]byte{"none": nil, "a short one": {{1}}} {
			if err := sealed.SetKeys(keys); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
	})
}

func TestABadIDOfAKeyIsNone(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, ",": 0, "0102030": 0, "010203": 0, "0102030405": 0, "zz020304": 0, "\xff\xff": 0,
		"01020304": 1, "01020304,": 1, "01020304,01020304": 1, "01020304,x,05060708": 2, strings.Repeat(",", 500): 0,
	} {
		if got := keysOf(map[string]string{tagKeys: text}); len(got) != want {
			t.Errorf("%q has ids %v", text, got)
		}
	}
}
