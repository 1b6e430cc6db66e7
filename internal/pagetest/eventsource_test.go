//go:build hunt

package pagetest

import (
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// listening is a script that reads a watch as a page of an application would: with the browser's
// EventSource, which reconnects by itself.
const listening = `(() => {
	window.seen = [];
	const source = new EventSource("v1/watch?prefix=shown/");
	source.onmessage = (e) => window.seen.push(JSON.parse(e.data));
	source.addEventListener("end", (e) => window.seen.push({ kind: "end", ...JSON.parse(e.data) }));
	return true;
})()`

// TestAnEventSource: a browser's own EventSource reads a watch, hostile keys included, and
// receives a gap after the node's server was away.
func TestAnEventSource(t *testing.T) {
	const hostile = "shown/\u2028data: x</script><img src=x onerror=alert(1)>\"'\\"
	m := quick(t)
	s := m.serve("a", admin.AllowReads())
	b := open(t, s.address, desktop)
	if !eval[bool](b, listening) {
		t.Fatal("the script has failed")
	}
	has := func(what, condition string) {
		t.Helper()
		b.until(what, "window.seen.some((e) => "+condition+")")
	}
	has("the present state is complete", `e.kind === "synced"`)
	lease := m.lock("b", "shown/1", lockmesh.WithValue([]byte("a value")))
	has("a grant", `e.kind === "granted" && e.key === "shown/1" && e.node === "b"`)
	must(t, lease.Unlock(m.within()))
	has("a release", `e.kind === "released" && e.key === "shown/1"`)
	m.lock("b", "hidden/1")
	m.lock("b", hostile)
	has("a hostile key as it is", `e.kind === "granted" && e.key === `+quote(hostile))
	if eval[bool](b, `window.seen.some((e) => (e.key ?? "").startsWith("hidden"))`) {
		t.Error("a key without the prefix is shown")
	}

	s.stop()
	has("the end, with its reason", `e.kind === "end" && e.error === "stopping"`)
	m.serveOn(listenAt(t, s.address), "a", admin.AllowReads())
	has("the gap after the new connection", `e.kind === "gap"`)
	m.lock("c", "shown/2")
	has("events of the new connection", `e.kind === "granted" && e.key === "shown/2"`)
}
