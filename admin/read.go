package admin

import (
	"cmp"
	_ "embed"
	"net/http"
	"slices"

	"github.com/lockmesh/lockmesh"
)

// defaultPage is the length of a page of keys unless the request says otherwise.
const defaultPage = 100

//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the description of all routes in OpenAPI 3.1, as GET /v1/openapi.json does. The
// caller owns the slice.
func OpenAPI() []byte { return append([]byte{}, openAPI...) }

func (x *exchange) openAPI() error { return x.write(http.StatusOK, openAPI) }

// access answers with the rights of the request, and of other such requests.
func (x *exchange) access() error {
	read, act := x.may(toRead), x.may(toAct)
	a := Access{
		Read: read == nil, Act: act == nil,
		Lock: x.may(toLock) == nil, Recover: x.may(toRecover) == nil,
		Token: x.h.token != nil && !x.known && (read != nil || !x.h.readOnly || x.h.maxTTL > 0),
	}
	if err := cmp.Or(read, act); err != nil {
		a.Reason = err.Error()
	}
	return x.answer(http.StatusOK, a)
}

func (x *exchange) status() error {
	s := statusOf(x.h.mesh)
	if !x.known && (x.h.token != nil || !x.h.openActs) {
		for i := range s.Secrets {
			s.Secrets[i].ID = "" // a reader could test guesses of a secret by the id
		}
	}
	if x.query.Has("key") {
		key := x.query.Get("key")
		s.Held = slices.DeleteFunc(s.Held, func(l HeldLease) bool { return l.Key != key })
		s.Waiting = slices.DeleteFunc(s.Waiting, func(r Request) bool { return r.Key != key })
	}
	return x.answer(http.StatusOK, s)
}

func (x *exchange) members() error {
	return x.answer(http.StatusOK, Members{membersOf(x.h.mesh.Status().Members)})
}

func (x *exchange) electorate() error {
	s := x.h.mesh.Stats() // costs less than a Status with the node's leases
	if s.Closed {
		return failure(lockmesh.ErrClosed, "the node has ended, and knows no electorate")
	}
	return x.answer(http.StatusOK, electorateOf(&s.Electorate))
}

func (x *exchange) list() error {
	limit, err := x.number("limit", lockmesh.MaxPageKeys)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultPage
	}
	page, err := x.h.mesh.ListPage(x.ctx, x.query.Get("prefix"), x.query.Get("after"), limit)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, Locks{Locks: convert(page.Keys, lockOf), Next: page.Next})
}

func (x *exchange) inspect() error {
	info, err := x.h.mesh.Inspect(x.ctx, x.param)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, lockOf(&info))
}
