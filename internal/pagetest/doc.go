// Package pagetest has the tests of the page that package admin serves, in a real browser: Chromium
// without a window, driven over the DevTools protocol. The nodes are real and run in the test's
// process, over loopback.
//
// The tests need the build tag hunt, since they need a browser that not every machine has. Run them
// with .ci/hunt page from the root of the repository, or here:
//
//	go test -tags hunt ./...
//	go test -tags hunt -run Pictures -update ./...   # makes the pictures of docs/admin.md anew
//
// The package is a module of its own so that the library doesn't depend on the DevTools client.
package pagetest
