//go:build hunt

package pagetest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/lockmesh/lockmesh/admin"
)

// TestATokenIsAskedFor: without the token the page shows no data of the mesh. A wrong token is
// refused, the right token lasts until the user drops the token, and no address contains the token.
func TestATokenIsAskedFor(t *testing.T) {
	m := quick(t)
	m.lock("a", "secret-project/1")
	s := m.serve("a", admin.WithToken(token))
	b := open(t, s.address, desktop)
	b.reads("#sign-in", "This node asks for a token")
	b.until("the field has the focus", `document.activeElement.id === "token"`)
	b.until(
		"nothing is shown",
		`document.querySelector("#content").hidden && !document.body.innerText.includes("secret-project")`,
	)
	b.enter("#token", "a wrong one\r")
	b.reads("#sign-in-error", "no blanks")
	eval[bool](b, `document.querySelector("#token").value = "", true`)
	b.enter("#token", "wrong-"+token+"\r")
	b.reads("#sign-in-error", "The token is wrong.")
	b.enter("#token", token+"\r")
	b.live()
	b.reads("#rows", "secret-project/1")
	b.reads("#rights-text", "You may look and act.")
	b.until("the form is gone", `document.querySelector("#sign-in").hidden`)

	b.reload()
	b.live()
	b.reads("#rows", "secret-project/1")
	b.click("#token-forget")
	b.reads("#sign-in", "This node asks for a token")
	b.until("nothing is shown any more", `document.querySelector("#content").hidden`)
	for _, address := range b.asked() {
		if strings.Contains(address, token) {
			t.Errorf("an address has the token: %s", address)
		}
	}
	if kept := eval[string](b, `JSON.stringify([localStorage, sessionStorage, document.cookie])`); kept != `[{},{},""]` {
		t.Errorf("the browser has kept %s", kept)
	}
}

// TestALookWithoutAToken: if reads are open, the page shows all and offers no action until the
// user enters the token.
func TestALookWithoutAToken(t *testing.T) {
	m := quick(t)
	m.lock("a", "jobs/1")
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	b.reads("#rights-text", "You may look only.")
	b.explain("jobs/1")
	b.until(
		"there is no action",
		`document.querySelector("#revoke").hidden && document.querySelectorAll(".holders button").length === 0`,
	)
	b.inquireOrNotify(kb.Escape)
	b.click("#token-open")
	b.reads("#sign-in", "With the token you can also act")
	b.until(
		"the keys are still there",
		`document.querySelector("#rows").innerText.includes("jobs/1")`,
	)
	b.click("#sign-in-cancel")
	b.until("the form is gone", `document.querySelector("#sign-in").hidden`)
	b.click("#token-open")
	b.enter("#token", "wrong-"+token+"\r")
	b.reads("#sign-in-error", "The token is wrong.")
	b.enter("#token", token+"\r")
	b.reads("#rights-text", "You may look and act.")
	b.live()
	b.explain("jobs/1")
	b.until(
		"there are actions",
		`!document.querySelector("#revoke").hidden && document.querySelectorAll(".holders button").length === 1`,
	)
}

// TestRightsThatATokenDoesntGive: if no token helps, the page asks for none, and explains why.
func TestRightsThatATokenDoesntGive(t *testing.T) {
	m := quick(t)
	m.lock("a", "jobs/1")
	open(
		t,
		m.serve("a", admin.AllowReads()).address,
		desktop,
	).live().
		until("there is no button for a token",
			`document.querySelector("#token-open").hidden && document.querySelector("#rights-text").innerText === "You may look only."`)

	b := open(t, m.serveOwner("a", admin.ReadOnly()).address, desktop).live()
	b.explain("jobs/1")
	b.until(
		"there is no action",
		`document.querySelector("#revoke").hidden && document.querySelectorAll(".holders button").length === 0`,
	)

	// An application's server that checks requests itself, and lets a request through by mistake.
	b = open(t, m.serveBare("a").address, desktop)
	b.reads("#denied", "This node shows nothing here")
	b.reads("#denied", "AllowReads")
}

// TestAnotherTokenAfterARestart: the page asks again when the node no longer accepts the page's
// token.
func TestAnotherTokenAfterARestart(t *testing.T) {
	m := quick(t)
	s := m.serve("a", admin.WithToken(token))
	b := open(t, s.address, desktop)
	b.enter("#token", token+"\r")
	b.live()
	s.stop()
	m.serveOn(listenAt(t, s.address), "a", admin.WithToken("another-"+token))
	b.reads("#sign-in-error", "The token is wrong.")
	b.enter("#token", "another-"+token+"\r")
	b.live()
}
