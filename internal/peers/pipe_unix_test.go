//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The open of a named pipe would wait for a writer, and so would the end of the node.
func TestANamedPipeHoldsNoCallerUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(nil, "file:"+path)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		f.want(t)
	}()
	select {
	case <-looked:
	case <-time.After(10 * time.Second):
		t.Error("the look-up waits for a writer")
		if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_ = w.Close()
		}
		<-looked
	}
	if texts := f.Failing(); len(texts) != 1 || !strings.Contains(texts[0], "no regular file") {
		t.Error(texts)
	}
}
