//go:build hunt

package pagetest

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// leastContrast is the contrast of text required by the Web Content Accessibility Guidelines, level
// AA.
const leastContrast = 4.5

// contrasts is an expression of the text shown with the least contrast.
//
//go:embed testdata/contrast.js
var contrasts string

type contrast struct {
	Least float64 `json:"least"`
	Text  string  `json:"text"`
	Texts int     `json:"texts"`
}

// legible fails the test if a text is hard to read.
func (b *tab) legible(scene string, texts int) {
	b.t.Helper()
	c := eval[contrast](b, contrasts)
	b.t.Logf("%s: %d texts, the least contrast is %.2f: %s", scene, c.Texts, c.Least, c.Text)
	if c.Least < leastContrast {
		b.t.Errorf("%s: a contrast of %.2f: %s", scene, c.Least, c.Text)
	}
	if c.Texts < texts {
		b.t.Errorf("%s: only %d texts were found", scene, c.Texts)
	}
}

// TestTextIsLegible computes the contrast of all text in each state of the page, in light and dark,
// on a wide and a narrow screen. In no state is the page wider than the window.
func TestTextIsLegible(t *testing.T) {
	m := start(t, ttl, "a", "b", "c")
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	closed := m.serve("a", admin.WithToken(token))
	type scene struct {
		name string
		b    *tab
	}
	var scenes []scene
	for _, dark := range []bool{false, true} {
		for _, l := range []look{desktop, phone} {
			l.dark = dark
			name := fmt.Sprintf("%d pixels, dark %v", l.width, dark)
			scenes = append(scenes, scene{name, open(t, s.address, l).live()})
		}
	}
	each := func(state string, texts int, act func(b *tab)) {
		t.Helper()
		for _, sc := range scenes {
			if act != nil {
				act(sc.b)
			}
			sc.b.legible(state+", "+sc.name, texts)
			sc.b.fits()
		}
	}
	each("quiet voters", 30, nil)
	m.ready()
	for i := range 60 {
		m.lock("a", fmt.Sprintf("jobs/%02d\u202e", i), lockmesh.WithValue([]byte("a value\n")))
	}
	m.want("b", "jobs/00\u202e")
	m.waits("jobs/00\u202e", 1)
	each("keys and events", 200, func(b *tab) {
		b.reads("#event-list", "jobs/59")
		b.reads("#rows tr:first-child", "1")
		eval[bool](b, `document.querySelectorAll("details").forEach((d) => (d.open = true)), true`)
	})
	each("a key", 15, func(b *tab) {
		eval[bool](b, `document.querySelector("#rows button").click(), true`)
		b.reads("#key-body", "Who waits, in the order")
	})
	each("a search without a result", 60, func(b *tab) {
		b.inquireOrNotify(kb.Escape)
		b.enter("#prefix", "nothing\r")
		b.reads("#none", "No key in use begins with")
	})
	each("the form for the token", 60, func(b *tab) {
		b.click("#token-open")
		b.enter("#token", "wrong-"+token+"\r")
		b.reads("#sign-in-error", "The token is wrong.")
	})
	each("a key that can be evicted", 20, func(b *tab) {
		b.enter("#token", token+"\r")
		b.reads("#rights-text", "You may look and act.")
		b.live()
		b.explain("jobs/01\u202e")
		b.until("there are actions", `document.querySelector(".holders button")`)
	})
	each("the question before an eviction", 7, func(b *tab) {
		b.click(".holders button")
		b.until("the page asks", `document.querySelector("#evict-dialog").open`)
	})
	must(t, m.nodes["b"].Close())
	each("a voter that doesn't answer", 60, func(b *tab) {
		b.inquireOrNotify(kb.Escape)
		b.inquireOrNotify(kb.Escape)
		b.reads("#sentence", "the next failure may stop them")
		b.until("b is gone", `how("b").startsWith("doesn't answer")`)
	})
	s.stop()
	each("a stopped server", 60, func(b *tab) { b.reads("#banner", "Trying again in") })
	s = closed
	for i := range scenes {
		l := desktop
		if strings.HasPrefix(scenes[i].name, "360") {
			l = phone
		}
		l.dark = strings.HasSuffix(scenes[i].name, "true")
		scenes[i].b = open(t, s.address, l)
	}
	each(
		"a token is asked for",
		7,
		func(b *tab) { b.reads("#sign-in", "This node asks for a token") },
	)
}

// TestAChangeIsLegible is TestTextIsLegible for a change of the electorate.
func TestAChangeIsLegible(t *testing.T) {
	m := startDynamic(t, ttl, "a", "b", "c").ready()
	s := m.serve("a", admin.AllowReads())
	var tabs []*tab
	for _, l := range []look{desktop, phone, {width: 1280, height: 900, dark: true}, {width: 360, height: 740, phone: true, dark: true}} {
		tabs = append(tabs, open(t, s.address, l).live())
	}
	m.join("d")
	m.join("e")
	for i, b := range tabs {
		b.until(
			"the change is shown",
			`!document.querySelector("#steps").hidden && !document.querySelector("#legend").hidden`,
		)
		b.legible(fmt.Sprintf("tab %d", i), 50)
		b.fits()
	}
}

// TestReducedMotion: a reader who prefers no motion sees none.
func TestReducedMotion(t *testing.T) {
	m := quick(t)
	lease := m.lock("a", "job")
	s := m.serve("a", admin.AllowReads())
	lively := open(t, s.address, desktop).live()
	still := open(t, s.address, look{width: 1280, height: 900, still: true}).live()
	for _, b := range []*tab{lively, still} {
		b.reads("#rows", "job")
		// The largest number of animations under way at a time.
		eval[bool](
			b,
			`(window.moved = 0, (function watch() { window.moved = Math.max(window.moved, document.getAnimations().length); requestAnimationFrame(watch); })(), true)`,
		)
	}
	next := m.want("b", "job")
	m.waits("job", 1)
	must(t, lease.Unlock(m.within()))
	<-next
	for _, b := range []*tab{lively, still} {
		b.reads("#rows td:nth-child(2)", "b")
		b.until("the row is marked", `document.querySelector("#rows tr.fresh")`)
	}
	lively.until("the row moves", "window.moved > 0")
	if n := eval[int](still, "window.moved"); n != 0 {
		t.Errorf("%d animations were under way", n)
	}
}
