package vaultlock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/vault/sdk/physical/inmem"

	vaultlock "github.com/lockmesh/lockmesh/contrib/vault"
)

// A nil value is refused at the call with the value, and not at the first lock, in another
// goroutine.
func TestNilIsRefusedAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"mesh":    func() { vaultlock.New(nil, &inmem.InmemBackend{}) },
		"storage": func() { vaultlock.New(nil, nil) },
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
