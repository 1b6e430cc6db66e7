package admin

import (
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh"
)

// convert returns a list, never nil, since a nil list would be null in JSON.
func convert[From, To any](from []From, f func(*From) To) []To {
	to := make([]To, 0, len(from))
	for i := range from {
		to = append(to, f(&from[i]))
	}
	return to
}

// names copies a list of names; never nil.
func names(from []string) []string { return append([]string{}, from...) }

// left returns the time left of a lease, rounded down, in milliseconds.
func left(d time.Duration) int64 { return max(d, 0).Milliseconds() }

// until returns the time left until a deadline.
func until(deadline time.Time) int64 { return left(time.Until(deadline)) }

// hex formats an identity; empty if unknown.
func hex(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}

func statusOf(m *lockmesh.Mesh) Status {
	s := m.Status()
	return Status{
		At: time.Now().UTC(), Name: s.Name, Incarnation: hex(s.Incarnation), Addr: s.Addr, Closed: s.Closed, Draining: m.Draining(),
		TTLMS:      s.TTL.Milliseconds(),
		Electorate: electorateOf(&s.Electorate),
		Members:    membersOf(s.Members),
		Refused: convert(s.Refused, func(r *lockmesh.RefusedPeer) RefusedPeer {
			return RefusedPeer{Name: r.Name, Addr: r.Addr, Incarnation: hex(r.Incarnation), Reason: r.Reason, Seen: r.Seen.UTC()}
		}),
		Held: convert(s.Held, func(l *lockmesh.LeaseStatus) HeldLease {
			return HeldLease{Key: l.Key, Token: l.Token, Deadline: l.Deadline.UTC(), LeftMS: until(l.Deadline)}
		}),
		Waiting: convert(s.Waiting, func(w *lockmesh.WaitStatus) Request {
			return Request{Key: w.Key, Since: w.Since.UTC(), Text: w.Text}
		}),
		Handshakes: Handshakes(s.Handshakes),
		Secrets: convert(s.Secrets, func(s *lockmesh.SecretStatus) SecretUse {
			return SecretUse{ID: s.ID, AcceptedBy: names(s.AcceptedBy), SentBy: names(s.SentBy)}
		}),
	}
}

func membersOf(members []lockmesh.MemberStatus) []Member {
	return convert(members, func(m *lockmesh.MemberStatus) Member {
		return Member{Name: m.Name, Addr: m.Addr, State: m.State, Incarnation: hex(m.Incarnation)}
	})
}

func electorateOf(e *lockmesh.ElectorateStatus) Electorate {
	return Electorate{
		Voters: convert(e.Voters, func(v *lockmesh.VoterStatus) Voter {
			// Rounded up: a voter with a rest of a millisecond doesn't count yet.
			quiet := (v.Quiet + time.Millisecond - 1).Milliseconds()
			return Voter{Name: v.Name, State: string(v.State), QuietMS: quiet, Text: v.Text, Drift: v.Drift, RoundTripUS: v.RoundTrip.Microseconds(), ClockOffsetUS: v.ClockOffset.Microseconds(), ClockRatePPM: v.ClockRate}
		}),
		Majority: e.Majority, Counting: e.Counting, Ready: e.Ready, Spare: e.Spare, Dynamic: e.Dynamic, FromFixed: e.FromFixed, Version: e.Version, Joint: e.Joint,
		Old: names(e.Old), New: names(e.New), Voter: e.Voter, Standby: names(e.Standby), Change: e.Change, Trouble: e.Trouble, Lost: e.Lost,
		MaxVoters: e.MaxVoters, MaxTTLMS: e.MaxTTL.Milliseconds(), Expect: e.Expect, StateDir: e.StateDir, DirID: hex(e.DirID), StoredVersion: e.StoredVersion,
	}
}

func lockOf(i *lockmesh.Info) Lock {
	return Lock{
		Key: i.Key, Permits: i.Permits, DelayedMS: left(i.Delayed),
		Holders: convert(i.Holders, func(h *lockmesh.Holder) Holder {
			return Holder{
				Node: h.Node, Token: h.Token, Mode: h.Mode.String(), Slot: h.Slot, Value: h.Value, Version: h.Version,
				Unsure: h.Unsure, Since: h.Since.UTC(), LeftMS: left(h.Left),
			}
		}),
		Waiters: convert(i.Waiters, func(w *lockmesh.Waiter) Waiter {
			return Waiter{Node: w.Node, Mode: w.Mode.String(), Try: w.Try, Value: w.Value, Since: w.Since.UTC()}
		}),
	}
}

func eventOf(e *lockmesh.Event) Event {
	if e.Kind == lockmesh.EventGap || e.Kind == lockmesh.EventSynced {
		return Event{Kind: e.Kind.String(), At: e.At.UTC()}
	}
	return Event{
		Kind: e.Kind.String(), Key: e.Key, Node: e.Node, Token: e.Token, Previous: e.Previous, Mode: e.Mode.String(), Slot: e.Slot,
		Value: e.Value, Version: e.Version, Current: e.Current, At: e.At.UTC(),
	}
}
