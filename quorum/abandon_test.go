package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// An electorate without a majority is abandoned: its leases are lost at once, and requests wait for
// the next electorate, in which no earlier vote counts.
func TestAnElectorateIsGivenUp(t *testing.T) {
	f := follow(t, "5: a b c")
	held := f.held("a b")
	waits, err := f.q.Lock(f.now, Exclusive("other", false))
	if err != nil {
		t.Fatal(err)
	}
	f.promise(waits, "a")
	ended := f.held2("third", "a b")
	f.q.Release(f.now, ended)
	f.q.Abandon(f.now)
	f.want(held, EventLost)
	f.want(waits, EventNone)
	f.want(ended, EventReleased)
	if e := f.last(EventElectorate); e == nil || e.Electorate.Known() || len(e.Places) != 3 || e.Places[0] != -1 {
		t.Errorf("the shell is told %+v", e)
	}
	if f.q.Ready() || len(f.q.Peers()) != 0 || f.q.decides(0) {
		t.Error("an electorate is known")
	}
	try := f.lock(true)
	f.pass(ttl)
	f.want(try, EventFailed)
	if w := f.q.PendingReason(f.now, waits); w.Reason != WaitNoQuorum {
		t.Errorf("it waits for %+v", w)
	}
	f.outbox = map[string][]vote.Message{}
	f.reconfigureTo("1: b d e")
	f.link("b d e")
	f.promise(waits, "d")
	f.want(waits, EventNone) // the earlier vote of b came from another voter
	f.promise(waits, "e")
	f.want(waits, EventGranted)
}

// held2 is like held, for a named key.
func (f *dynamicBench) held2(key vote.Key, list string) vote.Number {
	n, err := f.q.Lock(f.now, Exclusive(key, false))
	if err != nil {
		f.t.Fatal(err)
	}
	f.drain()
	f.promise(n, list)
	f.want(n, EventGranted)
	return n
}
