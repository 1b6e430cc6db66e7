package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/sim/cmd/internal/shown"
)

var update = flag.Bool("update", false, "write anew what docs/performance.md shows of this command")

const (
	performancePage = "../../../docs/performance.md"
	pageBegins      = "<!-- lockmesh-cost -->\n"
	pageEnds        = "<!-- end of lockmesh-cost -->"

	// envPages, if set, has the whole page compared with the command's output, as the hunt does.
	// Otherwise only the part that takes no time is compared.
	envPages = "LOCKMESH_PAGES"

	// drift is how far a figure of the page may be off before the page must be updated.
	drift = 0.1
)

// TestThePerformancePageShowsWhatTheCommandPrints compares docs/performance.md with the command's
// output. To update the page:
// go test ./sim/cmd/lockmesh-cost -run PerformancePage -update
func TestThePerformancePageShowsWhatTheCommandPrints(t *testing.T) {
	text, err := os.ReadFile(performancePage)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, ok := strings.Cut(page, pageBegins)
	shows, after, closed := strings.Cut(rest, pageEnds)
	if !ok || !closed {
		t.Fatalf("the page has nothing between %q and %q", pageBegins, pageEnds)
	}
	prints := func(args ...string) string {
		var out bytes.Buffer
		if err := run(args, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	switch {
	case *update:
		page = before + pageBegins + "\n" + prints() + "\n\n" + pageEnds + after
		if err := os.WriteFile(performancePage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	case os.Getenv(envPages) != "":
		want := prints()
		if why := shown.Differ(shows, want, drift); why != "" {
			t.Errorf("%s\nThe command prints\n%s\nand the page shows\n%s\n-update writes it anew", why, want, shows)
		}
	default:
		if want := prints("-part", "gossip"); !strings.Contains(shows, want) {
			t.Errorf("the command prints\n%s\nwhich the page doesn't show; -update writes it anew", want)
		}
	}
}
