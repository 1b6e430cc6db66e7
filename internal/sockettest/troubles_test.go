package sockettest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// A process of a mesh that is born by count finds no other process, and reports why, for each kind
// of entry.
func TestAProcessThatFindsNoOtherSaysWhy(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	foreign := &onLoopback{t: t, secret: ownSecret(), ttl: loopTTL}
	counted := func(c *lockmesh.Config) { c.Expect = 3 }
	named := foreign.join("named", func(c *lockmesh.Config) { counted(c); c.Mesh = "another" })
	const shut = 1 // no test gets this port
	nowhere := fmt.Sprintf("dns:nowhere.%s:7950", domain)
	missing := "file:" + filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name   string
		secret []byte
		peers  []string
		want   []string
	}{
		{"no answer of the DNS", foreign.secret, []string{nowhere}, []string{nowhere + ": lookup nowhere." + domain, "no such host"}},
		{"no file", foreign.secret, []string{missing}, []string{missing + ": open "}},
		{"a closed port", foreign.secret, []string{fmt.Sprintf("dns:localhost:%d", shut)}, []string{fmt.Sprintf("127.0.0.1:%d: connect", shut)}},
		{"a mesh of another name", foreign.secret, []string{named.Addr()}, []string{named.Addr(), `"another"`, "refuses this node"}},
		{"a mesh with another secret", ownSecret(), []string{named.Addr()}, []string{named.Addr(), "secret"}},
		{"all at once", foreign.secret, []string{nowhere, missing, fmt.Sprintf("dns:localhost:%d", shut), named.Addr()}, []string{
			nowhere + ": ", missing + ": ", fmt.Sprintf("127.0.0.1:%d: ", shut), named.Addr(), `"another"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &onLoopback{t: t, secret: test.secret, ttl: loopTTL}
			m := r.join("", func(c *lockmesh.Config) { counted(c); c.Peers = test.peers })
			var text, status string
			defer func() {
				if t.Failed() {
					t.Logf("%s\n%s", text, status)
				}
			}()
			testwait.Until(t, "the error and the status say why", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				text, status = fmt.Sprint(m.Ready(ctx)), m.Status().String()
				return containsAll(text, test.want...) && containsAll(status, test.want...)
			})
		})
	}
}

// A process started before the names have addresses also finds out that other nodes refuse the
// process.
func TestARefusalIsFoundOnceANameHasAnAddress(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	foreign := &onLoopback{t: t, secret: ownSecret(), ttl: loopTTL}
	counted := func(c *lockmesh.Config) { c.Expect = 3 }
	named := foreign.join("named", func(c *lockmesh.Config) { counted(c); c.Mesh = "another" })
	list := filepath.Join(t.TempDir(), "peers")
	m := foreign.join("", func(c *lockmesh.Config) { counted(c); c.Peers = []string{"file:" + list} })
	says := func(claim string, words ...string) {
		t.Helper()
		testwait.Until(t, claim, func() bool { return containsAll(m.Status().String(), words...) })
	}
	says("the file is missing", "file:"+list+": ")
	if err := os.WriteFile(list, []byte(named.Addr()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("the other mesh refuses", named.Addr(), `"another"`)
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
