//go:build hunt

package pagetest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmesh/lockmesh"
)

// mostPicture is the length of a picture in bytes: pictures are in the repository for good.
const mostPicture = 90 << 10

// TestPictures takes the pictures of docs/admin.md. With -update the test writes the pictures;
// otherwise the test compares the sizes of the pictures in docs with the new pictures.
func TestPictures(t *testing.T) {
	m := startDynamic(t, ttl, "edge-1", "edge-2", "edge-3").ready()
	s := m.serveOwner("edge-1")
	light := open(t, s.address, look{width: 1280, height: 980}).live()
	dark := open(t, s.address, look{width: 1280, height: 860, dark: true}).live()
	small := open(t, s.address, look{width: 360, height: 980, phone: true}).live()
	work(m)
	light.reads("#rows", "shards/7")
	light.reads("#event-list", "edge-3 got jobs/4711")
	light.until("no row is marked any more", `document.getAnimations().length === 0`)
	picture(t, light, "page-light.png")
	dark.explain("billing/nightly")
	dark.reads("#key-body", "Who waits, in the order")
	dark.inquireOrNotify(kb.Tab)
	picture(t, dark, "page-dark.png")
	m.join("edge-4")
	m.join("edge-5")
	small.reads("#steps [data-at=now]", "drain")
	picture(t, small, "page-phone.png")
}

// work has the nodes hold keys of many kinds.
func work(m *mesh) {
	m.t.Helper()
	m.lock(
		"edge-2",
		"billing/nightly",
		lockmesh.WithValue([]byte("run of 2026-11-27, started by cron")),
	)
	m.lock("edge-3", "db/migrate", lockmesh.WithValue([]byte("0042_add_index.sql")))
	m.lock("edge-1", "leader/scheduler", lockmesh.WithValue([]byte("10.0.0.11:8080")))
	for _, node := range m.voters {
		m.wantBy(func(ctx context.Context) (*lockmesh.Lease, error) {
			return m.nodes[node].Semaphore("import/slots", 2).Acquire(ctx)
		})
		_, err := m.nodes[node].RLock(m.within(), "config/prices")
		must(m.t, err)
	}
	m.waits("import/slots", 1)
	for i := range 8 {
		m.lock(m.voters[i%3], fmt.Sprintf("shards/%d", i))
	}
	m.want("edge-3", "billing/nightly")
	m.waits("billing/nightly", 1)
	m.want("edge-1", "billing/nightly")
	m.waits("billing/nightly", 2)
	lease := m.lock("edge-2", "jobs/4711")
	next := m.want("edge-3", "jobs/4711")
	m.waits("jobs/4711", 1)
	must(m.t, lease.Unlock(m.within()))
	<-next
}

// picture takes a picture of a tab.
func picture(t *testing.T, b *tab, name string) {
	t.Helper()
	shot, err := png.Decode(bytes.NewReader(get(b, "a picture", chromedp.CaptureScreenshot())))
	must(t, err)
	var out bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduce(shot)))
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		must(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	data, err := os.ReadFile(path)
	must(t, err)
	there, err := png.DecodeConfig(bytes.NewReader(data))
	must(t, err)
	if size := (image.Point{there.Width, there.Height}); size != shot.Bounds().Size() {
		t.Errorf(
			"%s has the size %v, and %v was taken; -update makes it anew",
			name,
			size,
			shot.Bounds().Size(),
		)
	}
	if len(data) > mostPicture {
		t.Errorf("%s has %d bytes, more than %d", name, len(data), mostPicture)
	}
	t.Logf("%s has %d bytes", name, len(data))
}
