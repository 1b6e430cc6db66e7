//go:build hunt

package pagetest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/page"

	"github.com/lockmesh/lockmesh/admin"
)

// paced has a page wait for another time in place of a given pause, both in milliseconds, and lets
// the test set whether the page is visible.
const paced = `
	const later = window.setTimeout;
	window.setTimeout = (f, ms, ...more) => later(f, ms === %d ? %d : ms, ...more);
	let sight = "visible";
	Object.defineProperty(document, "visibilityState", { get: () => sight });
	window.see = (seen) => {
		sight = seen ? "visible" : "hidden";
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	};
`

// openPaced is open with another time in place of a pause of the page.
func openPaced(t *testing.T, address string, pause, instead int) *tab {
	t.Helper()
	b := open(t, "about:blank", desktop)
	b.host = hostOf(t, address)
	must(t, call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(paced, pause, instead)}))
	b.goTo(address)
	return b
}

// TestAPageOutOfSight : a page that is hidden for a while closes its connections, and reports so; a
// page that is hidden for a moment keeps its connections.
func TestAPageOutOfSight(t *testing.T) {
	m := quick(t)
	b := openPaced(t, m.serve("a", admin.AllowReads()).address, 60_000, 600).live()
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

// TestASilentNode : the page gives up a silent connection, without even a sign of life.
func TestASilentNode(t *testing.T) {
	m := quick(t)
	h := admin.New(m.nodes["a"], admin.AllowActions(), admin.Logger(slog.New(slog.DiscardHandler)))
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
	b := openPaced(t, s.URL+"/", 40_000, 400)
	b.reads("#banner", "The node doesn't answer.")
	for b.askedFor("/v1/watch") < 2 { // until the page has tried again, or the test has hung
		b.reads("#banner", "The node doesn't answer.")
	}
}
