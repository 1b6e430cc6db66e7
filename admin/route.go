package admin

import (
	"net/http"
	"slices"
	"strings"
)

// needs is the right needed by a request.
type needs uint8

const (
	toRead    needs = iota
	toAct           // an operator's actions
	toRecover       // an action never to be done by mistake
	toLock          // the actions of an agent's client
	toAsk           // for every client: to ask for the client's rights
)

func (n needs) acts() bool { return n == toAct || n == toRecover }

// route is a method and a path, as in the OpenAPI file.
type route struct {
	method, path string
	needs        needs
	query        []string // the parameters accepted
	body         bool     // whether the request may have a body
	long         bool     // whether the answer may be long
	serve        func(*exchange) error
}

const holdPath = "/v1/hold/{key}"

var lockQuery = []string{"ttl", "wait", "mode", "permits", "value", "value_base64", "min_hold", "delay", "revoke"}

// routes are all routes. A new route also needs a path in openapi.json, and a method of Client.
var routes = []*route{
	{method: http.MethodGet, path: "/v1/access", needs: toAsk, serve: (*exchange).access},
	{method: http.MethodGet, path: "/v1/status", query: []string{"key"}, long: true, serve: (*exchange).status},
	{method: http.MethodGet, path: "/v1/members", long: true, serve: (*exchange).members},
	{method: http.MethodGet, path: "/v1/electorate", long: true, serve: (*exchange).electorate},
	{method: http.MethodGet, path: "/v1/ready", query: []string{"wait"}, serve: (*exchange).ready},
	{method: http.MethodGet, path: "/v1/settled", query: []string{"wait"}, serve: (*exchange).settled},
	{method: http.MethodGet, path: "/v1/electorate/watch", serve: (*exchange).watchElectorate},
	{method: http.MethodGet, path: "/v1/locks", query: []string{"prefix", "after", "limit"}, long: true, serve: (*exchange).list},
	{method: http.MethodGet, path: "/v1/locks/{key}", long: true, serve: (*exchange).inspect},
	{method: http.MethodGet, path: "/v1/watch", query: []string{"key", "prefix"}, serve: (*exchange).watch},
	{method: http.MethodGet, path: "/v1/openapi.json", serve: (*exchange).openAPI},

	{method: http.MethodPost, path: "/v1/locks/{key}/revoke", needs: toAct, body: true, serve: (*exchange).revoke},
	{method: http.MethodPost, path: "/v1/locks/{key}/evict", needs: toAct, query: []string{"wait"}, body: true, serve: (*exchange).evict},
	{method: http.MethodPost, path: "/v1/drain", needs: toAct, query: []string{"wait"}, serve: (*exchange).drain},
	{method: http.MethodPost, path: "/v1/stop", needs: toAct, query: []string{"wait"}, serve: (*exchange).stop},
	{method: http.MethodPost, path: "/v1/leave", needs: toAct, query: []string{"wait"}, serve: (*exchange).leave},
	{method: http.MethodPost, path: "/v1/recover", needs: toRecover, query: []string{"wait"}, body: true, serve: (*exchange).recoverVoters},

	{method: http.MethodPut, path: "/v1/locks/{key}", needs: toLock, query: lockQuery, serve: (*exchange).lock},
	{method: http.MethodGet, path: "/v1/leases/{id}", needs: toLock, serve: (*exchange).lease},
	{method: http.MethodPost, path: "/v1/leases/{id}/extend", needs: toLock, query: []string{"ttl"}, serve: (*exchange).extend},
	{method: http.MethodDelete, path: "/v1/leases/{id}", needs: toLock, serve: (*exchange).unlock},
	{method: http.MethodGet, path: holdPath, needs: toLock, query: lockQuery, serve: (*exchange).hold},
	{method: http.MethodPut, path: holdPath, needs: toLock, query: lockQuery, serve: (*exchange).hold},
}

// match returns the route of a request, and the value of the path's parameter. If only other
// methods have the path, allowed lists them.
//
// The path is decoded, and never cleaned: a key may have any of "//", "." and "..". A key is all
// that remains of the path. So keys are unambiguous only because a POST always ends in its action
// and no other method does.
func match(method, path string) (rt *route, param string, allowed []string) {
	for _, r := range routes {
		value, ok := r.param(path)
		switch {
		case !ok:
		case r.method == method:
			return r, value, nil
		case !slices.Contains(allowed, r.method):
			allowed = append(allowed, r.method)
		}
	}
	return nil, "", allowed
}

// param returns the value of the parameter in a path, empty for a route without a parameter; ok is
// false if the path isn't the route's.
func (r *route) param(path string) (value string, ok bool) {
	before, rest, has := strings.Cut(r.path, "{")
	if !has {
		return "", path == r.path
	}
	name, after, _ := strings.Cut(rest, "}")
	if len(path) < len(before)+len(after) || !strings.HasPrefix(path, before) || !strings.HasSuffix(path, after) {
		return "", false
	}
	value = path[len(before) : len(path)-len(after)]
	return value, name == "key" || !strings.Contains(value, "/")
}
