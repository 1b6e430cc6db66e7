package lockmesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// MaxBarrier is how many members a barrier may have: each says in its lease's value with whom it has entered.
const MaxBarrier = 500

// DoubleBarrier lets as many members go on together as it has places, and again when they are done, as Curator's does. It is made by
// [Mesh.DoubleBarrier]; each member has one of its own, also when several are in one process. It can be entered again after Leave.
type DoubleBarrier struct {
	mesh *Mesh
	key  string
	n    int

	mu   sync.Mutex
	busy bool   // Enter or Leave is under way
	in   *inner // nil while outside
}

// inner is what a member has that has entered.
type inner struct {
	lease  *Lease // of its place
	group  string // with whom it has entered, as in the values of their leases
	view   *view  // the same from Enter to Leave, so that it forgets nobody
	unseen map[uint64]bool
}

// DoubleBarrier returns a member of the barrier of a key, with 1 to 500 places. All who use the key must agree on the number (ErrPermits). Nothing is sent before
// Enter.
//
// Each member has a place as long as its node lives, and a TTL longer. So a member whose node dies is counted until then: the others may be let in
// with it, and Leave waits for it no longer than that. Likewise a member that gives up Enter as the last one comes may be counted. Members
// beyond n wait for the next round.
func (m *Mesh) DoubleBarrier(key string, n int) *DoubleBarrier {
	return &DoubleBarrier{mesh: m, key: key, n: n}
}

// How it works. A member's place is a permit of the key, and its lease's value says what it is about: it waits, or it is inside, or it is
// leaving; in the latter two with the tokens of those with whom it has entered, its group. A member T passes
//
//	Enter (a) when it sees all n permits held, all of them waiting and of living nodes, each by the word of a majority; they are its group, T among them;
//	      (b) or when it sees a member, inside or leaving, in whose group T is; that is its group, too;
//	Leave when nobody is inside, and nobody of its group waits; it keeps its permit until then.
//
// Nobody is let in too early by what a slow voter says of a member that has gone: before that member was inside, a majority of the voters knew that
// it was to be. Any majority that tells T of it has one of those among it, and then it isn't waiting any more. Nor otherwise: only (a) makes a group, and it has seen n permits waiting, in n places, of which a place's next holder shows that the one before has
// gone. A member of the last round that is still leaving has one of the n permits and isn't waiting, so there is no new group before it has gone.
// One who comes anew isn't in the group of a round that it wasn't in, since it has another token.
//
// Nobody is stranded outside. Whoever is in a group and waits is waited for by all that have entered with that group: they keep their permits, inside or leaving, until
// they have seen that it has entered or has gone. So it sees one of them, and passes by (b), unless all who have entered died or gave up Leave;
// then it waits for others in their places, as if they had died before.
//
// Nobody is let out too early: a member of its group waits, is inside, or is leaving, or has gone, in this order, and each stops the others
// from leaving in the first two states. What is seen of a lease may be old, but then it shows an earlier state. A member keeps its view from before Enter to Leave, so what it has
// seen it doesn't lose sight of; whom it has entered with and never seen it asks the voters about, of whom a majority can't miss a lease
// that was granted (but may not have heard of that: hence a look anew would not do). And nobody is stranded inside: no member waits for one that is leaving.

// phase is the first byte of a member's value.
type phase byte

const (
	phaseWaiting phase = 'w'
	phaseInside  phase = 'i'
	phaseLeaving phase = 'l'
)

// place makes the value of a member: its phase, the life of its node, and its group.
func (b *DoubleBarrier) place(p phase, group string) []byte {
	value := append(make([]byte, 0, 9+len(group)), byte(p))
	value = binary.BigEndian.AppendUint64(value, uint64(b.mesh.self.Life))
	return append(value, group...)
}

// placeOf reads a member's value; ok is false when it isn't known yet.
func placeOf(e *Event) (p phase, life uint64, group string, ok bool) {
	if len(e.Value) < 9 {
		return 0, 0, "", false
	}
	return phase(e.Value[0]), binary.BigEndian.Uint64(e.Value[1:]), string(e.Value[9:]), true
}

