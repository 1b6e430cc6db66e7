package explore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxRuns is how many leases may be granted while one request waits, in all limits small enough to
// be exhausted.
const maxRuns = 8

// tokens records the tokens of a key's leases. Each lease has a token block; the last token of the
// block is recorded here.
//
// A lease's block lies above the blocks of all leases granted before the lease was requested, and
// above the blocks of all leases that had to end before the lease was granted. Leases that may be
// held side by side have disjoint blocks. Where no clients share a key, the rule is only that
// tokens rise; only then is last the whole record.
type tokens struct {
	last    vote.Token // the largest
	excused bool       // a voter had to trust a clock behind the newest lease's tokens

	// Where keys are shared:
	sole  vote.Token                 // of the newest exclusive lease
	slots [maxPermits + 1]vote.Token // of the newest lease of each slot
	// asked is the largest token when each client's waiting request was made, and its upgrade.
	asked [maxClients][2]vote.Token
	// runs are of leases granted after the oldest waiting request was made, largest first.
	runs [maxRuns]vote.Token
}

// each calls f with every token recorded for shared keys.
func (t *tokens) each(f func(*vote.Token)) {
	f(&t.sole)
	for _, all := range [][]vote.Token{t.slots[:], t.asked[0][:], t.asked[1][:], t.asked[2][:], t.runs[:]} {
		for i := range all {
			f(&all[i])
		}
	}
}

func (t *tokens) hash(h uint64, sharing bool) uint64 {
	h = mix(h, uint64(t.last)<<1|bit(t.excused))
	if sharing {
		t.each(func(n *vote.Token) { h = mix(h, uint64(*n)) })
	}
	return h
}

// judgeTokens checks and records the grants of an input.
func (x *explorer) judgeTokens(s *state, o *input, out *outcome) string {
	for k := range x.o.Keys {
		t := &s.tokens[k]
		if out.lastResort && vote.TokenAt(x.now(int(o.node), o.tick).Wall) < t.last {
			t.excused = true
		}
		g := out.granted[k]
		switch {
		case g.token == 0:
		case !x.sharing:
			if g.token <= t.last && !t.excused {
				return x.tooLow(o, k, g.token, t.last)
			}
			t.last = max(t.last, g.token+vote.BlockSize-1)
		default:
			if wrong := x.judgeShared(s, o, k, g); wrong != "" {
				return wrong
			}
		}
		if x.sharing {
			x.asked(s, k)
		}
	}
	return ""
}

func (x *explorer) tooLow(o *input, k int, first, last vote.Token) string {
	return fmt.Sprintf("tokens: %s is granted token %d of %s after a lease with token %d", x.names[o.node], first, keyNames[k], last)
}

// judgeShared checks the token block of a lease on a key that may be shared.
func (x *explorer) judgeShared(s *state, o *input, k int, g grant) string {
	t := &s.tokens[k]
	u := &x.locals.all[s.nodes[o.node]].users[k]
	above := max(t.sole, t.asked[x.client(int(o.node))][bit(g.up)])
	last := g.token + vote.BlockSize - 1
	switch u.mode {
	case vote.Exclusive:
		above = t.last
		defer func() { t.sole = max(t.sole, last) }()
	case vote.Permit:
		slot := min(int(u.slot), maxPermits)
		above = max(above, t.slots[slot])
		defer func() { t.slots[slot] = max(t.slots[slot], last) }()
	}
	if !t.excused {
		if g.token <= above {
			return x.tooLow(o, k, g.token, above)
		}
		for _, r := range t.runs {
			if r != 0 && g.token <= r && r < last+vote.BlockSize {
				return fmt.Sprintf("tokens: %s is granted tokens %d to %d of %s, and another lease has %d to %d",
					x.names[o.node], g.token, last, keyNames[k], r-vote.BlockSize+1, r)
			}
		}
	}
	if t.runs[maxRuns-1] != 0 {
		panic("explore: more leases are granted while a request waits than the judge provides for")
	}
	t.runs[maxRuns-1] = last
	slices.SortFunc(t.runs[:], func(a, b vote.Token) int { return cmp.Compare(b, a) })
	t.last = max(t.last, last)
	return ""
}

// asked records the largest token at the time of each request, and forgets the blocks below all
// future blocks.
func (x *explorer) asked(s *state, k int) {
	t := &s.tokens[k]
	least := t.last
	for c := range x.clients {
		u := &x.locals.all[s.nodes[x.node(c)]].users[k]
		for i, w := range []*claim{&u.claim, &u.up} {
			switch at := &t.asked[c][i]; {
			case w.state != waiting:
				*at = 0
			case *at == 0:
				*at = max(t.last, 1) // zero means that no request waits
				least = min(least, *at)
			default:
				least = min(least, *at)
			}
		}
	}
	for i := range t.runs {
		if t.runs[i] <= least {
			t.runs[i] = 0
		}
	}
}
