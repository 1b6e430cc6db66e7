//go:build hunt

package pagetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// focused describes the element with the focus: its id, or its tag and text; with the prefix
// "unseen" if the focus isn't visible, or the element is off the screen.
const focused = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) return "the page";
	const style = getComputedStyle(e);
	const box = e.getBoundingClientRect();
	const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.right > 0 && box.bottom > 0 &&
		box.left < innerWidth && box.top < innerHeight;
	return (seen ? "" : "unseen ") + (e.id || e.nodeName.toLowerCase() + " " + e.innerText.trim().slice(0, 30));
})()`

// TestEverythingIsReachedByKeyboard walks through the page by Tab, from row to row by arrow keys,
// and into a dialog and back.
func TestEverythingIsReachedByKeyboard(t *testing.T) {
	m := quick(t)
	s := m.serveOwner("a")
	b := open(t, s.address, desktop).live()
	for i := range 60 {
		m.lock("b", fmt.Sprintf("jobs/%02d", i))
	}
	b.reads("#event-list", "jobs/59")
	b.until(
		"a full page is shown",
		`document.querySelectorAll("#rows tr").length === 50 && !document.querySelector("#pager").hidden`,
	)

	want := []string{
		"a To the keys", "summary What am I looking at?", "prefix", "ask-key", "button Explain", "button jobs/00", "next", "summary What do the columns mean?", "pause",
		"button jobs/59", // of the events, the latest first
	}
	var got []string
	for range 40 {
		b.inquireOrNotify(kb.Tab)
		at := eval[string](b, focused)
		if at == "the page" || slices.Contains(got, at) {
			break
		}
		got = append(got, at)
	}
	order := slices.DeleteFunc(
		slices.Clone(got),
		func(s string) bool { return strings.HasPrefix(s, "event-list") },
	) // the list scrolls
	if !slices.Equal(order, want) {
		t.Errorf("Tab leads to\n%q, and should lead to\n%q", order, want)
	}

	at := func(what string) {
		t.Helper()
		if got := eval[string](b, focused); got != what {
			t.Errorf("the focus is on %q, not on %q", got, what)
		}
	}
	eval[bool](b, `document.querySelector("#rows button").focus({focusVisible: true}), true`)
	for _, step := range []struct{ key, to string }{
		{kb.ArrowDown, "button jobs/01"}, {kb.ArrowDown, "button jobs/02"}, {kb.ArrowUp, "button jobs/01"}, {kb.End, "button jobs/49"},
		{kb.ArrowDown, "button jobs/49"}, {kb.Home, "button jobs/00"}, {kb.ArrowUp, "button jobs/00"}, {kb.ArrowDown, "button jobs/01"},
	} {
		b.inquireOrNotify(step.key)
		at(step.to)
	}
	b.inquireOrNotify("\r")
	b.reads("#key-body", "b has held the key for")
	at("key-close")
	var inside []string
	for range 12 {
		b.inquireOrNotify(kb.Tab)
		inside = append(inside, eval[string](b, focused))
	}
	for _, what := range []string{"button Evict …", "revoke-reason", "button Revoke", "key-close"} {
		if !slices.Contains(inside, what) {
			t.Errorf("in the dialog Tab leads to %q, and not to %q", inside, what)
		}
	}
	for _, what := range inside {
		if what == "prefix" || strings.HasPrefix(what, "button jobs") {
			t.Errorf("Tab leads from the dialog to %q", what)
		}
	}
	b.inquireOrNotify(kb.Escape)
	b.until("the dialog is closed", `!document.querySelector("#key-dialog").open`)
	at("button jobs/01")
	// The last row reached is where Tab comes back to.
	b.inquireOrNotify(kb.Tab)
	at("next")
	b.do("pressing Shift+Tab", shiftTab())
	at("button jobs/01")
	b.inquireOrNotify(kb.Tab)
	b.inquireOrNotify("\r")
	b.reads("#where", "Page 2")
	b.until("the focus isn't lost on the last page", `document.activeElement.id === "previous"`)
}

// TestTheSkipLink: the first Tab shows the link, and Enter leads to the keys.
func TestTheSkipLink(t *testing.T) {
	m := quick(t)
	m.lock("b", "jobs/1")
	b := open(t, m.serveOwner("a").address, phone).live()
	b.inquireOrNotify(kb.Tab)
	if got := eval[string](b, focused); got != "a To the keys" {
		t.Errorf("the first Tab leads to %s", got)
	}
	b.inquireOrNotify("\r")
	b.until("the keys are on the screen", `document.activeElement.id === "keys"`)
	b.inquireOrNotify(kb.Tab)
	if got := eval[string](b, focused); got != "prefix" {
		t.Errorf("the next Tab leads to %s", got)
	}
}

// TestTheNamesOfThings: each control has a name for a screen reader, each table its roles under
// every style, and no frequent change is spoken each time.
func TestTheNamesOfThings(t *testing.T) {
	m := quick(t)
	m.lock("b", "jobs/1")
	for _, l := range []look{desktop, phone} {
		b := open(t, m.serveOwner("a").address, l).live()
		b.reads("#rows", "jobs/1")
		roles := accessible(b)
		b.explain("jobs/1") // hides the rest
		roles = append(roles, accessible(b)...)
		for _, want := range []string{
			"table Keys", "columnheader Held by", "rowheader jobs/1", "searchbox Show keys that begin with", "textbox Why can't I get this key?", "log Events",
			"dialog Key jobs/1", "textbox Reason", "button Revoke", "button Evict …", "button Close", "heading lockmesh", "heading Voters", "main ", "banner ",
		} {
			if !slices.Contains(roles, want) {
				t.Errorf("there is no %q among\n%q", want, roles)
			}
		}
		for _, r := range roles {
			for _, role := range []string{"button ", "textbox ", "link ", "dialog ", "table "} {
				if r == role {
					t.Errorf("a %shas no name", role)
				}
			}
		}
		spoken := eval[[]string](
			b,
			`[...document.querySelectorAll("[aria-live=polite], [aria-live=assertive], [role=alert], [role=status], [role=log]:not([aria-live=off])")].map((e) => e.id)`,
		)
		slices.Sort(spoken)
		want := []string{
			"announce", "evict-error", "key-done", "key-error", "keys-error", "sign-in-error",
		}
		if !slices.Equal(spoken, want) {
			t.Errorf("spoken are %q, and should be %q", spoken, want)
		}
	}
}