// groupOf makes a group of tokens.
func groupOf(members []Event) string {
	var group []byte
	for _, e := range members {
		group = binary.BigEndian.AppendUint64(group, e.Token)
	}
	return string(group)
}

// inGroup reports whether a token is in a group.
func inGroup(group string, token uint64) bool {
	for ; len(group) >= 8; group = group[8:] {
		if binary.BigEndian.Uint64([]byte(group[:8])) == token {
			return true
		}
	}
	return false
}

// Enter waits until n members have entered, or ctx ends; then the place is given up again.
//
// Errors: as with [Semaphore.Acquire]; ErrLost if the place was lost while others were waited for; ErrClash if this member has entered already; ctx's, with how
// many had come.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	if err := b.begin("enter", false); err != nil {
		return err
	}
	in, err := b.enter(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.in = false, in
	return err
}

// begin holds calls to their order.
func (b *DoubleBarrier) begin(op string, inside bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.n < 1 || b.n > MaxBarrier:
		return &Error{Op: op, Key: b.key, Reason: ErrPermits, Text: fmt.Sprintf("%d places; there may be 1 to %d", b.n, MaxBarrier)}
	case b.busy, !inside && b.in != nil:
		return &Error{Op: op, Key: b.key, Reason: ErrClash, Text: "this member has entered, or is about to; each member needs a DoubleBarrier of its own"}
	case inside && b.in == nil:
		return &Error{Op: op, Key: b.key, Reason: ErrReleased, Text: "this member hasn't entered"}
	}
	b.busy = true
	return nil
}

func (b *DoubleBarrier) enter(ctx context.Context) (*inner, error) {
	v, err := b.mesh.view(context.WithoutCancel(ctx), "enter", b.key) // first, so that nothing is missed
	if err != nil {
		return nil, err
	}
	lease, err := b.mesh.Semaphore(b.key, b.n).acquire(ctx, "enter", false, []Option{WithValue(b.place(phaseWaiting, ""))})
	if err != nil {
		v.stop()
		return nil, err
	}
	context.AfterFunc(lease.context(), v.stop)
	var group string
	for almost := false; group == "" && err == nil; {
		was := almost
		gathered := func() bool {
			group, almost = b.gathered(v, lease.Token())
			return group != "" || almost != was
		}
		if !was {
			err = v.until(ctx, lease, gathered)
			continue
		}
		looked := make(chan struct{}, 1)
		stop := b.mesh.clocks.after(lookPause, func() { kick(looked) })
		err = v.takeAll(ctx, lease, looked, gathered)
		stop()
		b.mesh.loop.box.post(false, func(now vote.Now) { b.mesh.loop.relook(now, v.watch) })
	}
	if err == nil {
		if err = lease.SetValue(ctx, b.place(phaseInside, group)); err == nil {
			return &inner{lease, group, v, v.lacking(group, lease.Token())}, nil
		}
	}
	_, _ = lease.giveUp() // nobody waits for the confirmation, as with any call that is taken back
	return nil, b.failed(ctx, "enter", err, fmt.Sprintf("%d of %d have come", len(v.permits()), b.n))
}

// failed says why a call has ended without success.
func (b *DoubleBarrier) failed(ctx context.Context, op string, why error, text string) error {
	err := &Error{Op: op, Key: b.key, Reason: ErrLost, Text: text}
	if errors.Is(why, ErrReleased) { // by Mesh.Leave: nobody else has the lease
		why = ErrClosed
	}
	for _, reason := range []error{ErrClosed, ErrBusy} {
		if errors.Is(why, reason) {
			err.Reason = reason
			return err
		}
	}
	if ctx.Err() != nil && !errors.Is(why, ErrLost) {
		err.Reason, err.Err = nil, ended(ctx)
	}
	return err
}

