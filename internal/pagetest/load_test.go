//go:build hunt

package pagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/admin"
)

// TestThePageLoads prints how long the page takes until visible, and until live. The times depend
// on the machine, so the test doesn't judge the times.
func TestThePageLoads(t *testing.T) {
	m := quick(t)
	for i := range 60 {
		m.lock("a", fmt.Sprintf("jobs/%02d", i))
	}
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	for _, cached := range []bool{false, true} {
		b := open(t, s.address, desktop).live()
		if cached {
			b.reload()
			b.live()
		}
		b.until("the keys are there", `document.querySelectorAll("#rows tr").length === 50`)
		painted := eval[float64](
			b,
			`performance.getEntriesByName("first-contentful-paint")[0].startTime`,
		)
		live := eval[float64](b, `performance.getEntriesByName("lockmesh-live")[0].startTime`)
		bytes := eval[float64](
			b,
			`performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).filter((e) => !e.name.includes("/v1/")).reduce((n, e) => n + e.transferSize, 0)`,
		)
		t.Logf(
			"cached %v: painted after %.0f ms, live after %.0f ms, %.0f bytes for the page",
			cached,
			painted,
			live,
			bytes,
		)
		// One token of 64 KiB for the files, and the headers of each.
		if bytes == 0 || bytes > 80<<10 {
			t.Errorf("the page has taken %.0f bytes", bytes)
		}
		for _, r := range b.asked() {
			if strings.Contains(r, "/v1/") || r == s.address ||
				strings.HasPrefix(r, s.address+"page/") {
				continue
			}
			t.Errorf("the page has requested %s", r)
		}
	}
}
