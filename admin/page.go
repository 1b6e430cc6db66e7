package admin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"sync"
)

// maxPage is the length in bytes of all files of the page as they are sent to a browser, gzip'd: a
// second over a line of half a megabit, such as a phone's at the edge of its network.
const maxPage = 64 << 10

//go:embed page
var pageSource embed.FS

// pageFile is a file of the page, as sent to a browser.
type pageFile struct {
	contentType   string
	plain, zipped []byte
	digest        string // of plain, for the ETag
}

// loadPage prepares the files of the page once in a process, by path. The page is at the root, and
// the page's other files are below /page/, so relative addresses work wherever an application
// mounts the handler.
var loadPage = sync.OnceValues(func() (map[string]*pageFile, error) {
	files := map[string]*pageFile{}
	for _, f := range []struct{ path, source, contentType string }{
		{"/", "page/index.html", "text/html; charset=utf-8"},
		{"/page/page.css", "page/page.css", "text/css; charset=utf-8"},
		{"/page/icon.svg", "page/icon.svg", "image/svg+xml"},
		{"/page/page.js", "", "text/javascript; charset=utf-8"},
	} {
		read := joinModules
		if f.source != "" {
			read = func() ([]byte, error) { return pageSource.ReadFile(f.source) }
		}
		file, err := newPageFile(f.contentType, read)
		if err != nil {
			return nil, err
		}
		files[f.path] = file
	}
	return files, nil
})

func newPageFile(contentType string, read func() ([]byte, error)) (*pageFile, error) {
	data, err := read()
	if err != nil {
		return nil, err
	}
	zipped, err := zip(data)
	sum := sha256.Sum256(data)
	digest := base64.RawURLEncoding.EncodeToString(sum[:15])
	return &pageFile{contentType: contentType, plain: data, zipped: zipped, digest: digest}, err
}

var (
	// pageImport finds an import of a module. The names are the names of the exports: no module
	// renames an export.
	pageImport = regexp.MustCompile(`(?m)^import \{[\w$,\s]*\} from "\./(\w+\.js)";\n`)
	pageExport = regexp.MustCompile(`(?m)^export `)
)

// joinModules joins the page's modules into a single file, each module after its imports. A browser
// takes several times as long to load a dozen small files. All names at the top of the modules are
// then in the same scope, and must differ.
func joinModules() ([]byte, error) {
	var out bytes.Buffer
	done := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		if done[name] {
			return nil
		}
		done[name] = true
		text, err := pageSource.ReadFile(path.Join("page", name))
		if err != nil {
			return err
		}
		for _, m := range pageImport.FindAllSubmatch(text, -1) {
			if err := add(string(m[1])); err != nil {
				return fmt.Errorf("%s imports: %w", name, err)
			}
		}
		text = pageExport.ReplaceAll(pageImport.ReplaceAll(text, nil), nil)
		fmt.Fprintf(&out, "// %s\n\n%s\n", name, bytes.TrimSpace(text))
		return nil
	}
	err := add("main.js")
	return out.Bytes(), err
}

func zip(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}
