// Package registerhttp makes the HTTP transport of registers, of a connection for each request.
package registerhttp

import "net/http"

// Transport returns a transport like http.DefaultTransport, as the program has set it, but with a
// connection for each request, by HTTP/1.1. Requests of a register are minutes apart, and meanwhile
// a firewall may forget a connection, or the server's machine may die, without notice. Requests
// over such a connection would fail until TCP gives up, which takes up to a quarter of an hour, and
// voters would lose their votes at the end of a term. If the program has replaced
// http.DefaultTransport by another type, Transport returns the replacement.
func Transport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.DisableKeepAlives = true
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.TLSNextProto = nil
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil // Clone has offered HTTP/2 there
	}
	return t
}

// Client returns a client with such a transport.
func Client() *http.Client { return &http.Client{Transport: Transport()} }
