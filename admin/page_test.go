package admin

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/meshtest"
)

// page returns all files of the page by path.
func page(t *testing.T) map[string]*pageFile {
	t.Helper()
	files, err := loadPage()
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("there are only %d files", len(files))
	}
	return files
}

// isPage reports whether an answer is the file of the page at a path.
func isPage(t *testing.T, path string, body []byte) bool {
	t.Helper()
	f := page(t)[path]
	return f != nil && bytes.Equal(f.plain, body)
}

// load requests a file of the page. The headers are names and values in turn.
func load(
	t *testing.T,
	h *Handler,
	method, path string,
	headers ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return serveOnce(h, r, false)
}

func TestThePageIsSmall(t *testing.T) {
	sum := 0
	for _, f := range page(t) {
		sum += len(f.zipped)
	}
	t.Logf("the page has %d bytes, compressed", sum)
	if sum > maxPage {
		t.Errorf("the page has %d bytes, more than %d", sum, maxPage)
	}
}

// TestEveryClientGetsThePage: the page is the same for all clients, even if no other request is
// allowed, for a foreign host name, and for a link on another site.
func TestEveryClientGetsThePage(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), WithLogger(slog.New(slog.DiscardHandler)))
		for path, f := range page(t) {
			w := load(t, h, "GET", path, "Sec-Fetch-Site", "cross-site")
			if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), f.plain) ||
				w.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
			}
			if got := w.Header().Get("Content-Type"); got != f.contentType || got == "" {
				t.Errorf("%s has the type %q", path, got)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": pagePolicy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s is %q", path, name, got)
				}
			}
			if w := load(t, h, "HEAD", path); w.Code != 200 || w.Body.Len() > 0 ||
				w.Header().Get("ETag") == "" {
				t.Errorf("HEAD %s: %d, %d bytes", path, w.Code, w.Body.Len())
			}
		}
	})
}

// TestThePagesPolicy: the policy allows no code but files of the server, and no HTML made of text.
func TestThePagesPolicy(t *testing.T) {
	directives := map[string]string{}
	for d := range strings.SplitSeq(pagePolicy, "; ") {
		name, value, _ := strings.Cut(d, " ")
		directives[name] = value
	}
	for name, want := range map[string]string{
		"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
		"frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
	} {
		if directives[name] != want {
			t.Errorf("%s is %q", name, directives[name])
		}
	}
	if strings.Contains(pagePolicy, "unsafe") || strings.Contains(pagePolicy, "http") ||
		strings.Contains(pagePolicy, "*") {
		t.Errorf("the policy is %s", pagePolicy)
	}
}

func TestThePageIsCachedAndCompressed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), WithLogger(slog.New(slog.DiscardHandler)))
		tags := map[string]bool{}
		for path, f := range page(t) {
			for accepted, zipped := range map[string]bool{
				"gzip": true, "br, GZIP;q=0.5": true, "": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "xgzip": false, "deflate, gzip": true,
			} {
				w := load(t, h, "GET", path, "Accept-Encoding", accepted)
				if (w.Header().Get("Content-Encoding") == "gzip") != zipped {
					t.Errorf(
						"%s for %q has the coding %q",
						path,
						accepted,
						w.Header().Get("Content-Encoding"),
					)
				}
				body := w.Body.Bytes()
				if zipped {
					r, err := gzip.NewReader(w.Body)
					must(t, err)
					body, err = io.ReadAll(r)
					must(t, err)
				}
				if !bytes.Equal(body, f.plain) {
					t.Errorf("%s for %q has other contents", path, accepted)
				}
				tag := w.Header().Get("ETag")
				tags[tag] = true
				for _, known := range []string{tag, `"x", ` + tag, "W/" + tag, "*"} {
					w := load(
						t,
						h,
						"GET",
						path,
						"Accept-Encoding",
						accepted,
						"If-None-Match",
						known,
					)
					if w.Code != http.StatusNotModified || w.Body.Len() > 0 ||
						w.Header().Get("ETag") != tag {
						t.Errorf(
							"%s with If-None-Match: %s is answered %d, %d bytes",
							path,
							known,
							w.Code,
							w.Body.Len(),
						)
					}
				}
				if w := load(t, h, "GET", path, "Accept-Encoding", accepted, "If-None-Match", `"other"`); w.Code != 200 {
					t.Errorf("%s with another ETag: %d", path, w.Code)
				}
			}
		}
		if len(tags) != 2*len(page(t)) {
			t.Errorf("%d files have %d ETags", len(page(t)), len(tags))
		}
	})
}

// sources returns the source files of the page, by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	entries, err := pageSource.ReadDir("page")
	must(t, err)
	for _, e := range entries {
		text, err := pageSource.ReadFile("page/" + e.Name())
		must(t, err)
		texts[e.Name()] = string(text)
	}
	return texts
}