// gathered returns the group with which a member may enter; empty if it may not. almost says that it could if a majority of the voters
// had told of all members.
func (b *DoubleBarrier) gathered(v *view, token uint64) (group string, almost bool) {
	members := v.permits()
	waiting, known := 0, 0
	living := make(map[string]uint64) // the life of each node that has come last
	for i := range members {
		if _, life, _, ok := placeOf(&members[i]); ok {
			living[members[i].Node] = life
		}
	}
	for i := range members {
		p, life, group, ok := placeOf(&members[i])
		switch {
		case !ok:
		case p != phaseWaiting && inGroup(group, token):
			return group, false
		case p == phaseWaiting && living[members[i].Node] == life:
			waiting++
			if v.firm[members[i].Token] {
				known++
			}
		}
	}
	if waiting < b.n || len(members) != b.n {
		return "", false
	}
	if group = groupOf(members); !inGroup(group, token) || known < b.n {
		return "", true // what is told of this member's own permit, or by other voters, is still on its way
	}
	return group, false
}

// Leave waits until all members of the round are leaving or gone, or ctx ends. This member is outside in either case.
//
// Errors: ErrReleased if it hasn't entered; ErrLost if its place was lost while it was inside, so that the others may have left without it; ctx's; ErrClosed.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	if err := b.begin("leave", true); err != nil {
		return err
	}
	err := b.leave(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.in = false, nil
	return err
}

func (b *DoubleBarrier) leave(ctx context.Context) error {
	in := b.in
	err := in.lease.SetValue(ctx, b.place(phaseLeaving, in.group))
	for err == nil {
		if err = in.view.until(ctx, in.lease, func() bool { return in.stay() == 0 }); err != nil {
			break
		}
		if in.unseen, err = b.mesh.stillThere(ctx, b.key, in.unseen); err != nil || len(in.unseen) == 0 {
			break
		}
		err = in.view.wait(ctx, in.lease, lookPause)
	}
	inside := in.stay() + len(in.unseen)
	over, gone := in.lease.giveUp()
	in.view.stop()
	if err == nil && over {
		err = gone
	}
	if err != nil {
		return b.failed(ctx, "leave", err, fmt.Sprintf("%d are still inside, as far as is known", inside))
	}
	return nil
}

// lookPause is how long after one look at members that the watch hasn't told of yet there is the next.
const lookPause = 50 * time.Millisecond

// stay returns how many members have yet to leave.
func (in *inner) stay() int {
	n := 0
	for _, e := range in.view.permits() {
		delete(in.unseen, e.Token)
		p, _, _, ok := placeOf(&e)
		if ok && p == phaseInside || (!ok || p == phaseWaiting) && inGroup(in.group, e.Token) {
			n++
		}
	}
	return n
}

// lacking returns those of a group, but for the member itself, that the view doesn't show: they have gone, or haven't been told of yet.
func (v *view) lacking(group string, self uint64) map[uint64]bool {
	missing := make(map[uint64]bool)
	for ; len(group) >= 8; group = group[8:] {
		if token := binary.BigEndian.Uint64([]byte(group[:8])); v.held[token].Token == 0 && token != self {
			missing[token] = true
		}
	}
	return missing
}

// stillThere returns which of some permits a majority of the voters doesn't know to have gone. Each of them was granted, so some voter of any majority
// has given it a vote, whether it has heard of the grant or not. Of a vote that isn't known to have won the token isn't known for sure: it may be any of them.
func (m *Mesh) stillThere(ctx context.Context, key string, tokens map[uint64]bool) (map[uint64]bool, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	e, err := m.look(ctx, "leave", key, func(now vote.Now) uint64 { return m.loop.node.Look(now, vote.Key(key)) })
	if errors.Is(err, ErrNoQuorum) {
		return tokens, nil
	}
	if err != nil {
		return tokens, err
	}
	still := make(map[uint64]bool)
	for i := range e.Shown.Sights {
		s := &e.Shown.Sights[i]
		switch {
		case s.What == vote.Resting || s.Token == 0:
		case s.What != vote.Holding:
			return tokens, nil
		case tokens[uint64(s.Token)]:
			still[uint64(s.Token)] = true
		}
	}
	return still, nil
}

// Err returns nil while this member is inside and has its place, and otherwise why not: ErrReleased outside, ErrLost if its place was lost, so that the
// others may leave without it.
func (b *DoubleBarrier) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in == nil {
		return ErrReleased
	}
	return b.in.lease.Err()
}
