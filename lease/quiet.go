package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// askEvery is how often a restarted voter repeats its question to the others: several times within vote.AskFor, so that one
// lost question costs little.
const askEvery = vote.AskFor / 5

// quiet is the state of a voter whose votes don't count yet. First it waits until every promise that an earlier life of it
// could have made has ended; then it learns how high tokens stand. In that order: a lease's token is confirmed only while the
// votes of that lease run, so asking earlier could miss it.
type quiet struct {
	until   vote.Instant // the earlier lives' promises have ended
	asking  bool
	asked   vote.Instant // since when
	askNext vote.Instant
	answers []answer
	over    bool
	away    vote.Instant // withdrawn until then, since another process bears our name
}

// answer is what another voter knows of tokens.
type answer struct {
	from     vote.NodeID
	top      vote.Token
	counting bool
}

// counting reports whether this voter's votes count.
func (v *Voter) counting() bool {
	return v.quiet.over && v.elected.member && !v.broken && v.now.Slow >= v.quiet.away
}

// Quiet returns for how much longer this voter's votes don't count, at least; zero when they count.
func (v *Voter) Quiet() time.Duration {
	switch {
	case v.counting():
		return 0
	case v.broken, !v.elected.member:
		return v.cfg.MaxTTL
	case v.now.Slow < v.quiet.away:
		return v.quiet.away.Sub(v.now.Slow)
	case v.now.Slow < v.quiet.until:
		return v.quiet.until.Sub(v.now.Slow)
	default:
		return max(v.quiet.asked.Add(vote.AskFor).Sub(v.now.Slow), time.Millisecond)
	}
}

// Withdraw makes the voter quiet anew, since it has heard that another live process bears its name. What it has promised stands.
func (v *Voter) Withdraw(now vote.Now, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.quiet.away = v.now.Slow.Add(v.cfg.MaxTTL)
	v.at(v.quiet.away)
	return v.end()
}

// Asking reports whether the voter wants the others asked now for the highest token they know, and the number that their answers
// must carry.
func (v *Voter) Asking(now vote.Now) (nonce uint64, ask bool) {
	if !v.quiet.asking || now.Slow < v.quiet.askNext {
		return 0, false
	}
	v.quiet.askNext = now.Slow.Add(askEvery)
	v.at(v.quiet.askNext)
	return v.nonce(), true
}

// nonce ties answers to this life's question. A life asks only after its quiet time, so none of its answers is too early.
func (v *Voter) nonce() uint64 { return uint64(v.cfg.Self.Life) }

// Told takes in another voter's answer.
func (v *Voter) Told(now vote.Now, from vote.NodeID, m *vote.Message, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	if v.quiet.asking && m.Nonce == v.nonce() && from != v.cfg.Self.Node && v.elected.names(from) {
		a := answer{from, min(m.Token, saneToken), m.Counting}
		i := slices.IndexFunc(v.quiet.answers, func(b answer) bool { return b.from == from })
		if i < 0 {
			v.quiet.answers = append(v.quiet.answers, a)
		} else {
			v.quiet.answers[i] = a
		}
		v.advanceQuiet()
	}
	return v.end()
}

func (v *Voter) advanceQuiet() {
	q := &v.quiet
	if !q.over && v.now.Slow < q.until {
		v.at(q.until)
		return
	}
	if !q.over && !q.asking && !v.elected.member {
		// Nothing that an earlier life has voted for can stand under an electorate that this one comes into.
		q.over = true
	}
	if !q.over && !q.asking {
		q.asking, q.asked, q.askNext = true, v.now.Slow, v.now.Slow
	}
	if q.asking && v.learned() {
		q.asking, q.over, q.answers = false, true, nil
		v.wake()
	}
	if q.asking {
		v.at(q.askNext)
		if end := q.asked.Add(vote.AskFor); end > v.now.Slow {
			v.at(end)
		}
	}
	if q.away != 0 {
		if v.now.Slow < q.away {
			v.at(q.away)
			return
		}
		q.away = 0
		v.wake()
	}
}

// learned reports whether enough is known of tokens, and raises the floor to it.
//
// With n voters and majorities of q (of each half of a joint electorate), any majority that an earlier life of this voter was part of has a member among any n-q+1
// of the others; if those remember, the largest of their answers is above every token that the earlier life helped to grant. Where
// too few remember (everything has restarted) the wall clock stands in, after a while, but only beside answers of enough
// others to form a majority with: a voter that is cut off is of no use to anybody and had better wait for the answers.
func (v *Voter) learned() bool {
	var top vote.Token
	for _, a := range v.quiet.answers {
		top = max(top, a.top)
	}
	if v.elected.remember(v.quiet.answers) {
		v.raiseFloor(top)
		return true
	}
	if !v.elected.alone(v.cfg.Self.Node) && v.now.Slow < v.quiet.asked.Add(vote.AskFor) || !v.elected.enough(v.quiet.answers, v.cfg.Self.Node) {
		return false
	}
	v.count.LastResort++
	v.raiseFloor(max(top, vote.TokenAt(v.now.Wall)))
	return true
}

// wake serves every key that waits, now that votes count.
func (v *Voter) wake() {
	var waiting []*key
	for _, k := range v.keys.m {
		if !k.queue.empty() {
			waiting = append(waiting, k)
		}
	}
	slices.SortFunc(waiting, func(a, b *key) int { return cmp.Compare(a.name, b.name) })
	for _, k := range waiting {
		v.serve(k)
	}
}
