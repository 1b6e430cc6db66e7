package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Terms are the parameters that must be the same on every node of a mesh. Gossip accepts no member
// with different terms.
//
// The mesh's name is not among them: the name is the label of every packet, and packets with
// another label are not read at all.
type Terms struct {
	VersionMin, VersionMax uint // supported wire versions; one in common is enough
	RhoPerMille            int  // bound on a clock's rate error
	MaxTTL                 time.Duration
	// the electorate, or its founders with dynamic membership; in any order
	Voters []vote.NodeID
	// Dynamic says that the electorate has dynamic membership, and Voters are its founders;
	// otherwise the electorate is fixed.
	Dynamic bool
	// Converting says that the node is on its way from a fixed electorate to dynamic membership. It
	// doesn't set Dynamic, and accepts members of both kinds.
	Converting bool
	// Birth is set if the mesh is born by count; then there are no Voters.
	Birth vote.Birth
}

// The tags of a member. They are short, since all tags of a node must fit into metaMax bytes.
const (
	tagIncarnation = "life"
	tagDir         = "dir" // the voter's identity; only of a node that can vote under dynamic membership
	tagVersionMin  = "vmin"
	tagVersionMax  = "vmax"
	tagRho         = "rho"
	tagMaxTTL      = "maxttl"
	tagVoters      = "voters"
	tagDynamic     = "follow"
	tagBirth       = "birth" // only of a mesh that is born by count: Expect/MinVoters, and /register
	tagConverting  = "conv"  // only of a converting node: "1"
	tagKeys        = "keys"  // the ids of gossip's keys, the one that encrypts first
)

// The values of tagDynamic. Neither value is encoded as a missing tag: a member without the tag may
// be of either kind.
const (
	dynamicNo  = "0"
	dynamicYes = "1"

	convertingYes = "1"
)

// metaMax is how many bytes the encoded tags may have: memberlist's MetaMaxSize, as verified by a
// test.
const metaMax = 512

// perTag is the maximum that encoding adds to a tag: two string headers of three bytes each.
const perTag = 6

// tags encodes the terms and the node's incarnation.
func (t Terms) tags(incarnation vote.Incarnation) map[string]string {
	tags := map[string]string{
		tagIncarnation: strconv.FormatUint(uint64(incarnation), 16),
		tagVersionMin:  strconv.FormatUint(uint64(t.VersionMin), 10),
		tagVersionMax:  strconv.FormatUint(uint64(t.VersionMax), 10),
		tagRho:         strconv.Itoa(t.RhoPerMille),
		tagMaxTTL:      t.MaxTTL.String(),
		tagVoters:      fingerprint(t.Voters),
		tagDynamic:     dynamicNo,
	}
	if t.Dynamic {
		tags[tagDynamic] = dynamicYes
	}
	if t.Converting {
		tags[tagConverting] = convertingYes
	}
	if b := t.Birth; b.Expect > 0 {
		tags[tagBirth] = fmt.Sprintf("%d/%d", b.Expect, b.MinVoters)
		if b.Register {
			tags[tagBirth] += "/register"
		}
	}
	return tags
}

// checkSize returns an error if tags are larger than gossip carries.
func checkSize(tags map[string]string) error {
	if size := tagsSize(tags); size > metaMax {
		return fmt.Errorf("the node's tags need up to %d bytes, and gossip carries %d", size, metaMax)
	}
	return nil
}

// tagsSize returns an upper bound on the encoded size of tags.
func tagsSize(tags map[string]string) int {
	size := 1 + perTag // the magic byte, and the map's header
	for k, v := range tags {
		size += len(k) + len(v) + perTag
	}
	return size
}

// fingerprint returns a short representation of a list of voters: their number, and a hash of their
// sorted names. A list of 63 long names would not fit.
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

