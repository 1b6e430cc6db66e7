package lockmesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
)

// MaxBarrierMembers is the largest number of members of a barrier. The limit exists because the
// value of each member's lease lists the other members of the round.
const MaxBarrierMembers = 500

// DoubleBarrier is a barrier of n places: n members enter together and leave together, as with
// Curator's DoubleBarrier. [Mesh.DoubleBarrier] returns a member. Each member is a DoubleBarrier of
// its own, also when several members run in the same process. A member can enter again after Leave.
// The methods may be called from any goroutine.
type DoubleBarrier struct {
	mesh *Mesh
	key  string
	n    int

	mu     sync.Mutex
	busy   bool         // a call of Enter or Leave is under way
	inside *insideState // nil while outside
}

func (b *DoubleBarrier) checkUsable(method string) {
	checkUsable(b != nil && b.mesh != nil, method, "Mesh.DoubleBarrier")
}

// insideState is the state of a member inside the barrier.
type insideState struct {
	lease  *Lease // the member's place, a permit
	group  string // the tokens of the members of the round, as in the values of their leases
	view   *view  // kept from Enter to Leave, so the view forgets no member
	unseen map[uint64]bool
}

// DoubleBarrier returns a member of the barrier named key, with n places, 1 to 500. All users of
// the key must agree on n (ErrPermits). Nothing is sent before Enter.
//
// A member has its place as long as its node is alive, and for another TTL after the node has
// crashed. A crashed member is counted until then: the others may be let in together with the
// crashed member, and Leave waits no longer than this TTL for its place to end. Likewise, a member
// may be counted if it gives up Enter just as the last member arrives. Members beyond n wait for
// the next round.
func (m *Mesh) DoubleBarrier(key string, n int) *DoubleBarrier {
	m.checkUsable("Mesh.DoubleBarrier")
	return &DoubleBarrier{mesh: m, key: key, n: n}
}

// The protocol. A member's place is a permit of the key. The value of the member's lease states the
// member's phase: waiting, inside or leaving. With the phases inside and leaving, the value also
// lists the member's group: the tokens of the n members of its round. A member T returns from
//
//	Enter (a) when T sees all n permits held by waiting members of live nodes, each confirmed by a
//	          majority of the voters; these n members, T included, are T's group;
//	      (b) or when the group of an inside or leaving member contains T; T has the same group;
//	Leave when no member is inside and no member of T's group is waiting. T keeps its permit until
//	      then.
//
// No member enters too early. A slow voter may still report an absent member X as waiting. But
// before X was inside, a majority of the voters had learned X's phase "inside". Every majority that
// reports X to T contains a voter of that majority, so T doesn't see X as waiting. Nothing else
// lets a member in too early: only (a) forms a group, and (a) requires n waiting permits in n
// slots; the next holder of a slot proves that the previous holder has gone. A member of the last
// round that is still leaving holds one of the n permits and isn't waiting, so no new group forms
// before this member has gone. A member that enters again has a new token, so no group of an
// earlier round contains its token.
//
// No member is stranded outside. If a member X of a group is still waiting, all members that
// entered with this group wait for X: they hold their permits, inside or leaving, until they have
// seen that X has entered or has gone. So X sees at least one of these members and enters by (b),
// unless all of them crashed or gave up Leave; then X waits for other members to take their places,
// as if they had crashed earlier.
//
// No member leaves too early. A member of the group is waiting, then inside, then leaving, then
// gone; during the first two phases the member keeps the others from leaving. The view of a lease
// may be old, but an old view shows an earlier phase. A member keeps its view from before Enter
// until Leave, so the view doesn't lose a member that it has shown. For members of the group that
// the view has never shown, the member asks the voters: every majority contains a voter that voted
// for the granted lease. (That voter may not have heard of the grant, so another query of the watch
// would not be enough.)
//
// No member is stranded inside: no member waits for a leaving member.

// phase is the phase of a member, and the first byte of its lease's value.
type phase byte

const (
	phaseWaiting phase = 'w'
	phaseInside  phase = 'i'
	phaseLeaving phase = 'l'
)

// memberValue returns the value of a member's lease: the phase, the incarnation of the node, and
// the group.
func (b *DoubleBarrier) memberValue(p phase, group string) []byte {
	value := append(make([]byte, 0, 9+len(group)), byte(p))
	value = binary.BigEndian.AppendUint64(value, uint64(b.mesh.eng.Self().Incarnation))
	return append(value, group...)
}

// parseMemberValue parses the value of a member's lease; ok is false if the value isn't known yet.
func parseMemberValue(e *Event) (p phase, incarnation uint64, group string, ok bool) {
	if len(e.Value) < 9 {
		return 0, 0, "", false
	}
	return phase(e.Value[0]), binary.BigEndian.Uint64(e.Value[1:]), string(e.Value[9:]), true
}

