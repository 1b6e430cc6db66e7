//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/registerserver"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register/registerflag"
)

// Three agents found a mesh with a register: a record outside of the mesh, in a ConfigMap and in an
// object. Doctor reads the record, and a node that joins for a moment needs no setting of the
// register beyond its use.
func TestAgentsWithARegister(t *testing.T) {
	const secret, token = "kQ7vXw2-first-hB9zLm4TgY8s", "the token of the register"
	sampled.Waits(t)
	t.Parallel()
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
			t.Parallel()
			b := newRoom(t)
			tokens := filepath.Join(b.dir, "token")
			if err := os.WriteFile(tokens, []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			mesh := []string{"--expect", "3", "--max-ttl", brief, "--register", server.URL + c.path}
			agents := make(map[string]string) // socket by address
			for _, name := range []string{"x", "y", "z"} {
				agents[freeport.Address(t)] = filepath.Join(b.dir, name)
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
				grants(t, socket)
				b.wants(0, "-a", socket, "run", "k", "--", "true")
			}
			diagnose := func(token string, args ...string) []finding {
				p := b.command(append(append([]string{"doctor", "-o", "json"}, mesh...), args...)...)
				p.Env = append(p.Env, "LOCKMESH_SECRET="+secret, registerToken+"="+token)
				p.run()
				if text := p.out.String() + p.err.String(); token != "" && strings.Contains(text, token) {
					t.Errorf("the token is shown: %s", text)
				}
				return objects[finding](t, p.out.String())
			}
			all := diagnose(token, peers...)
			wantFinding(t, all, "register", ok, "has a record of this mesh")
			wantFinding(t, all, "agreement", ok, "no node has another")
			wantFinding(t, all, "ready", ok, "locks can be granted")
			// Without peers, doctor's node doesn't join for seconds.
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

// Doctor fails the records that a node refuses, and reports the reason shown in the node's status.
// Each record has another fault.
func TestDoctorRefusesTheRecordsThatANodeRefuses(t *testing.T) {
	t.Parallel()
	const secret = "kQ7vXw2-first-hB9zLm4TgY8s"
	const good = `{"lockmesh_register":1,"mesh":"default","lineage":"8000000000000007","term":"10s","max_ttl":"10s",` +
		`"renewal":5,"writer":"a","writer_identity":"8000000000000009"}`
	server := httptest.NewServer(new(registerserver.Object))
	t.Cleanup(server.Close)
	url := server.URL + "/bucket/mesh.json"
	object, err := registerflag.Parse(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := func(record string) {
		t.Helper()
		_, version, err := object.Load(t.Context())
		if err == nil {
			err = object.Store(t.Context(), []byte(record), version)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b := newRoom(t)
	mesh := []string{"--expect", "2", "--max-ttl", "10s", "--register", url, "--register-term", "10s"}
	agent := b.command(append([]string{"agent", "--socket", b.socket, "--bind", "127.0.0.1:0"}, mesh...)...)
	agent.Env = append(agent.Env, "LOCKMESH_SECRET="+secret)
	agent.start()
	node := newClient(t, b.socket)
	defer node.Close()

	all, _ := b.diagnosis(secret, mesh...)
	wantFinding(t, all, "register", ok, "has no record yet")
	for _, c := range []struct{ name, old, new, reason, advice string }{
		{"a later format", `:1,`, `:7,`, "the register's record has format 7, of a later version of lockmesh; this version knows format 1", "update lockmesh"},
		{
			"a later format with other fields", `:1,"mesh":"default","lineage":"8000000000000007"`, `:8,"mesh":["default"],"lineage":7`,
			"the register's record has format 8, of a later version of lockmesh; this version knows format 1", "update lockmesh",
		},
		{"no format", `"lockmesh_register":1,`, ``, "no format", "another place"},
		{"a damaged lineage", `"8000000000000007"`, `"8000000x"`, `the lineage is "8000000x"`, "another place"},
		{"no term", `"term":"10s",`, ``, `the term is ""`, "another place"},
		{"a maximum TTL that can't be", `"max_ttl":"10s"`, `"max_ttl":"-1s"`, `the max_ttl is "-1s"`, "another place"},
		{"a truncated record", good[100:], ``, "unexpected end of JSON input", "another place"},
		{"another file", good, `<html>`, "invalid character '<'", "another place"},
		{"another mesh", `"default"`, `"orders"`, `in use by the mesh "orders"`, "register of its own"},
	} {
		record := strings.Replace(good, c.old, c.new, 1)
		if record == good {
			t.Fatalf("%s: %q isn't in %s", c.name, c.old, good)
		}
		store(record)
		var trouble string
		testwait.Until(t, "the node's trouble: "+c.reason, func() bool {
			e, err := node.Electorate(t.Context())
			if err != nil {
				return false // the agent isn't up yet
			}
			trouble = e.Trouble
			return strings.Contains(trouble, c.reason)
		})
		all, code := b.diagnosis(secret, mesh...)
		if code != 1 {
			t.Errorf("%s: doctor ends with %d", c.name, code)
		}
		wantFinding(t, all, "register", fail, c.reason)
		wantFinding(t, all, "register", fail, c.advice)
		for _, f := range all {
			if f.Check == "register" && (!strings.Contains(trouble, f.Reason) || !strings.Contains(trouble, f.Fix)) {
				t.Errorf("%s: doctor says %q and %q, the node %q", c.name, f.Reason, f.Fix, trouble)
			}
		}
	}
	store(good)
	all, _ = b.diagnosis(secret, mesh...)
	wantFinding(t, all, "register", ok, "has a record of this mesh")
}
