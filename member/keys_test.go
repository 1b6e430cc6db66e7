package member

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

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