// groupOf returns the tokens of the members, encoded as a group.
func groupOf(members []Event) string {
	var group []byte
	for _, e := range members {
		group = binary.BigEndian.AppendUint64(group, e.Token)
	}
	return string(group)
}

// inGroup reports whether a group contains a token.
func inGroup(group string, token uint64) bool {
	for ; len(group) >= 8; group = group[8:] {
		if binary.BigEndian.Uint64([]byte(group[:8])) == token {
			return true
		}
	}
	return false
}

// Enter waits until n members have entered. If ctx ends first, Enter gives up the place.
//
// Errors: as with [Semaphore.Acquire]; ErrLost if the place was lost while Enter waited for other
// members; ErrClash if this member has entered already, or if another call of Enter or Leave is
// under way; or ctx's error, with the number of members present, or with ErrNoQuorum if too few
// voters answer and the number isn't known.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	b.checkUsable("DoubleBarrier.Enter")
	ctx = guardContext(ctx, "DoubleBarrier.Enter")
	if err := b.startCall("enter", false); err != nil {
		return err
	}
	in, err := b.enter(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.inside = false, in
	return err
}

// startCall checks the order of the calls and marks the member as busy.
func (b *DoubleBarrier) startCall(op string, inside bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.n < 1 || b.n > MaxBarrierMembers:
		return &Error{Op: op, Key: b.key, Reason: ErrPermits, Text: fmt.Sprintf("%d places; there may be 1 to %d", b.n, MaxBarrierMembers)}
	case b.busy, !inside && b.inside != nil:
		return &Error{Op: op, Key: b.key, Reason: ErrClash, Text: "this member has entered, or is about to; each member needs a DoubleBarrier of its own"}
	case inside && b.inside == nil:
		return &Error{Op: op, Key: b.key, Reason: ErrReleased, Text: "this member hasn't entered"}
	}
	b.busy = true
	return nil
}

func (b *DoubleBarrier) enter(ctx context.Context) (*insideState, error) {
	// before the permit is acquired, so that no event is missed
	v, err := b.mesh.view(context.WithoutCancel(ctx), "enter", b.key)
	if err != nil {
		return nil, err
	}
	lease, err := b.mesh.Semaphore(b.key, b.n).acquire(ctx, "enter", false, []Option{WithValue(b.memberValue(phaseWaiting, ""))})
	if err != nil {
		v.stop()
		return nil, err
	}
	context.AfterFunc(lease.context(), v.stop)
	var group string
	for almost := false; group == "" && err == nil; {
		was := almost
		gathered := func() bool {
			group, almost = b.formGroup(v, lease.Token())
			return group != "" || almost != was
		}
		if !was {
			err = v.waitUntil(ctx, lease, gathered)
			continue
		}
		looked := make(chan struct{}, 1)
		stop := b.mesh.eng.Clocks().After(queryPause, func() { wakeup.Send(looked) })
		err = v.applyUntil(ctx, lease, looked, gathered)
		stop()
		v.watch.requery()
	}
	if err == nil {
		if err = lease.SetValue(ctx, b.memberValue(phaseInside, group)); err == nil {
			return &insideState{lease, group, v, v.notShown(group, lease.Token())}, nil
		}
	}
	_, _ = lease.beginUnlock() // not waiting for confirmation, as with any canceled call
	return nil, b.callError(ctx, v, "enter", err,
		fmt.Sprintf("%d of %d members have come", len(v.permits()), b.n))
}

// callError returns the error of an unsuccessful call. text describes the barrier as shown by the
// view.
func (b *DoubleBarrier) callError(ctx context.Context, v *view, op string, why error, text string) error {
	err := &Error{Op: op, Key: b.key}
	if errors.Is(why, ErrReleased) { // by Mesh.Leave: only this member has the lease
		why = ErrClosed
	}
	for _, reason := range []error{ErrClosed, ErrBusy} {
		if errors.Is(why, reason) {
			err.Reason = reason
			return err
		}
	}
	text, reason := v.inVain(text)
	if errors.Is(why, ErrEvicted) {
		return endError(op, b.key, why, text)
	}
	err.Reason, err.Text = ErrLost, text
	if ctx.Err() != nil && !errors.Is(why, ErrLost) {
		err.Reason, err.Err = reason, errs.OfContext(ctx)
		var late *Error
		if reason == nil && errors.As(why, &late) && late.Reason == ErrNoQuorum { // of SetValue
			err.Reason, err.Text = ErrNoQuorum, joinTexts(text, late.Text)
		}
	}
	return err
}

