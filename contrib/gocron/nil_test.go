package gocronlock_test

import (
	"fmt"
	"strings"
	"testing"

	gocronlock "github.com/lockmesh/lockmesh/contrib/gocron"
)

// A nil value is refused at the call with the value, and not at the first lock, in another
// goroutine.
func TestNilIsRefusedAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"elector": func() { gocronlock.NewElector(nil, "k") },
		"locker":  func() { gocronlock.NewLocker(nil) },
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
