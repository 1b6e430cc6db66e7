package certmagiclock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"

	certmagiclock "github.com/lockmesh/lockmesh/contrib/certmagic"
)

// A nil value is refused at the call with the value, and not at the first lock, in another
// goroutine.
func TestNilIsRefusedAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"mesh":    func() { certmagiclock.Wrap(&certmagic.FileStorage{}, nil) },
		"storage": func() { certmagiclock.Wrap(nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "nil") || strings.Contains(text, "invalid memory") {
					t.Errorf("it panics with %q", text)
				}
			}()
			f()
		})
	}
}
