//go:build hunt

package proctest

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/registerserver"
)

// Measures, with the default MaxTTL, how long a birth by count, a replacement, a leave and the loss
// of most voters take.
func TestTheLifeOfABornMesh(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	began := time.Now()
	f.begin("a", "b", "c")
	first := f.serves("a")
	report(t, "the first start to the first lock", time.Since(began), 13*time.Second)
	f.begin("d")
	f.procs["d"].reached("ready")
	began = time.Now()
	f.procs["a"].kill()
	f.procs["d"].awaitElectorate("b", "c", "d")
	report(t, "a killed voter is replaced", time.Since(began), 45*time.Second)
	f.begin("e")
	f.procs["e"].reached("ready")
	began = time.Now()
	f.procs["b"].tell("leave")
	f.procs["b"].exitCode()
	f.procs["d"].awaitElectorate("c", "d", "e")
	report(t, "a voter leaves and is replaced", time.Since(began), 25*time.Second)
	began = time.Now()
	f.procs["c"].kill()
	f.procs["d"].kill()
	f.begin("f", "g")
	f.procs["e"].awaitElectorate("e", "f", "g")
	larger(t, f.serves("f", "e", "g"), first)
	report(t, "most voters are lost, until locks are granted again", time.Since(began), 80*time.Second)
}

// Six processes start at once with a register and form a single mesh. The mesh outlives an outage
// of its register. After all processes are lost, the next processes found another mesh a term
// later.
func TestABornMeshWithARegister(t *testing.T) {
	const maxTTL, term = 2 * time.Second, 15 * time.Second
	o := new(registerserver.Object)
	server := httptest.NewServer(o)
	defer server.Close()
	f := newFleet(t, maxTTL, "-register", server.URL+"/bucket/mesh.json", "-register-term", term.String())
	f.begin("a", "b", "c", "d", "e", "f")
	first := f.serves("a", "b", "c", "d", "e", "f")
	o.SetDown(true)
	f.procs["a"].await("an electorate in trouble", func(l line) bool { return l.Event == "electorate" && l.Text != "" })
	f.procs["a"].await("no voter that counts", func(l line) bool {
		return l.Event == "voters" && l.Voters["b"] != "reachable" && l.Voters["c"] != "reachable"
	})
	f.procs["a"].tell("trylock k")
	f.procs["a"].awaitError("trylock", "noquorum")
	o.SetDown(false)
	larger(t, f.serves("a", "b"), first)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		f.procs[name].kill()
	}
	began := time.Now()
	f.begin("g", "h", "i")
	f.procs["g"].awaitElectorate("g", "h", "i")
	if took := time.Since(began); took < term {
		t.Errorf("another mesh was founded after %v, within the term of the one before", took)
	}
	larger(t, f.serves("g", "h", "i"), first)
	report(t, "all processes are lost, until locks are granted again", time.Since(began), term+maxTTL+5*time.Second)
}

// All processes of a mesh with a ConfigMap as register end at once, in the middle of leases. The
// processes that replace the dead ones wait until the record has stood for a term, and found
// another mesh. No key has two holders.
func TestABornMeshWithAConfigMap(t *testing.T) {
	const maxTTL, term, name = 2 * time.Second, 15 * time.Second, "locks-register"
	maps := new(registerserver.ConfigMaps)
	server := httptest.NewServer(maps)
	defer server.Close()
	ledger := filepath.Join(t.TempDir(), "ledger")
	f := newFleet(t, maxTTL, "-register", server.URL+"/api/v1/namespaces/"+registerserver.Namespace+"/configmaps/"+name, "-register-term", term.String(),
		"-lock", "k", "-hold", "20ms", "-pause", "1ms", "-ledger", ledger)
	lineage := func() string {
		maps.Mu.Lock()
		defer maps.Mu.Unlock()
		var r struct {
			Data struct{ Record string }
		}
		var record struct{ Lineage string }
		text, err := json.Marshal(maps.Objects[name])
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil {
			err = json.Unmarshal([]byte(r.Data.Record), &record)
		}
		if err != nil || record.Lineage == "" {
			t.Fatalf("the ConfigMap is %s, %v", text, err)
		}
		return record.Lineage
	}
	works := func(names ...string) {
		t.Helper()
		for _, name := range names {
			f.procs[name].awaitElectorate(names...)
			for range 20 {
				f.procs[name].awaitEvent("granted", "k")
			}
		}
	}
	f.begin("a", "b", "c")
	works("a", "b", "c")
	held, first := f.procs["b"].lock("held"), lineage()
	for _, name := range abc {
		f.procs[name].kill()
	}
	began := time.Now()
	f.begin("g", "h", "i")
	f.procs["g"].awaitElectorate("g", "h", "i")
	if took := time.Since(began); took < term {
		t.Errorf("another mesh was founded after %v, within the term of the one before", took)
	}
	works("g", "h", "i")
	report(t, "all processes are lost, until locks are granted again", time.Since(began), term+maxTTL+5*time.Second)
	larger(t, f.procs["h"].lock("held"), held)
	// All stop at once: a lease still held may end because the other voters have stopped before.
	f.procs["h"].tell("unlock held")
	f.procs["h"].awaitEvent("released", "held")
	if second := lineage(); second == first {
		t.Errorf("the ConfigMap still names mesh %s", first)
	}
	for _, name := range []string{"g", "h", "i"} {
		f.procs[name].tell("stop")
	}
	for _, name := range []string{"g", "h", "i"} {
		if code := f.procs[name].exitCode(); code != 0 {
			t.Errorf("%s ends with code %d, want 0", name, code)
		}
		f.procs[name].none("lost")
	}
	leases, _ := judgeFile(t, ledger)
	t.Logf("%d leases one after the other", len(leases))
}
