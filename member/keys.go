package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// keyIDBytes is the length of a key's id: enough to tell the few secrets of a mesh apart, and short
// enough for a tag.
const keyIDBytes = 4

// KeyID returns a short text that tells gossip's keys apart, and so the secrets from which the keys
// are derived. The id is no secret, and doesn't reveal a random one.
func KeyID(key []byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte("lockmesh id of a secret")) // never fails
	_, _ = h.Write(key)
	return hex.EncodeToString(h.Sum(nil)[:keyIDBytes])
}

// KeyUse says which members use a key, as far as gossip knows.
type KeyUse struct {
	ID string
	// AcceptedBy and SentBy are the live members that decrypt with the key, and that encrypt with
	// it, by name; this node may be among them.
	AcceptedBy, SentBy []vote.NodeID
}

// Uses turns the keys of each member, of which the first is sent, into the uses of each key, sorted
// by id.
func Uses(keys map[vote.NodeID][]string) []KeyUse {
	byID := make(map[string]*KeyUse)
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		for i, id := range keys[name] {
			u := byID[id]
			if u == nil {
				u = &KeyUse{ID: id}
				byID[id] = u
			}
			u.AcceptedBy = append(u.AcceptedBy, name)
			if i == 0 {
				u.SentBy = append(u.SentBy, name)
			}
		}
	}
	var uses []KeyUse
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		uses = append(uses, *byID[id])
	}
	return uses
}

// published adds to tags what may change: the identity of a node that can vote (zero for none), and
// the ids of keys. It returns an error if the tags are larger than gossip carries (gossip would
// panic).
func published(tags map[string]string, dir vote.Dir, keys [][]byte) (map[string]string, error) {
	tags = maps.Clone(tags)
	if dir != 0 {
		tags[tagDir] = strconv.FormatUint(uint64(dir), 16)
	}
	if len(keys) > 0 {
		ids := make([]string, 0, len(keys))
		for _, k := range keys {
			ids = append(ids, KeyID(k))
		}
		tags[tagKeys] = strings.Join(ids, ",")
	}
	return tags, checkSize(tags)
}

// keysOf returns the ids in tags, without what is no id.
func keysOf(tags map[string]string) []string {
	var ids []string
	for id := range strings.SplitSeq(tags[tagKeys], ",") {
		b, err := hex.DecodeString(id)
		if err == nil && len(b) == keyIDBytes && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// setKeyring makes the keys those of the ring. Every message under way can be read: the new keys
// are added first, and only then used.
//
// GetKeys returns the ring's own slice, over which gossip ranges without a lock, and RemoveKey
// moves the keys behind the removed one within that slice: a reader would skip a key. So keys are
// removed from the last to the first, and nothing moves; a kept key behind a dropped one is away
// for a moment.
func setKeyring(ring *memberlist.Keyring, keys [][]byte) error {
	if err := addKeys(ring, keys); err != nil {
		return err
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return err
	}
	all := ring.GetKeys()
	dropped := slices.IndexFunc(all, func(old []byte) bool {
		return !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) })
	})
	if dropped < 0 {
		return nil
	}
	for _, k := range slices.Backward(all[dropped:]) {
		if err := ring.RemoveKey(k); err != nil {
			return err
		}
	}
	return addKeys(ring, keys)
}

// addKeys adds the keys that the ring doesn't have.
func addKeys(ring *memberlist.Keyring, keys [][]byte) error {
	for _, k := range keys {
		if err := ring.AddKey(k); err != nil {
			return err
		}
	}
	return nil
}
