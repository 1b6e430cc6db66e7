package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// marker sets coverage marks, and counts faults by how keys were used at the time.
type marker struct{ w *World }

// Mark is a coverage mark: a rare path of the protocol that runs should reach now and then
// ("sometimes" assertions, as FoundationDB's and Antithesis's testers use them). A check proves
// nothing if it holds only because no run ever reached its path.
type Mark uint8

// The marks.
const (
	// markYieldWon: a request that had given a vote back was granted later.
	markYieldWon Mark = iota
	// markHeldOn: a voter inquired of a request after the request had won.
	markHeldOn
	// markResynced: a holder's sync named its lease to a voter in its startup quarantine.
	markResynced
	// markOutlived: a lease survived a restart of every voter.
	markOutlived
	// markVoteBack: a voter gave its vote to a lease that was already held.
	markVoteBack
	// markConfirmed: a lease needed a round of confirmations.
	markConfirmed
	// markProposalTimeout: a proposal timeout expired.
	markProposalTimeout
	// markGrantedLate: a request was granted after waiting for more than the maximum TTL, while
	// none of its connections broke.
	markGrantedLate
	// markTooLate: a vote arrived for a request that was over.
	markTooLate
	// markTaken: a TryLock failed because the key was taken.
	markTaken
	// markNoQuorum: a TryLock failed because too few voters counted.
	markNoQuorum
	// markSurvivedBreak: a lease was extended after a connection to one of its voters had broken.
	markSurvivedBreak
	// markUnknown: a voter received a message of a session that it had forgotten.
	markUnknown
	// markMismatch: a node began another stream on an unbroken connection.
	markMismatch
	// markWokeUpLost: a process found its lease lost after having been stopped.
	markWokeUpLost
	// markHolderDied: a key was granted after its holder had crashed.
	markHolderDied
	// markUnconfirmed: a release was given up before it was confirmed.
	markUnconfirmed
	// markProbe: a voter probed whether a process is alive, because another process came with its
	// name.
	markProbe
	// markTurnedAway: a voter refused an incarnation for good, because a newer incarnation had
	// superseded it.
	markTurnedAway
	// markLastResort: a voter took its clock's reading for the highest token.
	markLastResort
	// markClosed: a node closed a connection: the node had no answer for half a TTL, or was
	// refused.
	markClosed
	// markOrder: the older of two requests was granted first while nothing was wrong; they were
	// made far enough apart to be told apart.
	markOrder
	// markIdle: the check *idle* judged a key that requests had waited for, while nothing was
	// wrong.
	markIdle
	// markFenced: a resource refused a write that came too late.
	markFenced
	// markUpgraded: a reader's upgrade to an exclusive lease was granted.
	markUpgraded
	// markClash: the younger of two upgrades was refused.
	markClash
	// markBeside: a reader was granted a key beside another reader.
	markBeside
	// markLetIn: a reader was granted a key beside a writer with a downgraded lease.
	markLetIn
	// markFull: all permits of a semaphore were held.
	markFull
	// markMoved: a voter moved its vote to another slot when asked to.
	markMoved
	// markUnfit: a request was refused for its number of permits.
	markUnfit
	// markApart: a voter gave a shared lease a larger token, because the token of the tally was
	// taken.
	markApart
	// markDelayed: a lease was granted to a request that had waited while a lapsed lease's delay
	// kept the key from others.
	markDelayed
	// markHeldLeast: a lease was granted to a request that had waited while a released lease's
	// minimum hold kept the key from others.
	markHeldLeast
	// markFixed: a fixed lease, never extended, ended by itself.
	markFixed
	// markOutlivedNode: a lease with a length of its own kept the key from others for a while
	// after its node had crashed.
	markOutlivedNode

	markEnd
)

