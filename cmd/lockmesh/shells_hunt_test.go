//go:build hunt && linux

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTabInOtherShells: Tab completes verbs, a hostile key and a key with colons in zsh and in
// fish, and no key runs a command.
func TestTabInOtherShells(t *testing.T) {
	for _, sh := range []struct {
		name  string
		args  []string
		setUp string
		code  string // prints the last code plus 1,000
	}{
		{"zsh", []string{"-f", "-i"}, "autoload -U compinit; compinit -u -D; source <(lockmesh completion zsh)", "echo code $(($?+1000))"},
		{"fish", []string{"--no-config", "-i"}, "lockmesh completion fish | source", "echo code (math $status + 1000)"},
	} {
		t.Run(sh.name, func(t *testing.T) {
			if _, err := exec.LookPath(sh.name); err != nil {
				t.Skipf("!!!! SKIPPED: completion in %s is NOT checked: install the package %[1]s", sh.name)
			}
			b := newBench(t)
			b.holdKeys()
			s := b.newScreenOf("dumb", sh.name, sh.args...)
			s.types(sh.setUp + "\n" + sh.code + "\n")
			s.shows("code 1000", 1)
			for i, line := range []string{"insp\tev\t", "inspect job:\t", "inspect job\t"} {
				s.types("lockmesh " + line + "; " + sh.code + "\n")
				s.shows("code 1000", i+2)
			}
			for text, n := range map[string]int{hostileKey + ": ": 1, "job:a:1: ": 2} {
				if got := strings.Count(s.text(), text); got != n {
					t.Errorf("%d times %q, not %d: %q", got, text, n, s.text())
				}
			}
			b.wantsHarmless()
		})
	}
}
