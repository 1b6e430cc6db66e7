//go:build hunt

package pagetest

import (
	"fmt"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// TestTheTableStaysInItsCard: the table lay over the voters at common widths.
func TestTheTableStaysInItsCard(t *testing.T) {
	m := quick(t)
	m.lock("a", "nightly/backup", lockmesh.WithValue([]byte("pg-1, base backup")))
	s := m.serve("b", admin.WithToken(token), admin.AllowReads())
	for _, width := range []int64{360, 600, 760, 780, 800, 860, 900, 1000, 1119, 1120, 1180, 1240, 1280, 1366, 1440, 1920} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b := open(t, s.address, look{width: width, height: 900}).live()
			b.until("the key is there", `document.querySelectorAll("#rows tr").length === 1`)
			over := eval[float64](b, `document.querySelector("#table").getBoundingClientRect().right - document.querySelector("#keys").getBoundingClientRect().right`)
			if over > 0 {
				t.Errorf("the table is %.0f pixels wider than its card", over)
			}
		})
	}
}
