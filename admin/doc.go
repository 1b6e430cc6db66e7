// Package admin serves a node's state over HTTP to operators, scripts and programs in other
// languages, on a unix socket of the node's own user:
//
//	socket, err := admin.Listen("/run/app/lockmesh.sock")
//	if err != nil {
//		return err
//	}
//	go admin.Serve(ctx, socket, admin.New(mesh))
//
// A browser shows the page at GET /. Over the socket an operator reads the node's view of the mesh,
// lists and watches keys, and acts: revoke, evict, drain, stop, leave, recover. With [AllowLocks]
// the handler is an agent: clients take locks by HTTP. The handler can also be mounted in an
// application's own server, or served on TCP with a token ([WithToken]); there it is read-only
// unless options say otherwise.
//
// [New] lists the routes, docs/admin.md has an example of each, and GET /v1/openapi.json is their
// description in OpenAPI 3.1. The JSON types of this package are stable: within a major version
// fields are added, never renamed or removed, so ignore unknown fields. Durations are integers of
// milliseconds in fields that end in _ms, and of microseconds in fields that end in _us; times are
// RFC 3339 in UTC. Tokens are integers of up to 63 bits: in practice microseconds since 1970, which
// JavaScript represents exactly until the year 2255.
//
// [Client] is the client of all routes for Go.
package admin
