package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pagePolicy has a browser refuse whatever the page has no need for: code and styles that aren't
// files of this server, requests to other servers, frames around the page, and all ways of turning
// text into HTML.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// pageAt returns the file of the page at a path; nil if there is none.
func pageAt(path string) (*pageFile, error) {
	if path != "/" && !strings.HasPrefix(path, "/page/") {
		return nil, nil
	}
	files, err := loadPage()
	return files[path], err
}

// servePage answers with a file of the page. Every client gets the page: the file has nothing of
// the mesh in it, and a link from another site may lead to the page.
func (x *exchange) servePage(f *pageFile, err error) error {
	if err != nil {
		return err
	}
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		x.w.Header().Set("Allow", "GET, HEAD")
		return withStatus(http.StatusMethodNotAllowed,
			failure(ErrRequest, "%s isn't possible here; GET or HEAD is", x.r.Method))
	}
	data, tag := f.plain, f.digest
	header := x.w.Header()
	if acceptsGzip(x.r) {
		data, tag = f.zipped, f.digest+"-gzip"
		header.Set("Content-Encoding", "gzip")
	}
	tag = `"` + tag + `"`
	x.began = true
	x.header(f.contentType)
	// A browser asks by the ETag, and so has the page of the present version.
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", tag)
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	if hasTag(x.r.Header.Values("If-None-Match"), tag) {
		header.Del("Content-Type")
		header.Del("Content-Encoding")
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	_ = x.rc.SetWriteDeadline(time.Now().Add(writeTime)) // not every server has deadlines
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodGet {
		if _, err = x.w.Write(data); err == nil {
			err = x.rc.Flush()
		}
	}
	if err == nil {
		_ = x.rc.SetWriteDeadline(time.Time{}) // the connection may carry other answers
	}
	return err
}

// acceptsGzip reports whether a client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for _, one := range elements(r.Header.Values("Accept-Encoding")) {
		coding, quality, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			_, q, _ := strings.Cut(quality, "=")
			weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return err != nil || weight > 0
		}
	}
	return false
}

// hasTag reports whether a list of ETags has a given tag. A proxy may have marked the ETag as weak.
func hasTag(tags []string, tag string) bool {
	return slices.ContainsFunc(elements(tags), func(t string) bool {
		return t == "*" || strings.TrimPrefix(t, "W/") == tag
	})
}

// elements returns the elements of a header with commas.
func elements(values []string) []string {
	var all []string
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			all = append(all, strings.TrimSpace(one))
		}
	}
	return all
}