var markNames = [...]string{
	markYieldWon: "a request that had yielded won", markHeldOn: "an inquiry met a winner", markResynced: "a sync listed a lease in a quiet time",
	markOutlived: "a lease outlived a restart of all voters", markVoteBack: "a lease got a vote back",
	markConfirmed: "a token needed confirmation", markProposalTimeout: "a proposal timeout ended", markGrantedLate: "a grant came a TTL later with no break in between",
	markTooLate: "a vote came too late", markTaken: "a TryLock met a lease",
	markNoQuorum: "a TryLock met no quorum", markSurvivedBreak: "a lease survived a broken connection", markUnknown: "a session was unknown",
	markMismatch: "a stream began anew on its connection", markWokeUpLost: "a stopped holder woke up to a loss", markHolderDied: "a dead holder's key was taken over",
	markUnconfirmed: "a release stayed unconfirmed", markProbe: "a process was asked whether it lives", markTurnedAway: "a superseded incarnation was turned away",
	markLastResort: "a voter trusted its clock", markClosed: "a node closed a connection", markFenced: "a late write was fenced off", markOrder: "the older of two was served first", markIdle: "a key in demand was judged for room",
	markUpgraded: "a reader became the writer", markClash: "two upgrades clashed", markBeside: "a reader came beside another", markLetIn: "a writer let a reader in",
	markFull: "all permits were held", markMoved: "a vote was moved to another slot", markUnfit: "a number of permits was unfit",
	markApart: "tokens of shared leases were told apart", markDelayed: "a key was kept after a lapse", markHeldLeast: "a key was kept though given back",
	markFixed: "a fixed lease ended by itself", markOutlivedNode: "a lease of its own length outlived its node",
}

func (m Mark) String() string { return markNames[m] }

// been records a request's past, for the marks.
type been struct {
	yielded   bool
	confirmed bool
	broken    bool       // a connection to a voter broke since the request or its last extension
	restarted uint32     // voters restarted under the lease, a bit for each place
	want      vote.Slot  // the slot that a voter was last asked to vote for instead
	confirm   vote.Token // the token that a voter was last asked to confirm
}

func (mk *marker) mark(m Mark) { mk.w.fig.Marks[m]++ }

// Missing returns the marks that weren't reached.
func (f *Figures) Missing() []Mark {
	var missing []Mark
	for m, n := range f.Marks {
		if n == 0 {
			missing = append(missing, Mark(m))
		}
	}
	return missing
}

func (mk *marker) marksOfGrant(r *Request) {
	b := &r.was
	if b.yielded {
		mk.mark(markYieldWon)
	}
	if b.confirmed {
		mk.mark(markConfirmed)
	}
	if !b.broken && r.Had-r.Asked > mk.w.opt.MaxTTL {
		mk.mark(markGrantedLate)
	}
	b.broken = false
	mk.marksOfKind(r)
}

// marksOfKind sets the marks of a grant beside or after other leases of the key.
func (mk *marker) marksOfKind(r *Request) {
	held := vote.Slot(0)
	for _, o := range r.key.holds {
		if o == r || !mk.w.judge.believes(o) {
			continue
		}
		switch {
		case r.Mode == vote.Permit:
			held++
		case r.Mode == vote.Shared && o.shared != 0:
			mk.mark(markLetIn)
		case r.Mode == vote.Shared:
			mk.mark(markBeside)
		}
	}
	if r.Mode == vote.Permit && held+1 == vote.Slot(r.Ask.Permits) {
		mk.mark(markFull)
	}
	if o := r.key.kept; o != nil && o != r.base && time.Duration(o.overAt) > r.Asked {
		switch {
		case o.Given:
			mk.mark(markHeldLeast)
		case o.State == Crashed && o.Ask.Length > 0:
			mk.mark(markOutlivedNode)
		case o.Ask.Delay > 0:
			mk.mark(markDelayed)
		}
	}
	r.key.kept = nil
}

// marksOfMore sets the marks of a lease's extension.
func (mk *marker) marksOfMore(r *Request) {
	if r.was.broken {
		r.was.broken = false
		mk.mark(markSurvivedBreak)
	}
	if r.was.restarted == 1<<len(mk.w.voters)-1 {
		r.was.restarted = 0
		mk.mark(markOutlived)
	}
}