// formGroup returns the group for entering; empty if the member may not enter yet. almost reports
// whether the member could enter if a majority of the voters had confirmed all members.
func (b *DoubleBarrier) formGroup(v *view, token uint64) (group string, almost bool) {
	members := v.permits()
	waiting, known := 0, 0
	living := make(map[string]uint64) // by node, its newest incarnation
	for i := range members {
		if _, incarnation, _, ok := parseMemberValue(&members[i]); ok {
			living[members[i].Node] = incarnation
		}
	}
	for i := range members {
		p, incarnation, group, ok := parseMemberValue(&members[i])
		switch {
		case !ok:
		case p != phaseWaiting && inGroup(group, token):
			return group, false
		case p == phaseWaiting && living[members[i].Node] == incarnation:
			waiting++
			if v.confirmed[members[i].Token] {
				known++
			}
		}
	}
	if waiting < b.n || len(members) != b.n {
		return "", false
	}
	if group = groupOf(members); !inGroup(group, token) || known < b.n {
		// the event of this member's own permit, or reports of other voters, are still under way
		return "", true
	}
	return group, false
}

// Leave waits until all members of the round are leaving or gone, or until ctx ends. In either case
// this member is outside afterwards.
//
// Errors: ErrReleased if this member hasn't entered; ErrClash if another call of Enter or Leave is
// under way; ErrLost if the place was lost while this member was inside, so the others may have
// left without it; ErrClosed; or ctx's error, with ErrNoQuorum if too few voters answer.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	b.checkUsable("DoubleBarrier.Leave")
	ctx, rethrow := guardGivingUp(ctx, "DoubleBarrier.Leave")
	defer rethrow()
	if err := b.startCall("leave", true); err != nil {
		return err
	}
	err := b.leave(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.inside = false, nil
	return err
}

func (b *DoubleBarrier) leave(ctx context.Context) error {
	in := b.inside
	err := in.lease.SetValue(ctx, b.memberValue(phaseLeaving, in.group))
	for err == nil {
		if err = in.view.waitUntil(ctx, in.lease, func() bool { return in.remaining() == 0 }); err != nil {
			break
		}
		if in.unseen, err = b.mesh.stillHeld(ctx, b.key, in.unseen); err != nil || len(in.unseen) == 0 {
			break
		}
		err = in.view.wait(ctx, in.lease, queryPause)
	}
	inside := in.remaining() + len(in.unseen)
	over, gone := in.lease.beginUnlock()
	in.view.stop()
	if err == nil && over {
		err = gone
	}
	if err != nil {
		return b.callError(ctx, in.view, "leave", err,
			fmt.Sprintf("%d members are still inside, as far as is known", inside))
	}
	return nil
}

// queryPause is the pause between two queries for members not yet reported by the watch.
const queryPause = 50 * time.Millisecond

// remaining returns how many members of the view have yet to leave.
func (in *insideState) remaining() int {
	n := 0
	for _, e := range in.view.permits() {
		delete(in.unseen, e.Token)
		p, _, _, ok := parseMemberValue(&e)
		if ok && p == phaseInside || (!ok || p == phaseWaiting) && inGroup(in.group, e.Token) {
			n++
		}
	}
	return n
}

// notShown returns the members of a group, except the member itself, not shown by the view: they
// have gone, or the watch hasn't reported them yet.
func (v *view) notShown(group string, self uint64) map[uint64]bool {
	missing := make(map[uint64]bool)
	for ; len(group) >= 8; group = group[8:] {
		if token := binary.BigEndian.Uint64([]byte(group[:8])); v.held[token].Token == 0 && token != self {
			missing[token] = true
		}
	}
	return missing
}

// stillHeld returns the permits, by token, not known to have ended by a majority of the voters.
// Each permit was granted, so every majority contains a voter of the permit, whether or not the
// voter has heard of the grant. If a vote isn't known to have won, its token isn't certain: the
// vote may belong to any of the permits.
func (m *Mesh) stillHeld(ctx context.Context, key string, tokens map[uint64]bool) (map[uint64]bool, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	found, err := m.eng.Inspect(ctx, "leave", vote.Key(key))
	if errors.Is(err, ErrNoQuorum) {
		return tokens, nil
	}
	if err != nil {
		return tokens, err
	}
	still := make(map[uint64]bool)
	for i := range found.Views {
		s := &found.Views[i]
		switch {
		case s.State == vote.Delayed || s.Token == 0:
		case s.State != vote.Holding:
			return tokens, nil
		case tokens[uint64(s.Token)]:
			still[uint64(s.Token)] = true
		}
	}
	return still, nil
}

// Err returns nil while this member is inside and has its place. Otherwise Err returns ErrReleased
// if the member is outside, and ErrLost if the place was lost and the others may leave without this
// member.
func (b *DoubleBarrier) Err() error {
	b.checkUsable("DoubleBarrier.Err")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside == nil {
		return ErrReleased
	}
	return b.inside.lease.Err()
}
