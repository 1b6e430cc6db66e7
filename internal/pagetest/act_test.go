//go:build hunt

package pagetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// TestRevoke: the holder's program receives the reason; the page explains that the holder decides.
func TestRevoke(t *testing.T) {
	m := quick(t)
	lease := m.lock("b", "jobs/1")
	s := m.serveOwner("a")
	b := open(t, s.address, desktop).live()
	b.reads("#rights-text", "You may look and act.")
	b.click("#rows button")
	b.enter("#revoke-reason", "the disk is full")
	b.click("#revoke button")
	b.reads("#key-done", "The holder was asked to release the key. It decides.")
	select {
	case r := <-lease.Revoked():
		if r.Node != "a" || r.Reason != "the disk is full" {
			t.Errorf("the holder was told %+v", r)
		}
	case <-m.within().Done():
		t.Fatal("the holder was told nothing")
	}
	if err := lease.Err(); err != nil {
		t.Errorf("the lease has ended: %v", err)
	}
	must(t, lease.Unlock(m.within()))
	b.reads("#key-body", "The key is free. A request gets it at once.")
	b.until("there is nothing to revoke", `document.querySelector("#revoke").hidden`)
}

// TestEvict: the page describes an eviction before the act, and does nothing if the reader
// cancels. Of several holders the chosen holder loses its lease.
func TestEvict(t *testing.T) {
	m := quick(t)
	leases := map[string]*lockmesh.Lease{}
	for _, node := range m.voters {
		lease, err := m.nodes[node].RLock(m.within(), "readers")
		must(t, err)
		leases[node] = lease
	}
	s := m.serveOwner("a")
	b := open(t, s.address, desktop).live()
	b.explain("readers")
	button := `[...document.querySelectorAll(".holders li")].find((li) => li.querySelector("bdi").textContent === "b").querySelector("button")`
	b.until(
		"each lease can be evicted",
		`document.querySelectorAll(".holders button").length === 3`,
	)

	eval[bool](b, button+".focus(), true")
	b.inquireOrNotify("\r")
	b.until("the page asks", `document.querySelector("#evict-dialog").open`)
	for _, text := range []string{"This ends the lease of b on readers", "is told that the lease is lost", "If the node is dead or cut off, nothing ends sooner"} {
		b.reads("#evict-text", text)
	}
	seconds := b.text(".holders li:first-child .facts")
	b.until("the dialog behind is drawn anew",
		`document.querySelector(".holders li:first-child .facts").innerText !== `+quote(seconds))
	b.until("the harmless button has the focus", `document.activeElement.id === "evict-cancel"`)
	b.inquireOrNotify("\r")
	b.until("the question is gone", `!document.querySelector("#evict-dialog").open`)
	b.until(
		"the focus is back, though the dialog was drawn anew",
		"document.activeElement === "+button,
	)
	if err := leases["b"].Err(); err != nil {
		t.Errorf("the lease has ended though it was cancelled: %v", err)
	}

	b.inquireOrNotify("\r")
	b.enter("#evict-reason", "it hangs")
	b.click("#evict-go")
	b.reads("#key-done", "The lease of b has ended.")
	<-leases["b"].Done()
	err := leases["b"].Err()
	if !errors.Is(err, lockmesh.ErrEvicted) || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("the lease has ended with %v", err)
	}
	for _, node := range []string{"a", "c"} {
		if err := leases[node].Err(); err != nil {
			t.Errorf("%s has lost its lease: %v", node, err)
		}
	}
	b.until("two are left", `document.querySelectorAll(".holders li").length === 2`)
	b.reads("#key-body", "2 holders share the key.")
}

// TestActionsThatFail: the page explains why nothing was done.
func TestActionsThatFail(t *testing.T) {
	m := quick(t)
	lease := m.lock("b", "jobs/1")
	s := m.serve("a", admin.WithToken(token))
	b := open(t, s.address, desktop)
	b.enter("#token", token+"\r")
	b.live()
	b.explain("jobs/1")
	b.enter("#revoke-reason", strings.Repeat("long ", lockmesh.MaxReasonLen))
	b.click("#revoke button")
	b.reads("#key-done", "The holder wasn't asked: ")
	b.click(".holders button")
	b.until("the page asks", `document.querySelector("#evict-dialog").open`)
	s.stop()
	b.click("#evict-go")
	b.reads("#evict-error", "The node doesn't answer: it isn't known whether this was done.")
	if err := lease.Err(); err != nil {
		t.Errorf("the lease has ended: %v", err)
	}
}
