package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// authorize returns an error if the request may not do as its route says.
func (x *exchange) authorize() error {
	if err := x.identify(); err != nil {
		return err
	}
	return x.may(x.route.needs)
}

// identify determines the rights of the request's sender: known is true if the sender has proven
// the right to act. If identify returns an error, the error is the whole answer.
func (x *exchange) identify() error {
	h, r := x.h, x.r
	// A browser reports the origin of the page behind a request. No page of another site is served,
	// not even for reads: some routes act on a GET.
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return failure(ErrForbidden, "a page of another site has sent the request")
	}
	if !h.isOwnOrigin(r) {
		return failure(ErrForbidden, "a page of another origin has sent the request: %q", r.Header.Get("Origin"))
	}
	proven, err := h.hasToken(r)
	if err != nil && !x.isOwnerOnly() {
		return err
	}
	x.foreignHost = !proven && !h.isOwnHost(r.Host) && !(x.isOwnerOnly() && isLocalName(r.Host))
	x.proven = proven
	x.known = proven || x.isOwnerOnly() && !x.foreignHost
	return nil
}

// may returns an error if the request, identified before, lacks the rights for need.
func (x *exchange) may(need needs) error {
	h := x.h
	switch {
	case need == toAsk:
		return nil
	case x.foreignHost:
		return failure(ErrForbidden, "the Host header is %q, a name that isn't known to be this server's; use localhost or an IP "+
			"address, or have the application list the name with AllowHosts", x.r.Host)
	case need.acts() && h.readOnly:
		return failure(ErrForbidden, "the application has made this read-only")
	case need == toLock && h.maxTTL == 0:
		return failure(ErrForbidden, "the application serves no locks here: it would use AllowLocks")
	case need == toRecover && !x.isOwnerOnly():
		return failure(ErrForbidden, "only requests over the owner's socket recover an electorate, since a mistake makes two of it")
	case x.known && !x.mayBeImage():
		return nil
	case need == toRead && (h.openReads || h.openActs && h.token == nil):
		return nil
	case h.token != nil && !x.known:
		return failure(ErrUnauthorized, "the request has no token")
	case !h.openActs && need == toRead:
		return failure(ErrForbidden, "the handler has no token, and the application hasn't allowed requests without one to read (AllowReads)")
	case !h.openActs && !x.known:
		return failure(ErrForbidden, "the handler has no token, so only requests over the owner's socket act")
	case x.mayBeImage():
		return failure(ErrForbidden, "without a token, use PUT")
	}
	return nil
}

// mayBeImage reports whether an image in any page can have made a browser send the request that
// takes a lock: such a request is a GET without a token, and some browsers don't say from where. A
// browser may reach the owner's socket, too, by a forwarded port.
func (x *exchange) mayBeImage() bool {
	return x.route.path == holdPath && x.r.Method == http.MethodGet && !x.proven
}

// isOwnerOnly reports whether only this process's user, and root, can have sent the request.
func (x *exchange) isOwnerOnly() bool { return x.conn != nil && x.conn.ownerOnly }

// hasToken reports whether a request carries the handler's token; a wrong token is an error. The
// comparison takes the same time for all tokens.
func (h *Handler) hasToken(r *http.Request) (bool, error) {
	header := r.Header.Get("Authorization")
	if h.token == nil || header == "" {
		return false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	digest := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(digest[:], h.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return false, failure(ErrUnauthorized, "the token is wrong")
	}
	return true, nil
}

// isOwnHost reports whether a Host header can't have been chosen by a foreign page: an IP address,
// localhost or a listed name.
func (h *Handler) isOwnHost(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") || h.isListed(name)
}

// isLocalName reports whether a Host header is a name without a dot, such as clients of the owner's
// socket make up. A browser can be at the other end of the socket, by a forwarded port, and a
// foreign page can have a name of its own site resolve to that port. Such a name has a dot.
func isLocalName(host string) bool { return !strings.Contains(host, ".") }

func (h *Handler) isListed(name string) bool {
	return slices.ContainsFunc(h.hosts, func(own string) bool { return strings.EqualFold(own, name) })
}

// isOwnOrigin reports whether a request comes from a page of this server, or from no page.
func (h *Handler) isOwnOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (strings.EqualFold(u.Host, r.Host) || h.isListed(u.Hostname()))
}
