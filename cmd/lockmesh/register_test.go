//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/registerserver"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Three agents found a mesh that a record outside of the mesh names: in a ConfigMap, and in an
// object. Doctor reads the record, and a node that joins for a moment needs to say no more than
// that there is one.
func TestAgentsWithARegister(t *testing.T) {
	const secret, token = "kQ7vXw2-first-hB9zLm4TgY8s", "the token of the register"
	sampled.Waits(t)
	object := new(registerserver.Object)
	object.SetToken(token)
	for _, c := range []struct {
		name, path string
		storage    http.Handler
	}{
		{"a ConfigMap", "/api/v1/namespaces/" + registerserver.Namespace + "/configmaps/locks", &registerserver.ConfigMaps{Token: token}},
		{"an object", "/bucket/mesh.json", object},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.storage)
			t.Cleanup(server.Close)
			b := newBench(t)
			tokens := filepath.Join(b.dir, "token")
			if err := os.WriteFile(tokens, []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			mesh := []string{"--expect", "3", "--max-ttl", brief, "--register", server.URL + c.path}
			agents := make(map[string]string) // socket by address
			for _, name := range []string{"x", "y", "z"} {
				agents[freeAddress(t)] = filepath.Join(b.dir, name)
			}
			var peers []string
			for address := range agents {
				peers = append(peers, "--peers", address)
			}
			for address, socket := range agents {
				p := b.command(append(append([]string{"agent", "--socket", socket, "--bind", address}, mesh...), peers...)...)
				p.Env = append(p.Env, "LOCKMESH_SECRET="+secret, registerToken+"_FILE="+tokens)
				p.start()
			}
			for _, socket := range agents {
				until(t, "locks are granted", func() bool { return b.command("-a", socket, "status").run() == 0 })
				b.wants(0, "-a", socket, "run", "k", "--", "true")
			}
			diagnose := func(token string, args ...string) []finding {
				p := b.command(append(append([]string{"doctor", "-o", "json"}, mesh...), append(peers, args...)...)...)
				p.Env = append(p.Env, "LOCKMESH_SECRET="+secret, registerToken+"="+token)
				p.run()
				if text := p.out.String() + p.err.String(); token != "" && strings.Contains(text, token) {
					t.Errorf("the token is shown: %s", text)
				}
				return objects[finding](t, p.out.String())
			}
			all := diagnose(token)
			wantFinding(t, all, "register", ok, "has a record of this mesh")
			wantFinding(t, all, "agreement", ok, "no node has another")
			wantFinding(t, all, "ready", ok, "locks can be granted")
			wantFinding(t, diagnose("a guess"), "register", fail, "401")
			wantFinding(t, diagnose(token, "--mesh", "other"), "register", fail, `in use by the mesh "default"`)
			join := []string{"--join", peers[1], "--expect", "3", "--max-ttl", brief, "--timeout", "5s"}
			visit := func(args ...string) (int, string) {
				p := b.command(append(append(join, args...), "run", "k", "--", "true")...)
				p.Env = append(p.Env, "LOCKMESH_SECRET="+secret)
				return p.run(), p.err.String()
			}
			if code, text := visit("--register", "yes"); code != 0 {
				t.Errorf("a node that joins for a moment ends with %d: %s", code, text)
			}
			if code, text := visit(); code != 78 || !strings.Contains(text, "Register is not set") {
				t.Errorf("without --register it ends with %d: %s", code, text)
			}
		})
	}
}
