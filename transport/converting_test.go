package transport

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A converting node links with nodes of both kinds, until the voters have changed the electorate.
// The maximum TTL may differ only if both nodes know a decided value, or will know a decided value.
func TestAConvertingNodeIsOfBothKinds(t *testing.T) {
	fixed := func(*offer) {}
	converting := func(o *offer) { o.terms.Converting = true }
	dynamic := func(o *offer) { o.terms.Dynamic, o.low = true, DecidedTTLVersion }
	shorter := func(change func(*offer)) func(*offer) {
		return func(o *offer) {
			change(o)
			o.terms.MaxTTL = 5 * time.Second
		}
	}
	earlier := func(o *offer) { o.high = OldestVersion }
	const ttls = "MaxTTL is 10s at a and 5s at b"
	for _, tt := range []struct {
		name    string
		a, b    func(*offer)
		version uint8
		want    string
	}{
		{"fixed and converting", fixed, converting, 2, ""},
		{"fixed of an earlier version and converting", earlier, converting, 1, ""},
		{"both converting", converting, converting, 2, ""},
		{"converting and dynamic", converting, dynamic, 2, ""},
		{"fixed and dynamic", fixed, dynamic, 2, "the electorate is fixed at a and is dynamic at b"},
		{
			"converting and dynamic of a build that doesn't know conversions", converting, func(o *offer) { o.terms.Dynamic, o.unaware = true, true }, 2,
			"the electorate is fixed at a and is dynamic at b",
		},
		{"converting and fixed of a build that doesn't know conversions", converting, func(o *offer) { o.unaware = true }, 2, ""},
		{"fixed and converting, another MaxTTL", fixed, shorter(converting), 2, ttls},
		{"both converting, another MaxTTL", converting, shorter(converting), 2, ttls},
		{"converting and dynamic, another MaxTTL", converting, shorter(dynamic), 2, ""},
		{"converting and dynamic without a decided MaxTTL", converting, shorter(func(o *offer) { o.terms.Dynamic, o.high = true, OldestVersion }), 1, ttls},
		{"another list", converting, func(o *offer) { converting(o); o.terms.Voters = []vote.NodeID{"a"} }, 2, "the list of voters is [a b c] at a and [a] at b"},
	} {
		a, b := offerOf("a"), offerOf("b")
		tt.a(&a)
		tt.b(&b)
		if version, text := compare(&a, &b); version != tt.version || text != tt.want {
			t.Errorf("%s: version %d, %q", tt.name, version, text)
		}
		if _, text := compare(&b, &a); (text == "") != (tt.want == "") {
			t.Errorf("%s, the other way round: %q", tt.name, text)
		}
	}
}

// met collects the sightings of a port.
type met chan vote.Sighting

func (m met) see(s *vote.Sighting) { m <- *s }

// convertingSide opens the port of a converting node; its mesh is converted once the flag is set.
func convertingSide(t *testing.T, name string, secret []byte) (*side, met, *atomic.Bool) {
	t.Helper()
	cfg, seen, converted := config(name, secret), make(met, 10), new(atomic.Bool)
	cfg.Terms.Converting, cfg.Met, cfg.Converted = true, seen.see, converted.Load
	return open(t, cfg), seen, converted
}

// The handshake reports whether a converting node's peer is fixed, and a converting node counts for
// each peer as a node of the peer's kind. Once the voters have changed the electorate, the
// converting node is dynamic to all.
func TestAConvertingNodeTellsFixedPeersApart(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			c, seen, converted := convertingSide(t, "c", m.secret)
			own := vote.Terms{Voters: []vote.NodeID{"a", "b", "c"}, MaxTTL: 10 * time.Second}
			for _, p := range []struct {
				name              string
				dynamic, fixed    bool
				converting, after bool // links with a converted node
			}{{name: "a", fixed: true}, {name: "b", dynamic: true, after: true}, {name: "d", converting: true, after: true}} {
				converted.Store(false)
				cfg, theirs := config(p.name, m.secret), make(met, 10)
				cfg.Terms.Dynamic, cfg.Terms.Converting, cfg.Met = p.dynamic, p.converting, theirs.see
				peer := open(t, cfg)
				for _, d := range [][2]*side{{peer, c}, {c, peer}} {
					if _, err := d[0].Dial(t.Context(), d[1].at, d[1].own.self.Node); err != nil {
						t.Fatalf("%s: %v", p.name, err)
					}
					if l := get(t, c.linked, "the link"); l.fixed != p.fixed || l.peer != peer.own.self {
						t.Errorf("c is told %+v", l)
					}
					if l := get(t, peer.linked, "the link"); l.fixed {
						t.Errorf("%s is told %+v", p.name, l)
					}
					if s := get(t, seen, "the sighting"); !s.Terms.Equal(&own) {
						t.Errorf("c has met %+v", s)
					}
					want := own
					want.Dynamic = p.dynamic
					if s := get(t, theirs, "the sighting"); !s.Terms.Equal(&want) {
						t.Errorf("%s has met %+v", p.name, s)
					}
				}
				converted.Store(true)
				_, err := peer.Dial(t.Context(), c.at, "c")
				_, back := c.Dial(t.Context(), peer.at, vote.NodeID(p.name))
				if p.after != (err == nil) || p.after != (back == nil) {
					t.Errorf("%s and the converted node: %v, %v", p.name, err, back)
				}
				if p.after {
					for range 2 {
						if l := get(t, c.linked, "the link"); l.fixed || l.peer != peer.own.self {
							t.Errorf("c is told %+v", l)
						}
						if s := get(t, seen, "the sighting"); !s.Terms.Equal(&own) {
							t.Errorf("c has met %+v", s)
						}
					}
					continue
				}
				var no *RefusedError
				if !errors.As(err, &no) || no.Reason != vote.ReasonTerms || no.Text != "the electorate is dynamic at c and is fixed at a" {
					t.Errorf("%v", err)
				}
				want := own
				want.Dynamic = true
				for range 2 {
					if s := get(t, theirs, "the sighting"); !s.Terms.Equal(&want) {
						t.Errorf("the fixed node has met %+v", s)
					}
				}
				for len(seen) > 0 {
					<-seen
				}
			}
		})
	}
}
