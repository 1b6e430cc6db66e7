package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Terms are the values that must be the same on every node of a mesh. Gossip takes in no member whose terms differ.
//
// The mesh's name is not among them: it is the label on every packet, and what carries another label is not read at all.
type Terms struct {
	VersionMin, VersionMax uint // wire versions that the node speaks; one in common is enough
	RhoPerMille            int  // bound on a clock's rate error
	MaxTTL                 time.Duration
	Voters                 []vote.NodeID // the electorate, or its founders if it follows the living; in any order
	Following              bool          // the electorate follows the living, and the voters are its founders; otherwise it is fixed
}

// The tags of a member. They are short, since all tags of a node must fit into metaMax bytes.
const (
	tagLife       = "life"
	tagDir        = "dir" // only where there is a state directory
	tagVersionMin = "vmin"
	tagVersionMax = "vmax"
	tagRho        = "rho"
	tagMaxTTL     = "maxttl"
	tagVoters     = "voters"
	tagFollow     = "follow"
)

// The values of tagFollow. Nothing stands for one of them: a member that doesn't say which it is may be of either kind.
const (
	followNo  = "0"
	followYes = "1"
)

// metaMax is how many bytes the encoded tags may have: memberlist's MetaMaxSize, which a test compares.
const metaMax = 512

// perTag is what encoding adds to a tag at most: two string headers of three bytes each.
const perTag = 6

// tags returns what a node tells about itself, its life and its state directory (zero for none), or an error when it is more than gossip
// carries (gossip would panic).
func (t Terms) tags(life vote.Life, dir vote.Dir) (map[string]string, error) {
	tags := map[string]string{
		tagLife:       strconv.FormatUint(uint64(life), 16),
		tagVersionMin: strconv.FormatUint(uint64(t.VersionMin), 10),
		tagVersionMax: strconv.FormatUint(uint64(t.VersionMax), 10),
		tagRho:        strconv.Itoa(t.RhoPerMille),
		tagMaxTTL:     t.MaxTTL.String(),
		tagVoters:     fingerprint(t.Voters),
		tagFollow:     followNo,
	}
	if t.Following {
		tags[tagFollow] = followYes
	}
	if dir != 0 {
		tags[tagDir] = strconv.FormatUint(uint64(dir), 16)
	}
	if size := tagsSize(tags); size > metaMax {
		return nil, fmt.Errorf("the node's tags need up to %d bytes, and gossip carries %d", size, metaMax)
	}
	return tags, nil
}

// tagsSize bounds the encoded size of tags from above.
func tagsSize(tags map[string]string) int {
	size := 1 + perTag // the magic byte, and the map's header
	for k, v := range tags {
		size += len(k) + len(v) + perTag
	}
	return size
}

// fingerprint stands for a list of voters in a few bytes: how many, and a hash of their sorted names. A list of 63 long names
// would not fit.
func fingerprint(voters []vote.NodeID) string {
	voters = slices.Clone(voters)
	slices.Sort(voters)
	h := sha256.New()
	for _, v := range voters {
		// Length first, so that no two lists have the same bytes.
		_, _ = fmt.Fprintf(h, "%d:%s", len(v), v)
	}
	return fmt.Sprintf("%d:%s", len(voters), hex.EncodeToString(h.Sum(nil)[:8]))
}

// lifeOf returns the life in tags; zero when there is none.
func lifeOf(tags map[string]string) vote.Life { return vote.Life(hexOf(tags[tagLife])) }

// dirOf returns the identity of the state directory in tags; zero when there is none.
func dirOf(tags map[string]string) vote.Dir { return vote.Dir(hexOf(tags[tagDir])) }

// hexOf reads a number; what isn't one is zero.
func hexOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// differs returns what keeps two nodes from being members of one mesh, with both values; nil when nothing does.
func differs(ours, theirs map[string]string) error {
	var errs []error
	voters := "Voters (count:hash)"
	if ours[tagFollow] == followYes && theirs[tagFollow] == followYes {
		voters = "the list of founders (count:hash)"
	}
	if x, y := ours[tagFollow], theirs[tagFollow]; x != y {
		errs = append(errs, fmt.Errorf("the electorate %s here and %s there", kind(x), kind(y)))
	}
	for _, t := range []struct{ tag, name string }{
		{tagMaxTTL, "MaxTTL"}, {tagRho, "rho (per mille)"}, {tagVoters, voters},
	} {
		if ours[t.tag] != theirs[t.tag] {
			errs = append(errs, fmt.Errorf("%s is %s here and %s there", t.name, shown(ours[t.tag]), shown(theirs[t.tag])))
		}
	}
	if !overlap(ours, theirs) {
		errs = append(errs, fmt.Errorf("wire versions are %s to %s here and %s to %s there",
			shown(ours[tagVersionMin]), shown(ours[tagVersionMax]), shown(theirs[tagVersionMin]), shown(theirs[tagVersionMax])))
	}
	return errors.Join(errs...)
}

// kind says which kind of electorate a value of tagFollow means.
func kind(follow string) string {
	switch follow {
	case followNo:
		return "is fixed"
	case followYes:
		return "follows the living"
	case "":
		return "isn't told"
	}
	return "is of kind " + shown(follow)
}

// overlap reports whether both nodes speak some wire version.
func overlap(a, b map[string]string) bool {
	number := func(tags map[string]string, tag string) uint64 {
		n, err := strconv.ParseUint(tags[tag], 10, 32)
		if err != nil {
			return 0 // no version: versions start at 1
		}
		return n
	}
	return max(number(a, tagVersionMin), number(b, tagVersionMin), 1) <= min(number(a, tagVersionMax), number(b, tagVersionMax))
}

// shown returns a peer's value as it may stand in a log line.
func shown(value string) string {
	const enough = 64 // bytes; our own values are shorter
	if value == "" {
		return "missing"
	}
	if len(value) > enough {
		value = value[:enough]
	}
	if q := strconv.Quote(value); q != `"`+value+`"` {
		return q
	}
	return value
}
