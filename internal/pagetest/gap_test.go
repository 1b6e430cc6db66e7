//go:build hunt

package pagetest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// TestAGapCausesANewLook: the test itself serves the watch of keys, and chooses when to send
// events.
func TestAGapCausesANewLook(t *testing.T) {
	m := quick(t)
	lease := m.lock("a", "before")
	h := admin.New(m.nodes["a"], admin.AllowActions(), admin.WithLogger(slog.New(slog.DiscardHandler)))
	sent := make(chan string)
	var looks atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/locks":
			looks.Add(1)
		case "/v1/watch":
			w.Header().Set("Content-Type", "text/event-stream")
			beat := time.NewTicker(5 * time.Second) // or the page would open a new stream by itself
			defer beat.Stop()
			for {
				_ = http.NewResponseController(w).Flush() // the page's silence shows a fault
				select {
				case event, ok := <-sent:
					if !ok {
						return
					}
					fmt.Fprintf(w, "data: %s\n\n", event)
				case <-beat.C:
					fmt.Fprint(w, ": the stream is alive\n\n")
				case <-r.Context().Done():
					return
				}
			}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { h.Close(); s.CloseClientConnections(); s.Close() })
	b := openPaced(t, s.URL+"/", "visible", map[int]int{4000: 3_600_000}) // without events the page doesn't query again
	const at = `"at":"2026-11-27T10:00:00Z"`
	sent <- `{"kind":"granted","key":"before","token":1,"mode":"exclusive","current":true,` + at + `}`
	sent <- `{"kind":"synced",` + at + `}`
	b.live()
	b.reads("#count", "1 key is held.")
	b.reads("#rows", "before")

	must(t, lease.Unlock(m.within()))
	m.lock("a", "after")
	before := looks.Load()
	sent <- `{"kind":"gap",` + at + `}`
	b.reads("#event-list", "Events may be missing here. The page has looked anew.")
	b.reads("#count", "Counting …")
	b.until(
		"the keys were looked at",
		`document.querySelector("#rows").innerText.includes("after")`,
	)
	if looks.Load() == before {
		t.Error("the page hasn't looked at the keys")
	}
	sent <- `{"kind":"granted","key":"after","token":2,"mode":"exclusive","current":true,` + at + `}`
	sent <- `{"kind":"granted","key":"after2","token":3,"mode":"exclusive","current":true,` + at + `}`
	sent <- `{"kind":"synced",` + at + `}`
	b.reads("#count", "2 keys are held.")

	// Events unknown to an older page, and more events than the list keeps.
	sent <- `{"kind":"reheated","key":"after","node":"a",` + at + `}`
	b.reads("#event-list", "reheated after")
	for i := range 250 {
		sent <- fmt.Sprintf(`{"kind":"waiting","key":"k/%d","node":"a","mode":"exclusive",%s}`, i, at)
	}
	b.reads("#event-list li:first-child", "k/249")
	b.until("the list has 200 events", `document.querySelectorAll("#event-list li").length === 200`)
	b.click("#pause")
	sent <- `{"kind":"waiting","key":"later","node":"a","mode":"exclusive",` + at + `}`
	b.reads("#events-note", "The list stands still; 1 more has come.")
	b.reads("#event-list li:first-child", "k/249")
	b.click("#pause")
	b.reads("#event-list li:first-child", "later")

	// The stream breaks off without an end event.
	sent <- `{"kind":`
	b.reads("#link", "not connected")
	sent <- `{"kind":"synced",` + at + `}`
	b.live()
}