// incarnationOf returns the incarnation in tags; zero if there is none.
func incarnationOf(tags map[string]string) vote.Incarnation {
	return vote.Incarnation(hexOf(tags[tagIncarnation]))
}

// dirOf returns the identity of the state directory in tags; zero if there is none.
func dirOf(tags map[string]string) vote.Dir { return vote.Dir(hexOf(tags[tagDir])) }

// hexOf parses a hexadecimal number; zero if text is invalid.
func hexOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// differs lists the differences that prevent two nodes from being members of the same mesh, with
// both values; nil if there are none.
func differs(ours, theirs map[string]string) error {
	var errs []error
	voters := "Voters (count:hash)"
	if ours[tagDynamic] == dynamicYes && theirs[tagDynamic] == dynamicYes {
		voters = "the list of founders (count:hash)"
	}
	if x, y := ours[tagDynamic], theirs[tagDynamic]; x != y && !isConverting(ours) && !isConverting(theirs) {
		errs = append(errs, fmt.Errorf("the electorate %s here and %s there", kind(x), kind(y)))
	}
	if x, y := ours[tagBirth], theirs[tagBirth]; x != y {
		errs = append(errs, fmt.Errorf("Expect/MinVoters is %s here and %s there", birthOf(x), birthOf(y)))
	} else if x != "" && strings.HasPrefix(x, aloneBirth) {
		errs = append(errs, errors.New("Expect is 1 here and there, and a mesh of one process takes in no other"))
	}
	if x, y := ours[tagMaxTTL], theirs[tagMaxTTL]; x != y && !decidesTTL(ours, theirs) {
		errs = append(errs, fmt.Errorf("MaxTTL is %s here and %s there", shown(x), shown(y)))
	}
	for _, t := range []struct{ tag, name string }{
		{tagRho, "rho (per mille)"}, {tagVoters, voters},
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

// aloneBirth begins the value of tagBirth of a mesh of one process.
const aloneBirth = "1/"

// birthOf describes a value of tagBirth.
func birthOf(birth string) string {
	if birth == "" {
		return "not set"
	}
	return shown(birth)
}

// kind describes the kind of electorate for a value of tagDynamic.
func kind(tag string) string {
	switch tag {
	case dynamicNo:
		return "is fixed"
	case dynamicYes:
		return "is dynamic"
	case "":
		return "isn't stated"
	}
	return "is of kind " + shown(tag)
}

// decidedTTL is the first wire version in which the voters of a dynamic electorate decide the
// maximum TTL: transport.DecidedTTLVersion, as a test makes sure.
const decidedTTL = 2

// decidesTTL reports whether two nodes may be configured with different maximum TTLs, as far as
// gossip is concerned: the handshake of their link knows more.
func decidesTTL(ours, theirs map[string]string) bool {
	knows := func(tags map[string]string) bool { return tags[tagDynamic] == dynamicYes || isConverting(tags) }
	return knows(ours) && knows(theirs) && (ours[tagDynamic] == dynamicYes || theirs[tagDynamic] == dynamicYes) && min(versionOf(ours, tagVersionMax), versionOf(theirs, tagVersionMax)) >= decidedTTL
}

// isConverting reports whether a node is on its way to dynamic membership. Members of versions
// without conversions ignore the tag, and take the node for one with a fixed electorate.
func isConverting(tags map[string]string) bool {
	return tags[tagConverting] == convertingYes && tags[tagDynamic] == dynamicNo
}

// versionOf returns a wire version in tags; zero if there is none, since versions start at 1.
func versionOf(tags map[string]string, tag string) uint64 {
	n, err := strconv.ParseUint(tags[tag], 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// overlap reports whether the nodes have a wire version in common.
func overlap(a, b map[string]string) bool {
	return max(versionOf(a, tagVersionMin), versionOf(b, tagVersionMin), 1) <= min(versionOf(a, tagVersionMax), versionOf(b, tagVersionMax))
}

// shown returns a peer's value in a form fit for a log line.
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