// TestThePageIsMadeOfItsSources: each source is sent, the modules as a single script in which each
// module follows its imports, and no name is declared twice.
func TestThePageIsMadeOfItsSources(t *testing.T) {
	files, left := page(t), sources(t)
	for path, name := range map[string]string{"/": "index.html", "/page/page.css": "page.css", "/page/icon.svg": "icon.svg"} {
		if string(files[path].plain) != left[name] {
			t.Errorf("%s isn't %s", path, name)
		}
		delete(left, name)
	}
	script := string(files["/page/page.js"].plain)
	declared := map[string]string{}
	for name, text := range left {
		imports := pageImport.FindAllStringSubmatch(text, -1)
		at := strings.Index(script, "// "+name+"\n")
		for _, m := range imports {
			if before := strings.Index(script, "// "+m[1]+"\n"); before < 0 || before > at {
				t.Errorf("%s imports %s, which follows", name, m[1])
			}
			for imported := range strings.SplitSeq(regexp.MustCompile(`(?s)\{(.*)\}`).FindStringSubmatch(m[0])[1], ",") {
				imported = strings.TrimSpace(imported)
				if imported != "" &&
					!regexp.MustCompile(`(?m)^export (?:async )?(?:const|let|class|function\*?) `+regexp.QuoteMeta(imported)+`[^\w$]`).
						MatchString(left[m[1]]) {
					t.Errorf("%s imports %s, which %s doesn't export", name, imported, m[1])
				}
				if !regexp.MustCompile(`[^"\w$]` + regexp.QuoteMeta(imported) + `[^\w$]`).
					MatchString(pageImport.ReplaceAllString(text, "")) {
					t.Errorf("%s imports %s, and doesn't use it", name, imported)
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|var|class|function\*?) (\{.*?\}|\[.*?\]|[\w$]+)`).FindAllStringSubmatch(text, -1) {
			if other := declared[m[1]]; other != "" {
				t.Errorf("%s declares %s, and so does %s", name, m[1], other)
			}
			declared[m[1]] = name
		}
		for line := range strings.Lines(pageExport.ReplaceAllString(pageImport.ReplaceAllString(text, ""), "")) {
			if !strings.Contains(script, line) {
				t.Errorf("page.js lacks a line of %s: %s", name, line)
			}
		}
	}
	if len(left) < 10 || len(declared) < 50 {
		t.Errorf("there are only %d modules with %d names", len(left), len(declared))
	}
	if m := regexp.MustCompile(`(?m)^\s*(?:import|export)\b.*`).FindString(script); m != "" {
		t.Errorf("page.js has %q", m)
	}
}

// TestThePageIsWholeByItself: the page names no address of another server, loads each of its
// files, and has no code or style beside its files.
func TestThePageIsWholeByItself(t *testing.T) {
	for name, text := range sources(t) {
		text = strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")
		if m := regexp.MustCompile(`(?i)\w+:\\?/\\?/|["'(=]\s*//\w`).FindString(text); m != "" {
			t.Errorf("%s has an address: %s", name, m)
		}
		for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s, which makes HTML or code of text", name, word)
			}
		}
		for i, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "\t") || strings.TrimRight(line, " ") != line ||
				utf8.RuneCountInString(line) > 100 {
				t.Errorf(
					"%s:%d has a tab, ends in a blank, or is longer than 100 columns",
					name,
					i+1,
				)
			}
		}
	}
	index := string(page(t)["/"].plain)
	if m := regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|javascript:|<script[^>]*>[^<]`).FindString(index); m != "" {
		t.Errorf("index.html has code or styles: %s", m)
	}
	named := map[string]bool{"/": true}
	for _, m := range regexp.MustCompile(`(?:href|src)="(page/[^"]*)"`).FindAllStringSubmatch(index, -1) {
		named["/"+m[1]] = true
	}
	got, want := slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(page(t)))
	if !slices.Equal(got, want) {
		t.Errorf("index.html names\n%q, and there are\n%q", got, want)
	}
}

// TestThePageFindsItsElements: each id used by the scripts is in index.html once, and each address
// requested by the scripts is a route.
func TestThePageFindsItsElements(t *testing.T) {
	index := sources(t)["index.html"]
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(index, -1) {
		ids[m[1]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("the id %s is used %d times", id, n)
		}
	}
	for _, m := range regexp.MustCompile(`\s(?:for|aria-labelledby)="([^"]*)"`).FindAllStringSubmatch(index, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("index.html refers to the id %s, and there is none", m[1])
		}
	}
	looked, paths := 0, 0
	for name, text := range sources(t) {
		for _, m := range regexp.MustCompile(`\$\("([^"]*)"\)`).FindAllStringSubmatch(text, -1) {
			looked++
			if ids[m[1]] == 0 {
				t.Errorf("%s looks for the id %s, and there is none", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`"(v1/[^"]*)"`).FindAllStringSubmatch(text, -1) {
			paths++
			if rt, _, _ := match("GET", "/"+m[1]); rt == nil {
				t.Errorf("%s requests %s, and there is no such route", name, m[1])
			}
		}
	}
	if looked < 20 || paths < 5 {
		t.Errorf("only %d ids and %d paths were found", looked, paths)
	}
}
