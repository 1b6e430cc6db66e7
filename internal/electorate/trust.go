package electorate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The minimum token of an electorate binds all voters of the electorate, so a wrong minimum
// would use up the tokens of every key. Tokens reported by other nodes are checked here in the same
// way as by voters (lease/trust.go).

// warnEvery is the least interval between two alarms about the same node's tokens.
const warnEvery = 10 * time.Minute

// limit returns the largest token accepted from another node: one step above the largest token
// known to this node's voter, the token of the wall clock, and the largest token confirmed by
// enough voters to rule out that all are wrong; or the voter's own limit, if larger.
func (m *contactLayer) limit() vote.Token {
	known := max(vote.TokenAt(m.now.Wall), m.own.Top)
	e := &m.state.Electorate
	for _, half := range [][]vote.Elector{e.Voters, e.Old} {
		var tops []vote.Token
		for _, v := range half {
			if v == m.Elector() {
				tops = append(tops, m.own.Top)
			} else if o := m.others[v.Name]; o != nil && o.report.dir == v.Dir {
				tops = append(tops, o.report.top)
			}
		}
		slices.SortFunc(tops, func(a, b vote.Token) int { return cmp.Compare(b, a) })
		n := len(half)
		// So many voters share a voter with every majority.
		if need := max(n-(n/2+1)+1, 2); len(tops) >= need {
			known = max(known, min(tops[need-1], vote.MaxMinToken))
		}
	}
	return max(m.own.Limit, vote.MaxFrom(known))
}

// implausible reports whether a node's token can't be right, and then raises an alarm.
func (m *contactLayer) implausible(name vote.NodeID) bool {
	o := m.others[name]
	if o == nil || o.report.top <= m.limit() {
		return false
	}
	m.warnOfToken(o, o.report.top, "as the highest that it knows of")
	return true
}

// plausibleMinToken reports whether the minimum token of an electorate proposed or accepted by
// another node can be right. The minimum of the previous electorate is decided, and is taken in any
// case.
func (m *contactLayer) plausibleMinToken(from vote.NodeID, next *vote.Electorate) bool {
	if next.MinToken <= m.state.Electorate.MinToken || next.MinToken <= m.limit() {
		return true
	}
	if o := m.others[from]; o != nil {
		m.warnOfToken(o, next.MinToken, fmt.Sprintf("as the minimum token of electorate %d", vote.VersionNumber(next.Version)))
	}
	return false
}

func (m *contactLayer) warnOfToken(o *other, t vote.Token, what string) {
	if o.warnedAt != 0 && m.now.Slow.Sub(o.warnedAt) < warnEvery {
		return
	}
	o.warnedAt = m.now.Slow
	m.alarms = append(m.alarms, fmt.Sprintf("node %q named the token %d (%s), which is refused: "+
		"this node accepts none above %d, a day above the clocks and tokens that it knows of. "+
		"Check the clock of %q, and restart that node", o.name, t, what, m.limit(), o.name))
}

// ignoreFor is how many maximum TTLs the ballots of a node are ignored after the node has proposed
// a wrong minimum token. Each ballot delays the ballots of the other voters, so a node repeatedly
// proposing a wrong minimum would block every change of the electorate.
const ignoreFor = 10

func (m *contactLayer) ignoreBallots(name vote.NodeID) {
	if o := m.others[name]; o != nil {
		o.ignoredUntil = m.now.Slow.Add(ignoreFor * m.maxTTL())
	}
}

// ignoresBallots reports whether a node's ballots are ignored; ignoring a ballot is always safe.
func (m *contactLayer) ignoresBallots(name vote.NodeID) bool {
	o := m.others[name]
	return o != nil && m.now.Slow < o.ignoredUntil || m.implausible(name)
}
