package lockmeshhttp_test

import (
	"log"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/lockmeshhttp"
)

// docs/probes.md shows these two functions; TestThePageOfProbesShowsWhatCompiles compares.

func serveProbes(mesh *lockmesh.Mesh) {
	go serve(":8080", lockmeshhttp.New(mesh)) // the orchestrator asks at the pod's address
	// /drain is for a hook that runs in the pod itself.
	go serve("127.0.0.1:8081", lockmeshhttp.New(mesh, lockmeshhttp.AllowDrain()))
}

func serve(addr string, probes http.Handler) {
	log.Printf("the probes at %s: %v", addr, http.ListenAndServe(addr, probes))
}

func Example() {
	var mesh *lockmesh.Mesh // as returned by Join
	serveProbes(mesh)
}

func TestThePageOfProbesShowsWhatCompiles(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	_, shown, _ := strings.Cut(read("../docs/probes.md"), "```go\n")
	shown, _, closed := strings.Cut(shown, "```\n")
	if !closed || !strings.Contains(read("example_test.go"), "\n"+shown) {
		t.Errorf("docs/probes.md shows code that isn't in example_test.go to the letter:\n%s", shown)
	}
}
