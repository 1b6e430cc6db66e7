//go:build hunt

package pagetest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/page"

	"github.com/lockmesh/lockmesh/admin"
)

// paced has a page wait for other times in place of some pauses, in milliseconds, and lets the test
// set whether the page is visible, at first as given.
const paced = `
	const later = window.setTimeout;
	const instead = %s;
	window.setTimeout = (f, ms, ...more) => later(f, instead[ms] ?? ms, ...more);
	let sight = "%s";
	Object.defineProperty(document, "visibilityState", { get: () => sight });
	window.see = (seen) => {
		sight = seen ? "visible" : "hidden";
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	};
`

// openPaced is open with other times in place of some pauses of the page; sight is "visible" or
// "hidden".
func openPaced(t *testing.T, address, sight string, instead map[int]int) *tab {
	t.Helper()
	b := open(t, "about:blank", desktop)
	b.host = hostOf(t, address)
	pauses, err := json.Marshal(instead)
	must(t, err)
	must(t, call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(paced, pauses, sight)}))
	b.goTo(address)
	return b
}

// TestAPageOutOfSight: a page that is hidden for a while closes its connections, and reports so; a
// page that is hidden for a moment keeps its connections.
func TestAPageOutOfSight(t *testing.T) {
	m := quick(t)
	b := openPaced(t, m.serve("a", admin.AllowReads()).address, "visible", map[int]int{60_000: 600}).live()
	streams := func() int { return b.askedFor("/v1/watch") }
	b.until("the page has been out of sight for a moment", "see(false) && see(true)")
	m.lock("a", "first")
	b.reads("#event-list", "a got first")
	if n := streams(); n != 1 {
		t.Errorf("the page has opened %d streams of keys", n)
	}

	b.until("the page is out of sight", "see(false)")
	b.reads("#link", "paused")
	b.reads("#event-list", "The page was out of sight, and has let the connection go.")
	m.lock("a", "second")
	if n := streams(); n != 1 {
		t.Errorf("the page has opened %d streams of keys though nobody sees it", n)
	}
	b.until("the page is in sight again", "see(true)")
	b.live()
	b.reads("#event-list", "Connected again. What happened since")
	b.reads("#rows", "second")
	m.lock("a", "third")
	b.reads("#event-list", "a got third")
	b.until("what was missed isn't told as new", `!document.querySelector("#event-list").innerText.includes("second")`)
}

// TestAPageThatBeginsOutOfSight: a tab opened in the background lets its connections go, too, and
// connects when it is seen.
func TestAPageThatBeginsOutOfSight(t *testing.T) {
	m := quick(t)
	b := openPaced(t, m.serve("a", admin.AllowReads()).address, "hidden", map[int]int{60_000: 600})
	b.reads("#link", "paused")
	b.until("the page is in sight", "see(true)")
	b.live()
}

// TestADialogOutOfSight: the dialog about a key asks nothing while the page isn't connected, and
// goes on afterwards.
func TestADialogOutOfSight(t *testing.T) {
	m := quick(t)
	b := openPaced(t, m.serve("a", admin.AllowReads()).address, "visible", map[int]int{60_000: 600, 1000: 1}).live()
	lease := m.lock("a", "work")
	b.explain("work")
	b.reads("#key-body", "a has held the key")
	b.until("the page is out of sight", "see(false)")
	b.reads("#link", "paused")
	b.reads("#key-error", "The page isn't connected")
	asked := b.askedFor("/v1/")
	for range 20 { // the dialog would look again after a millisecond
		eval[bool](b, "new Promise((resolve) => requestAnimationFrame(() => resolve(true)))")
	}
	if n := b.askedFor("/v1/"); n != asked {
		t.Errorf("the page has sent %d requests though nobody sees it", n-asked)
	}
	must(t, lease.Unlock(m.within()))
	b.until("the page is in sight again", "see(true)")
	b.live()
	b.reads("#key-body", "free")
	b.until("the dialog is kept up to date", `document.querySelector("#key-error").innerText === ""`)
}

// TestASilentNode: the page gives up a silent connection, without even a sign of life.
func TestASilentNode(t *testing.T) {
	m := quick(t)
	h := admin.New(m.nodes["a"], admin.AllowActions(), admin.WithLogger(slog.New(slog.DiscardHandler)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/watch" {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 2000\n\n")
		_ = http.NewResponseController(w).Flush() // the page's silence shows a fault
		<-r.Context().Done()
	}))
	t.Cleanup(func() { h.Close(); s.CloseClientConnections(); s.Close() })
	b := openPaced(t, s.URL+"/", "visible", map[int]int{40_000: 400})
	b.reads("#banner", "The node doesn't answer.")
	for b.askedFor("/v1/watch") < 2 { // until the page has tried again, or the test has hung
		b.reads("#banner", "The node doesn't answer.")
	}
}
