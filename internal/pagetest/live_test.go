//go:build hunt

package pagetest

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// TestAnElectorateChanges: the page shows each step of the change without a reload.
func TestAnElectorateChanges(t *testing.T) {
	// The drain takes as long: even on a busy machine the page has time to show the drain.
	m := startDynamic(t, 3*time.Second, "a", "b", "c").ready()
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	b.reads("#electorate", "Electorate 1. Each lock needs the votes of 2 of the 3 voters.")
	b.reads("#sentence", "All 3 voters count, and 1 may fail")
	m.join("d")
	b.reads("#standby-list", "d")
	m.join("e")
	b.reads("#electorate", "is joint: the electorate is being changed.")
	b.reads("#electorate", "2 of 3 of the old voters and 3 of 5 of the new voters")
	b.reads("#steps [data-at=now]", "drain")
	b.until(
		"the discs show who votes where",
		`["a", "b", "c"].every((n) => disc(n) === "old new") && ["d", "e"].every((n) => disc(n) === "new")`,
	)
	b.reads("#voter-list", "is being voted in")
	b.until(
		"the change is over",
		`document.querySelector("#steps").hidden && document.querySelectorAll("#voter-list > li").length === 5`,
	)
	b.reads("#electorate", "Each lock needs the votes of 3 of the 5 voters.")
	b.reads("#history-list", "is joint: from a, b and c to a, b, c, d and e")

	// A voter leaves: the page shows the voter being voted out.
	left := make(chan error, 1)
	go func() { left <- m.nodes["e"].Leave(m.within()) }()
	b.until("e is on its way out", `role("e") === "is being voted out"`)
	b.until(
		"e is gone",
		`!document.querySelector("#voter-list").innerText.includes("e\n") && document.querySelector("#steps").hidden`,
	)
	must(t, <-left)
}

// TestVotersComeAndGo: a voter that restarts is quiet, with a countdown; a voter that is gone
// doesn't answer, and without a majority the page reports that no lock can be granted.
func TestVotersComeAndGo(t *testing.T) {
	m := start(t, ttl, "a", "b", "c")
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	b.reads("#sentence", "No lock can be granted now: 0 of 3 voters count, and 2 are needed.")
	b.reads("#sentence", "a, b and c are quiet and count in")
	b.until(
		"the countdown goes down",
		`(() => { const n = parseInt(/counts again in (\d+) s/.exec(how("b"))?.[1]); window.seen ??= n; return n < window.seen; })()`,
	)
	m.ready()
	b.reads("#sentence", "All is well: locks are granted. All 3 voters count, and 1 may fail.")
	b.until("the round trip is shown", `/^counts · [\d.]+ ms there and back$/.test(how("b"))`)
	m.lock("a", "billing/nightly")
	b.reads("#rows", "billing/nightly")

	must(t, m.nodes["b"].Close())
	b.reads(
		"#sentence",
		"Locks are granted, but the next failure may stop them: 2 of 3 voters count, and 2 are needed. b ",
	)
	must(t, m.nodes["c"].Close())
	b.reads("#sentence", "No lock can be granted now: 1 of 3 voters counts, and 2 are needed.")
	b.reads("#sentence", "b and c don't answer.")
	b.enter("#ask-key", "billing/nightly\r")
	b.reads("#key-body", "Who holds the key isn't known now, since too few voters answer.")
	b.reads("#key-body", "Which voters don't count")
	b.reads("#key-body", "First of all, more voters must count: b and c don't answer.")
	b.reads(
		"#keys-error",
		"Who holds which key isn't known now, since too few voters count. The table is from",
	)
	b.until("the table is marked as old", `document.querySelector("#table.old") !== null`)
}

// TestAKeyIsTakenOver: the row changes hands in place, and keeps the focus.
func TestAKeyIsTakenOver(t *testing.T) {
	m := quick(t)
	lease := m.lock("a", "job")
	next := m.want("b", "job")
	m.waits("job", 1)
	s := m.serve("c", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	b.reads("#rows td:nth-child(2)", "a")
	b.reads("#rows td:nth-child(3)", "1")
	eval[bool](b, `document.querySelector("#rows button").focus(), true`)
	must(t, lease.Unlock(m.within()))
	<-next
	b.reads("#rows td:nth-child(2)", "b")
	b.reads("#rows td:nth-child(3)", "–")
	b.reads("#event-list", "a released job")
	b.reads("#event-list", "b got job")
	if !eval[bool](b, `document.activeElement === document.querySelector("#rows button")`) {
		t.Error("the row has lost the focus")
	}
}

// TestTheFocusStaysInTheTable: rows come and go before the row with the focus, and the row itself
// goes.
func TestTheFocusStaysInTheTable(t *testing.T) {
	m := quick(t)
	leases := map[string]*lockmesh.Lease{}
	for _, key := range []string{"k1", "k3", "k5", "k7"} {
		leases[key] = m.lock("a", key)
	}
	b := open(t, m.serve("c", admin.AllowReads()).address, desktop).live()
	b.until("the keys are there", `document.querySelectorAll("#rows tr").length === 4`)
	eval[bool](b, `document.querySelectorAll("#rows button")[2].focus(), true`)
	shows := func(keys, focus string) {
		t.Helper()
		b.until("the keys are "+keys,
			`[...document.querySelectorAll("#rows button")].map((e) => e.innerText).join(" ") === `+quote(keys))
		if got := eval[string](b, "document.activeElement.innerText"); got != focus {
			t.Errorf("with the keys %s the focus is on %q", keys, got)
		}
	}
	shows("k1 k3 k5 k7", "k5")
	leases["k2"] = m.lock("b", "k2")
	shows("k1 k2 k3 k5 k7", "k5")
	must(t, leases["k1"].Unlock(m.within()))
	shows("k2 k3 k5 k7", "k5")
	must(t, leases["k5"].Unlock(m.within()))
	shows("k2 k3 k7", "k7")
	must(t, leases["k7"].Unlock(m.within()))
	shows("k2 k3", "k3")
}

// TestTheNodeStopsAndComesBack: the page reports the stop and the age of its contents, retries by
// itself, and reports that events are missing.
func TestTheNodeStopsAndComesBack(t *testing.T) {
	m := quick(t)
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	s.stop()
	b.reads("#banner", "The node has stopped. What you see is from ")
	b.reads("#link", "not connected")
	b.reads("#banner", "Trying again in ")
	m.serveOn(listenAt(t, s.address), "a", admin.WithToken(token), admin.AllowReads())
	b.live()
	b.until("the banner goes", `document.querySelector("#banner").hidden`)
	b.reads("#event-list", "Connected again. What happened since")
	m.lock("b", "later")
	b.reads("#event-list", "b got later")

	// The connection breaks off without an end event, and the address is dead.
	owner := m.serveOwner("a")
	c := open(t, owner.address, desktop).live()
	owner.cut()
	c.reads("#banner", "The node doesn't answer. What you see is from ")

	// The node ends while its server goes on.
	must(t, m.nodes["a"].Close())
	b.reads("#banner", "The node has stopped.")
}
