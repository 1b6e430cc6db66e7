//go:build hunt

package pagetest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "make the pictures of docs/admin.md anew")

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	closeBrowser()
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}
