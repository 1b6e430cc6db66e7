//go:build hunt

package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds every wait for the page. Only a broken page takes so long.
const patience = time.Minute

// browser is the Chromium shared by all tests. closeBrowser ends the process.
var browser struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

// startBrowser starts Chromium without a window. The flags turn off requests to servers of
// Chromium's maker.
func startBrowser() (context.Context, error) {
	browser.once.Do(func() {
		path, err := findBrowser()
		if err != nil {
			browser.err = err
			return
		}
		opts := []chromedp.ExecAllocatorOption{
			chromedp.ExecPath(path), chromedp.Headless, chromedp.DisableGPU,
			chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		}
		for _, name := range []string{
			"disable-quic", "disable-background-networking", "disable-component-update",
			"disable-sync", "hide-scrollbars",
		} {
			opts = append(opts, chromedp.Flag(name, true))
		}
		opts = append(opts, chromedp.Flag("force-color-profile", "srgb"))
		if os.Geteuid() == 0 {
			opts = append(opts, chromedp.NoSandbox) // Chromium refuses to run for root otherwise
		}
		alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, endBrowser := chromedp.NewContext(alloc)
		browser.ctx, browser.err = ctx, chromedp.Do(ctx)
		browser.end = func() {
			_ = chromedp.Cancel(ctx) // waits for the end of the process
			endBrowser()
			endAlloc()
		}
	})
	return browser.ctx, browser.err
}

func closeBrowser() {
	if browser.end != nil {
		browser.end()
	}
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New(
		"there is no Chromium on this machine; on Debian: apt-get install chromium",
	)
}

// tab is a tab of the browser with storage of its own. The test fails if the page throws an error,
// breaks its policy, or sends a request to another server.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // the addresses requested
	faults   []string
	expected bool // the test wants faults
	host     string
}

// look describes the window in which a tab shows a page.
type look struct {
	width, height int64
	dark, phone   bool
	still         bool // the reader prefers reduced motion
}

var (
	desktop = look{width: 1280, height: 900}
	phone   = look{width: 360, height: 740, phone: true}
)

// open opens a page, without a wait.
func open(t *testing.T, address string, l look) *tab {
	t.Helper()
	parent, err := startBrowser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, host: hostOf(t, address)}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.check)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	motion := "no-preference"
	if l.still {
		motion = "reduce"
	}
	must(t, call(ctx, network.Enable, network.EnableParams{}))
	must(t, call(ctx, log.Enable, cdp.Empty{}))
	must(t, call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.phone,
	}))
	must(
		t,
		call(
			ctx,
			emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{
					Name:  "prefers-color-scheme",
					Value: scheme,
				}, {Name: "prefers-reduced-motion", Value: motion},
			}},
		),
	)
	b.goTo(address)
	return b
}

// goTo opens an address.
func (b *tab) goTo(address string) {
	b.t.Helper()
	b.do("opening "+address, chromedp.Navigate(address))
}

// hostOf returns the host and port of an address.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Host
}

// call sends a command to a tab.
func call[P, R any](ctx context.Context, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heard notes requests and faults.
func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != b.host {
			b.faults = append(b.faults, "a request to another server: "+e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "an error: "+describe(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.faults = append(b.faults, fmt.Sprintf("the console has %s", e.Args[0].Value))
		}
	case *log.EventEntryAdded:
		// Error answers and missing servers are part of some scenes.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.faults = append(b.faults, "the log has "+e.Entry.Text)
		}
	}
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}

// check fails the test if something went wrong in the tab.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expected && len(b.faults) == 0 {
		b.t.Error("the page had no fault, and should have had some")
	}
	for _, fault := range b.faults {
		if b.expected {
			continue
		}
		b.t.Errorf("the page: %s", fault)
	}
}

// do does something in the tab.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\nThe page reads:\n%s", what, err, b.visible())
	}
}

// get runs an action with a result.
func get[T any](b *tab, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v\nThe page reads:\n%s", what, err, b.visible())
	}
	return v
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return get(b, expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	test := "(() => {" + helpers + "return !!(" + expression + ");})()"
	for end := time.Now().Add(patience); !eval[bool](b, test); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("within %v it didn't come to this: %s (%s)\nThe page reads:\n%s",
				patience, what, expression, b.visible())
		}
	}
}

