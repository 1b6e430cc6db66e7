// Package clients tries package resp with unchanged clients of Redis: clients for Go in its tests,
// and in the hunt clients for Node.js, Python, Ruby and PHP, and a Redis beside. The package is a
// module of its own, to keep the clients' dependencies from programs with package resp.
package clients
