// Package resp serves locks of a mesh to unchanged Redis lock clients: their users change a URL.
//
//	server := resp.New(mesh, resp.WithPassword(password))
//	listener, err := net.Listen("tcp", "127.0.0.1:6379")
//	if err != nil {
//		return err
//	}
//	go server.Serve(ctx, listener)
//
// The server speaks Redis's protocol RESP2. SET key value NX PX t is a [lockmesh.Mesh.TryLock] of
// length t with the value: a key set by a client is a lease of the mesh, so other users of lockmesh
// and clients at other servers can't have the key. Scripts (EVAL, EVALSHA) run in an isolated Lua
// interpreter that offers the same few commands, so a client's script that compares and deletes
// works however the script is written.
//
// The server isn't a store. Where Redis would answer and a lock wouldn't be safe, the server
// refuses, and the text says why: a value without an end, a time longer than the voters keep a key
// after a crash, a DEL of a key that another node holds. docs/redis-clients.md has the lines that
// each client needs, the list of commands, and each difference from Redis.
package resp
