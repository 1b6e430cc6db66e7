//go:build hunt

package pagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// hostileKeys would become HTML, code or another path, or would be shown as other keys, if the page
// were careless.
var hostileKeys = []string{
	`<script>window.pwned = 1</script>`,
	`<img src=x onerror="window.pwned = 2">`,
	`"><svg onload=window.pwned=3>`,
	`</bdi></button><iframe srcdoc="<script>parent.pwned=4</script>">`,
	`javascript:window.pwned=5`,
	`${window.pwned=6}`,
	`&lt;b&gt;&amp;`,
	"\u202egpj.exe/\u2066x",       // turns the direction of the following text
	"zero\u200bwidth\ufeff",       // looks like another key
	"\u05d0\u05d1\u05d2/\u0627/1", // is written from right to left
	"e\u0301" + strings.Repeat("\u0301", 60),
	strings.Repeat("w", lockmesh.MaxKeyLen),
	strings.Repeat("ב", lockmesh.MaxKeyLen/2),
	"🔒/👨‍👩‍👧",
	".", "..", "../..", "a/../b", "//", "a//b/", "?x=1&y#z", "%2F%00", "a b", " ", `\`, "'", "#key=x",
	"__proto__", "constructor", "toString", "null", "undefined",
}

var hostileValues = []string{
	"<script>window.pwned = 7</script>",
	"\xff\xfe\x00binary\x80",
	"two\nlines\r\n\tand a tab\x00",
	"\u202eright to left",
	strings.Repeat("v", lockmesh.MaxValueLen),
	strings.Repeat("\xf0", lockmesh.MaxValueLen),
	"",
}

// TestHostileKeys: each key and value is shown as text, each key can be explained and acted on,
// and no key runs code, moves the page, or takes another key's place.
func TestHostileKeys(t *testing.T) {
	m := quick(t)
	for i, key := range hostileKeys {
		m.lock("b", key, lockmesh.WithValue([]byte(hostileValues[i%len(hostileValues)])))
	}
	s := m.serve("a", admin.WithToken(token), admin.AllowReads())
	for _, l := range []look{desktop, phone} {
		b := open(t, s.address, l).live()
		b.until(
			"all keys are shown",
			fmt.Sprintf(`document.querySelectorAll("#rows tr").length === %d`, len(hostileKeys)),
		)
		b.until(
			"there is nothing but text",
			`document.querySelectorAll("#rows :is(script, img, svg, iframe, a, b *), #event-list :is(script, img, svg, iframe)").length === 0`,
		)
		b.fits()
		for _, key := range hostileKeys {
			b.explain(key)
			b.until(
				"its holder is shown",
				`document.querySelector(".holders bdi").textContent === "b"`,
			)
			b.fits()
		}
		eval[bool](b, `document.querySelector("#key-dialog").close(), true`)
		for _, text := range []string{"U+202E", "U+200B", "U+FEFF", "<script>window.pwned = 1</script>"} {
			b.reads("#rows", text)
		}
		// The dialog shows in full a name cut in the table.
		b.explain(hostileKeys[11])
		b.reads("#key-name", hostileKeys[11])
		b.explain(" ")
		b.reads("#key-name", "␣")
		b.explain(`<img src=x onerror="window.pwned = 2">`)
		b.reads("#key-body", "10 bytes: ff fe 00 62 69 6e 61 72 79 80")
		if n := eval[int](b, "window.pwned ?? 0"); n != 0 {
			t.Errorf("code number %d has run", n)
		}
	}

	// Events, a search and an action have the same keys.
	b := open(t, m.serveOwner("a").address, desktop).live()
	for _, key := range []string{hostileKeys[0], "..", "\u202egpj.exe/\u2066x"} {
		info, err := m.nodes["a"].Inspect(m.within(), key)
		must(t, err)
		b.explain(key)
		b.click(".holders button")
		b.click("#evict-go")
		b.reads("#key-done", "The lease of b has ended.")
		now, err := m.nodes["a"].Inspect(m.within(), key)
		must(t, err)
		if len(info.Holders) != 1 || len(now.Holders) != 0 {
			t.Errorf("%q had %d holders, and has %d", key, len(info.Holders), len(now.Holders))
		}
	}
	eval[bool](b, `document.querySelector("#key-dialog").close(), true`)
	b.reads("#event-list", "b lost <script>window.pwned = 1</script>")
	b.enter("#prefix", "<img")
	b.until("one key is found", `document.querySelectorAll("#rows tr").length === 1`)
	if n := eval[int](b, "window.pwned ?? 0"); n != 0 {
		t.Errorf("code number %d has run", n)
	}
}

// TestAForeignPageGetsNothing: under the policy of the page the browser refuses foreign code, and
// text that would become HTML.
func TestAForeignPageGetsNothing(t *testing.T) {
	m := quick(t)
	b := open(t, m.serve("a", admin.AllowReads()).address, desktop).live()
	b.expectFaults()
	for _, attempt := range []string{
		`document.body.innerHTML = "<b>x</b>"`,
		`eval("1")`,
		`new Function("return 1")()`,
		`document.write("<b>x</b>")`,
	} {
		got := get(
			b,
			attempt,
			chromedp.Evaluate[string](
				`(() => { try { `+attempt+`; return "done"; } catch (e) { return e.name; } })()`,
				asThePage,
			),
		)
		if got == "done" {
			t.Errorf("the page could do: %s", attempt)
		}
	}
	got := eval[string](b, `new Promise((resolve) => {
		const s = document.createElement("script");
		s.append("window.pwned = 1");
		document.head.append(s);
		setTimeout(() => resolve(String(window.pwned)), 100);
	})`)
	if got != "undefined" {
		t.Error("an inline script has run")
	}
	if got := eval[string](b, `fetch("http://127.0.0.1:1/").then(() => "done", (e) => e.name)`); got != "TypeError" {
		t.Errorf("a request to another server: %s", got)
	}
}

// asThePage applies the policy to an expression, as to the page's own script.
func asThePage(p *runtime.EvaluateParams) { p.AllowUnsafeEvalBlockedByCSP = new(false) }
