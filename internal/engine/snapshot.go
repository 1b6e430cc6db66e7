package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/mismatch"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Snapshot is the state of a node at a moment. The receiver owns the slices.
type Snapshot struct {
	At         vote.Micros // by the wall clock
	Electorate ElectorateView
	Refused    []mismatch.Refused
	Held       []*Lease
	Waiting    []WaitingRequest // in order of the requests
	Releasing  int              // leases given back, until their release is confirmed
}

// WaitingRequest is the state of a waiting request.
type WaitingRequest struct {
	Key   vote.Key
	Since vote.Micros
	Wait  quorum.Wait
}

// Snapshot returns the state of the node; false if the node has ended.
func (eng *Engine) Snapshot() (Snapshot, bool) {
	gave := make(chan Snapshot, 1)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.snapshot(now) }) {
		select {
		case s := <-gave:
			return s, true
		case <-eng.loop.done:
		}
	}
	return Snapshot{}, false
}

func (l *loop) snapshot(now vote.Now) Snapshot {
	s := Snapshot{At: now.Wall, Electorate: l.electorateView(now), Refused: l.node.RefusedPeers(now), Releasing: len(l.released.m)}
	for _, lease := range l.held.m {
		s.Held = append(s.Held, lease)
	}
	calls := slices.SortedFunc(maps.Values(l.calls.m), func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	for _, c := range calls {
		wait := l.explain(now, l.node.PendingReason(now, c.number))
		s.Waiting = append(s.Waiting, WaitingRequest{c.Key, c.since, wait})
	}
	return s
}

// Open counts what is open in a node, to find leaks: all counts are zero when nothing is open.
type Open struct {
	Requests      int // at the requester
	Calls         int // not granted yet
	Leases        int // held, being released, or kept from others after their end
	Validities    int // groups of leases
	Waits         int // calls of Ready and Settled
	Subscriptions int // topics and their subscribers
	VoterWatches  int // watches of all nodes at this node's voter
}

// Open counts what is open. It works after Close, too.
func (eng *Engine) Open() Open {
	gave := make(chan Open, 1)
	if eng.Post(false, func(vote.Now) { gave <- eng.loop.open() }) {
		select {
		case o := <-gave:
			return o
		case <-eng.loop.done:
		}
	}
	<-eng.loop.done
	return eng.loop.open()
}

func (l *loop) open() Open {
	o := Open{
		Requests: l.node.Requester().Open(), Calls: len(l.calls.m), Leases: len(l.held.m) + len(l.released.m) + len(l.kept.m),
		Validities: len(l.validities), Waits: len(l.awaiting),
		Subscriptions: len(l.subscriptions) + len(l.subscriptionsByNonce) + l.watches,
	}
	if v := l.node.Voter(); v != nil {
		o.VoterWatches = v.Watchers()
	}
	return o
}

// majority returns how many of n voters are needed for a decision.
func majority(n int) int { return n/2 + 1 }

// describeVoters describes how many voters count, and the state of the others: "1 of 3 voters
// counts: b quiet for 6.2s, c unreachable".
func describeVoters(voters []quorum.VoterState) string {
	var missing []string
	for _, v := range voters {
		if v.State != quorum.Reachable {
			missing = append(missing, v.String())
		}
	}
	counting := len(voters) - len(missing)
	verb := "count"
	if counting == 1 {
		verb = "counts"
	}
	text := fmt.Sprintf("%d of %d voters %s", counting, len(voters), verb)
	if len(missing) > 0 {
		text += ": " + strings.Join(missing, ", ")
	}
	return text
}

// DescribeVoters describes how many voters count, and why the others don't, for the error of a call
// that has waited in vain for an answer of a majority. ready reports whether a majority counts. The
// text is empty after the end of the loop.
func (eng *Engine) DescribeVoters() (text string, ready bool) {
	type voters struct {
		text  string
		ready bool
	}
	got := make(chan voters, 1)
	if eng.loop.box.post(false, func(now vote.Now) {
		got <- voters{eng.loop.describeVoters(now), eng.loop.node.Ready()}
	}) {
		select {
		case v := <-got:
			return v.text, v.ready
		case <-eng.loop.done:
		}
	}
	return "", false
}

// describeVoters is DescribeVoters for the loop.
func (l *loop) describeVoters(now vote.Now) string {
	return l.explain(now, quorum.Wait{Reason: quorum.WaitNoQuorum, Text: describeVoters(l.node.Voters(now))}).Text
}

// unanswered returns the error of a call that has waited for a majority of the voters until its
// context ended. text says what no majority has confirmed.
func (eng *Engine) unanswered(op string, key vote.Key, text string, ended error) error {
	if voters, _ := eng.DescribeVoters(); voters != "" {
		text += ": " + voters
	}
	return eng.fail(errs.Failure{Op: op, Key: string(key), Reason: errs.NoQuorum, Text: text, Err: ended})
}

// IncarnationText formats the number of an incarnation for people.
func IncarnationText(i vote.Incarnation) string { return strconv.FormatUint(uint64(i), 16) }

// DirText formats the identity of a state directory for people.
func DirText(d vote.Dir) string { return fmt.Sprintf("%x", uint64(d)) }

// ElectorNames returns the names of voters.
func ElectorNames(voters []vote.Elector) []string {
	names := make([]string, 0, len(voters))
	for _, v := range voters {
		names = append(names, string(v.Name))
	}
	return names
}