// visible returns the text of the page, for messages.
func (b *tab) visible() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// text returns the visible text of the first element of a selector.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "(document.querySelector("+quote(selector)+")?.innerText ?? '')")
}

// reads waits until an element contains a text.
func (b *tab) reads(selector, text string) {
	b.t.Helper()
	b.until(
		selector+" reads "+text,
		"document.querySelector("+quote(selector)+")?.innerText.includes("+quote(text)+")",
	)
}

// click clicks on an element, with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do("a click on "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// enter types a text into a field, after the present text.
func (b *tab) enter(selector, text string) {
	b.t.Helper()
	b.do(
		"typing into "+selector,
		chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible),
	)
}

// press presses keys in the element with the focus.
func (b *tab) inquireOrNotify(keys string) {
	b.t.Helper()
	b.do("pressing keys", chromedp.KeyEvent(keys))
}

// live waits until the page shows the node and has a watch.
func (b *tab) live() *tab {
	b.t.Helper()
	b.until("the page is live", `document.querySelector("#link").dataset.state === "live"`)
	return b
}

// expectFaults declares that the test does things the browser should refuse.
func (b *tab) expectFaults() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = true
}

// fits fails the test if the page, or the dialog that is open, is wider than the window.
func (b *tab) fits() {
	b.t.Helper()
	wide := eval[string](b, `[document.documentElement, ...document.querySelectorAll("dialog[open]")]
		.filter((e) => e.scrollWidth > e.clientWidth)
		.map((e) => [e.nodeName, e.id, e.scrollWidth, e.clientWidth].join(" "))
		.join(", ")`)
	if wide != "" {
		b.t.Errorf("too wide: %s", wide)
	}
}

// reload loads the page anew.
func (b *tab) reload() {
	b.t.Helper()
	b.do("a reload", chromedp.Reload())
}

// asked returns the addresses that the page has requested so far.
func (b *tab) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// askedFor returns how often the page has requested addresses that contain a text.
func (b *tab) askedFor(part string) (n int) {
	for _, r := range b.asked() {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

// quote returns a text as a literal of JavaScript.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string has a form in JSON
	}
	return strings.ReplaceAll(string(data), "</", `<\/`)
}

// explain asks why a key can't be had, and waits for the answer.
func (b *tab) explain(key string) {
	b.t.Helper()
	// The field is filled by the script, since a keyboard has no key for some characters.
	eval[bool](b, `(() => {
		document.querySelector("#key-dialog").close();
		document.querySelector("#ask-key").value = `+quote(key)+`;
		document.querySelector("#ask").requestSubmit();
		return true;
	})()`)
	isAbout := `location.hash === "#key=" + encodeURIComponent(` + quote(key) + `)`
	b.until("the dialog is about "+key, `document.querySelector("#key-dialog").open && `+isAbout)
	b.until("the voters have answered", `document.querySelector("#key-body .headline")`)
}

// helpers are functions for expressions: the classes of a voter's disc, the page's text about the
// voter, and the voter's part in a change.
const helpers = `
	const voters = () => [...document.querySelectorAll("#voter-list > li")];
	const voter = (name) => voters().find((li) => li.querySelector(".who bdi").textContent === name);
	const isVoter = (name, of) => voter(name)?.querySelector(".disc").classList.contains(of);
	const disc = (name) => ["old", "new"].filter((of) => isVoter(name, of)).join(" ");
	const how = (name) => voter(name)?.querySelector(".how").innerText ?? "";
	const role = (name) => voter(name)?.querySelector(".role")?.innerText ?? "";
`

// shiftTab moves the focus back.
func shiftTab() chromedp.Action[chromedp.Void] {
	return chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
}

// accessible returns the roles and names presented to a screen reader.
func accessible(b *tab) []string {
	b.t.Helper()
	tree, err := chromedp.Call(
		b.ctx,
		accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{},
	)
	must(b.t, err)
	var all []string
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		text := func(v *accessibility.Value) string {
			var s string
			if v == nil || json.Unmarshal(v.Value, &s) != nil {
				return ""
			}
			return s
		}
		all = append(all, text(n.Role)+" "+text(n.Name))
	}
	return all
}
