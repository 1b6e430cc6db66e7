package memnet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

// A converting node links with nodes of both kinds, learns which nodes have a fixed list, and
// counts for each peer as a node of the peer's kind; once the voters have changed, the node is
// dynamic to all. Package transport has the same test with real ports.
func TestAConvertingNodeIsOfBothKindsUntilItIsConverted(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, _ *box, _ vote.Conn) {
		converted, met := false, map[vote.NodeID]vote.Terms{}
		see := func(c *transport.Config) {
			name := c.Self.Node
			c.Met = func(s *vote.Sighting) { met[name+" "+s.Peer.Node] = s.Terms }
		}
		c := listen(t, n, "c", func(c *transport.Config) {
			c.Terms.Converting, c.Converted = true, func() bool { return converted }
			see(c)
		})
		d := listen(t, n, "d", func(c *transport.Config) {
			dynamic(c)
			see(c)
			c.Terms.MaxTTL = 2 * c.Terms.MaxTTL
		})
		e := listen(t, n, "e", func(c *transport.Config) { c.Terms.Converting = true })
		other := listen(t, n, "f", func(c *transport.Config) { c.Terms.Converting, c.Terms.MaxTTL = true, c.Terms.MaxTTL+time.Second })
		for _, row := range []struct {
			from, to  *box
			converted bool
			says      string // why they are refused
			told      string // the converting node c
		}{
			{a, c, false, "", "linked the fixed a false"},
			{c, a, false, "", "linked the fixed a true"},
			{c, d, false, "", "linked d true"},
			{e, c, false, "", "linked e false"},
			{a, d, false, "MaxTTL is 1s here and 2s there; the electorate is fixed here and is dynamic there", ""},
			{other, c, false, "MaxTTL is 2s here and 1s there", ""},
			{a, c, true, "the electorate is fixed here and is dynamic there", ""},
			{c, a, true, "the electorate is dynamic here and is fixed there", ""},
			{c, d, true, "", "linked d true"},
			{e, c, true, "", "linked e false"},
		} {
			converted = row.converted
			c.heard()
			_, err := row.from.Dial(t.Context(), string(row.to.name())+":1", row.to.name())
			var no *transport.RefusedError
			switch {
			case row.says == "" && err != nil:
				t.Errorf("%s dials %s: %v", row.from.name(), row.to.name(), err)
			case row.says != "" && (!errors.As(err, &no) || no.Text != row.says):
				t.Errorf("%s dials %s: %v, want %q", row.from.name(), row.to.name(), err, row.says)
			}
			if got := strings.TrimPrefix(c.heard(), "0s: "); got != row.told {
				t.Errorf("%s dials %s: c is told %q, want %q", row.from.name(), row.to.name(), got, row.told)
			}
		}
		own := vote.Terms{Voters: []vote.NodeID{"a", "b"}, MaxTTL: time.Second}
		theirs := own
		theirs.Dynamic, theirs.MaxTTL = true, 2*time.Second
		for pair, want := range map[vote.NodeID]vote.Terms{"c a": own, "c d": own, "d c": theirs} {
			if got := met[pair]; !got.Equal(&want) {
				t.Errorf("%s: %v, want %v", pair, got, want)
			}
		}
	})
}
