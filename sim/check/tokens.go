package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Tokens demands that the tokens of a key's leases rise.
type Tokens struct {
	// TokensOnly is for runs beyond the assumptions of exclusion: a node may learn late that it has
	// won, so only leases count that were granted before the new lease was asked for.
	TokensOnly bool
	Report     Report

	// Highest is the largest token of any lease.
	Highest vote.Token
	// Excused is set when, since the newest lease, a voter had to trust a clock that stood behind
	// the lease's token.
	Excused bool

	forgiven time.Duration            // when the excuse was last used up
	newest   *Lease                   // the newest lease
	alone    vote.Token               // the largest token of any exclusive lease
	slots    map[vote.Slot]vote.Token // the largest token of any lease in a slot
	blocks   []vote.Token             // the last tokens of all leases of this era, sorted
	// tops are the leases of this era with a token above all earlier tokens, in the order of the
	// grants.
	tops []*Lease
	era  int               // how often the tokens had to begin anew
	eras map[vote.Slot]int // the era of the newest lease in a slot
}

// Rise says how a new lease's token stands to the tokens before.
type Rise struct {
	Behind  bool // tokens begin anew with the lease, by an excuse
	Excused bool // the token would break the rule without the excuse
}

// Granted demands that the tokens of a new lease are larger than the tokens of
//
//   - each lease granted before the new lease was asked for,
//   - each exclusive lease, and each lease in the same slot,
//   - every lease of the key, if the new lease is exclusive;
//
// and that no two leases of a key share a token: each lease has its own token block. Only the last
// resort of protocol.md excuses smaller tokens. Granted records the lease's era.
func (t *Tokens) Granted(now time.Duration, r *Lease) (is Rise) {
	is = t.granted(now, r)
	// Tokens have begun anew since the last lease of the slot.
	if r.Mode != vote.Shared && t.eras[r.Slot] != r.Era {
		if t.eras == nil {
			t.eras = make(map[vote.Slot]int)
		}
		t.eras[r.Slot], is.Behind = r.Era, true
	}
	return is
}

func (t *Tokens) granted(now time.Duration, r *Lease) (is Rise) {
	defer func() { t.newest = r }()
	if r.HandedOff() {
		t.handedOff(r)
		if o := t.outOfOrder(r); t.TokensOnly && t.Excused && o != nil && o.Last > r.Last {
			// The block's first lease was asked for before o was granted, so the block's smaller
			// tokens weren't out of order yet. For r they are, by the same excuse.
			t.record(r, true)
			t.Excused, t.forgiven = false, now
			return Rise{Behind: true}
		}
		r.Era = t.era
		return Rise{}
	}
	before := t.before(r)
	is.Behind = r.Token <= before
	i, _ := slices.BinarySearch(t.blocks, r.Token) // the first block that ends at r.Token or later
	meets := !is.Behind && i < len(t.blocks) && t.blocks[i] < r.Token+2*vote.BlockSize-1
	if is.Behind || meets {
		switch {
		case t.Excused, (r.Mode != vote.Exclusive || t.TokensOnly) && r.Asked < t.forgiven:
			is.Excused = true
		case meets && t.TokensOnly:
		case meets:
			t.Report(RuleTokens, "%s is granted %q with tokens %d to %d, and another lease has them up to %d", r.Node, r.Key, r.Token, r.Last, t.blocks[i])
			return Rise{}
		default:
			t.Report(RuleTokens, "%s is granted %q with token %d after %d", r.Node, r.Key, r.Token, before)
			return Rise{}
		}
	}
	if t.record(r, is.Behind) && t.Excused {
		// Every later majority has a member that confirmed this token, so the excuse is used up.
		// The excuse still holds for older requests that share the key or, beyond the assumptions
		// of exclusion, learn late that they have won: their votes may be older.
		t.Excused, t.forgiven = false, now
	}
	return is
}

// before returns the token above which a new lease's token must be.
func (t *Tokens) before(r *Lease) vote.Token {
	if !t.TokensOnly && r.Mode == vote.Exclusive {
		return t.Highest
	}
	before := max(t.alone, t.slots[r.Slot])
	if t.TokensOnly {
		before = 0
	}
	if o := t.outOfOrder(r); o != nil {
		before = max(before, o.Last)
	}
	return before
}

// handedOff demands that a handed-off lease has the next token of its block. No newer block of the
// key may have been granted.
func (t *Tokens) handedOff(r *Lease) {
	// Another node may have been granted the key meanwhile.
	if t.TokensOnly && r.Token <= r.Last {
		return
	}
	o := t.newest
	if o == nil || o.Owner != r.Owner || o.Alias != r.Alias || r.Token != o.Token+1 || r.Token > r.Last || t.Highest != r.Last {
		t.Report(RuleTokens, "%s hands %q off with token %d of a block up to %d, after %+v, and the newest block ends at %d", r.Node, r.Key, r.Token,
			r.Last, o, t.Highest)
	}
}

// outOfOrder returns a lease granted before r was asked for, and yet with a token at least as
// large; nil if there is none.
func (t *Tokens) outOfOrder(r *Lease) *Lease {
	i, _ := slices.BinarySearchFunc(t.tops, r.Asked, func(top *Lease, at time.Duration) int { return cmp.Compare(top.Had, at) })
	if i > 0 && t.tops[i-1].Last >= r.Token {
		return t.tops[i-1]
	}
	return nil
}

// record records a new lease's token, and reports whether the token is above all earlier tokens. A
// lease with an excused smaller token begins a new era: tokens rise only within an era.
func (t *Tokens) record(r *Lease, excused bool) bool {
	if excused {
		t.tops, t.blocks, t.Highest, t.alone = nil, nil, 0, 0
		clear(t.slots)
		t.era++
	}
	r.Era = t.era
	i, _ := slices.BinarySearch(t.blocks, r.Last)
	t.blocks = slices.Insert(t.blocks, i, r.Last)
	t.Highest = max(t.Highest, r.Last)
	switch r.Mode {
	case vote.Exclusive:
		t.alone = max(t.alone, r.Last)
	case vote.Permit:
		if t.slots == nil {
			t.slots = make(map[vote.Slot]vote.Token)
		}
		t.slots[r.Slot] = max(t.slots[r.Slot], r.Last)
	}
	if n := len(t.tops); n > 0 && r.Last <= t.tops[n-1].Last {
		return false
	}
	t.tops = append(t.tops, r)
	return true
}