// marksOfStart records that a restarted voter has forgotten all held leases.
func (mk *marker) marksOfStart(h *host) {
	if v := mk.w.net.voterPlace(h.name); v >= 0 && h.voter {
		for _, k := range mk.w.judge.lockKeys {
			for _, r := range k.holds {
				r.was.restarted |= 1 << v
			}
		}
	}
}

// marksOfUnlink records a process's loss of a connection to a voter.
func (p *process) marksOfUnlink() {
	for _, r := range p.requests {
		r.was.broken = true
	}
}

// marksOfEnd sets the marks of a request's end, before the request's state changes.
func (mk *marker) marksOfEnd(r *Request, s State) {
	switch {
	case s == Failed && r.Try && r.Wait.Reason == quorum.WaitHeld:
		mk.mark(markTaken)
	case s == Failed && r.Try && r.Wait.Reason == quorum.WaitNoQuorum:
		mk.mark(markNoQuorum)
	case s == Lost && r.Ask.Fixed && r.Ask.Length > 0:
		mk.mark(markFixed)
	case s == Lost && mk.w.judge.stoppedSince(r.p):
		mk.mark(markWokeUpLost)
	case s == Released && (r.Expired || r.Wait.Reason != quorum.WaitNone):
		mk.mark(markUnconfirmed)
	case s == Crashed && r.State == Granted:
		r.key.holderDied = true
	}
}

// marksOfMessage sets the marks of a message from a voter.
func (mk *marker) marksOfMessage(to vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindPromise:
		o := mk.w.judge.bySession[to]
		if o == nil || o.dead {
			return
		}
		switch r := o.requests[m.Number]; {
		case r == nil:
			mk.mark(markTooLate)
		case r.State == Granted:
			mk.mark(markVoteBack)
		case m.Slot != 0 && m.Slot == r.was.want:
			mk.mark(markMoved)
		}
	case vote.KindConfirmed:
		if o := mk.w.judge.bySession[to]; o != nil && !o.dead {
			if r := o.requests[m.Number]; r != nil && r.State == Waiting && m.Token > r.was.confirm {
				mk.mark(markApart)
			}
		}
	case vote.KindUnknown:
		mk.mark(markUnknown)
	case vote.KindProbe:
		mk.mark(markProbe)
	case vote.KindRefused:
		if m.Reason == vote.ReasonNameTaken {
			mk.mark(markTurnedAway)
		}
	case vote.KindInquire:
		if o := mk.w.judge.bySession[to]; o != nil && !o.dead {
			if r := o.requests[m.Number]; r != nil && r.State == Granted {
				mk.mark(markHeldOn)
			}
		}
	}
}

// marksOfReply sets the marks of a requester's message on arrival at a voter.
func (mk *marker) marksOfReply(p *process, from vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindYield, vote.KindConfirm:
		if o := mk.w.judge.bySession[from]; o != nil && !o.dead {
			if r := o.requests[m.Number]; r != nil && r.State == Waiting {
				if m.Kind == vote.KindYield {
					r.was.want = m.Slot
				} else {
					r.was.confirm = m.Token
				}
				r.was.yielded = r.was.yielded || m.Kind == vote.KindYield
				r.was.confirmed = r.was.confirmed || m.Kind == vote.KindConfirm && !m.Won
			}
		}
	case vote.KindSync:
		for i := range m.Entries {
			if m.Entries[i].Token != 0 && mk.w.validity.isQuiet(p) {
				mk.mark(markResynced)
			}
		}
	}
}

// marksTable lists how often each mark was reached.
func (f *Figures) marksTable() string {
	var b strings.Builder
	for m, n := range f.Marks {
		fmt.Fprintf(&b, "%-46s %10d\n", Mark(m).String(), n)
	}
	return b.String()
}
