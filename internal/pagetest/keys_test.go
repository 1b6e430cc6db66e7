//go:build hunt

package pagetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// TestTenThousandKeys: the page shows a part of the keys, turns pages, finds keys by prefix, and
// follows the visible keys.
func TestTenThousandKeys(t *testing.T) {
	m := quick(t)
	const all = 10_000
	leases := make([]*lockmesh.Lease, all)
	for i := range leases {
		leases[i] = m.lock("a", fmt.Sprintf("jobs/%05d", i))
	}
	s := m.serve("b", admin.WithToken(token), admin.AllowReads())
	began := time.Now()
	b := open(t, s.address, desktop)
	b.reads("#count", "10,000 keys are held.")
	b.until("the first page is there", `document.querySelectorAll("#rows tr").length === 50`)
	t.Logf(
		"%d keys were counted, and the first page shown, after %v",
		all,
		time.Since(began).Round(time.Millisecond),
	)
	if got := b.text("#rows"); !strings.HasPrefix(got, "jobs/00000") {
		t.Errorf("the table begins with %.100s", got)
	}

	began = time.Now()
	b.click("#next")
	b.reads("#rows tr:first-child", "jobs/00050")
	t.Logf("a page was turned after %v", time.Since(began).Round(time.Millisecond))
	b.reads("#where", "Page 2")
	// Impatient clicks turn one page, not several to the same page.
	eval[bool](b, `for (const _ of "123") document.querySelector("#next").click(); true`)
	b.reads("#rows tr:first-child", "jobs/00100")
	b.reads("#where", "Page 3")
	b.click("#previous")
	b.reads("#rows tr:first-child", "jobs/00050")
	b.click("#first")
	b.reads("#rows tr:first-child", "jobs/00000")
	b.until("there is no page before the first", `document.querySelector("#previous").disabled`)

	began = time.Now()
	b.enter("#prefix", "jobs/0999")
	b.until(
		"ten keys are found",
		`document.querySelectorAll("#rows tr").length === 10 && document.querySelector("#pager").hidden`,
	)
	t.Logf("keys were found after %v", time.Since(began).Round(time.Millisecond))
	b.reads("#rows tr:first-child", "jobs/09990")
	b.reads("#count", "10 keys with this beginning are held.")

	// The page follows a visible key.
	must(t, leases[9990].Unlock(m.within()))
	b.until("a released key goes", `document.querySelectorAll("#rows tr").length === 9`)
	b.reads("#count", "9 keys with this beginning are held.")
	m.lock("c", "jobs/09990")
	b.until("a key comes", `document.querySelectorAll("#rows tr").length === 10`)
	b.reads("#rows tr:first-child", "c")
	b.reads("#event-list", "c got jobs/09990")

	b.enter("#prefix", "x")
	b.reads("#none", "No key in use begins with jobs/0999x")
	if n := b.askedFor("/v1/locks?"); n > 60 {
		t.Errorf("the page has asked %d times for keys", n)
	}
}

// TestKindsOfLocks: the page marks a semaphore, a shared key, and a key kept free by a lock-delay.
func TestKindsOfLocks(t *testing.T) {
	m := quick(t)
	for _, node := range m.voters {
		if _, err := m.nodes[node].RLock(m.within(), "readers", lockmesh.WithValue([]byte("of "+node))); err != nil {
			t.Fatal(err)
		}
	}
	pool := func(node string) *lockmesh.Semaphore { return m.nodes[node].Semaphore("pool", 2) }
	for _, node := range []string{"a", "b"} {
		if _, err := pool(node).Acquire(m.within()); err != nil {
			t.Fatal(err)
		}
	}
	m.wantBy(func(ctx context.Context) (*lockmesh.Lease, error) { return pool("c").Acquire(ctx) })
	m.want("a", "readers")
	m.waits("pool", 1)
	m.waits("readers", 1)
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	b := open(t, s.address, desktop).live()
	b.reads("#rows", "2 of 2 permits")
	b.reads("#rows", "shared")
	b.explain("pool")
	b.reads("#key-body", "2 of 2 permits are taken. A request waits until a permit is free.")
	b.reads("#key-body", "permit 2")
	b.reads("#key-body", "c waits for")
	b.explain("readers")
	b.reads("#key-body", "3 holders share the key. An exclusive request waits for all of them")
	b.reads("#key-body", "Value: of b")
	b.reads("#key-body", "Why the requests of this node wait")
	b.explain("nothing/here")
	b.reads("#key-body", "The key is free. A request gets it at once.")
	if b.text("#key-body li") != "" {
		t.Errorf("a free key has a list: %s", b.text("#key-body"))
	}
}
