package explore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxRuns is how many leases may be granted while one request waits, in all limits that anybody can exhaust.
const maxRuns = 8

// tokens is what is known of a key's tokens. A lease's tokens are a run, of which the last is noted here.
//
// A lease's run stands above those of all leases that were granted before it was asked for, and above those of all that had to be over
// before it was granted. Leases that may be held side by side have runs apart. Where nobody shares a key, that says no more than that tokens
// rise; only then is that all that is kept.
type tokens struct {
	last    vote.Token // the largest
	excused bool       // a voter had to trust a clock that stands behind the newest lease

	// Where keys are shared:
	sole  vote.Token                 // of the newest exclusive lease
	slots [maxPermits + 1]vote.Token // of the newest lease of each slot
	asked [maxClients][2]vote.Token  // the largest when each client asked for what it waits for, and for an upgrade
	runs  [maxRuns]vote.Token        // of leases that were granted after somebody asked who still waits, from the largest on
}

// each has f called with all that is kept where keys are shared.
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

// judgeTokens takes in what an occasion has changed.
func (x *explorer) judgeTokens(s *state, o *occasion, out *outcome) string {
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
			t.last = max(t.last, g.token+vote.Run-1)
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

func (x *explorer) tooLow(o *occasion, k int, first, last vote.Token) string {
	return fmt.Sprintf("tokens: %s is granted token %d of %s after a lease with token %d", x.names[o.node], first, keyNames[k], last)
}

// judgeShared checks the run of a lease of a key that may be shared.
func (x *explorer) judgeShared(s *state, o *occasion, k int, g grant) string {
	t := &s.tokens[k]
	u := &x.locals.all[s.nodes[o.node]].users[k]
	above := max(t.sole, t.asked[x.client(int(o.node))][bit(g.up)])
	last := g.token + vote.Run - 1
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
			if r != 0 && g.token <= r && r < last+vote.Run {
				return fmt.Sprintf("tokens: %s is granted tokens %d to %d of %s, and another lease has %d to %d",
					x.names[o.node], g.token, last, keyNames[k], r-vote.Run+1, r)
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

// asked notes which tokens there were when requests were made, and forgets those runs above which all have to be that are to come.
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
				*at = max(t.last, 1) // zero is for who doesn't wait
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
