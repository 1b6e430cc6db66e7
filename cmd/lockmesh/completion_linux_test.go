package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileKey would run commands if bash read the key unquoted.
const hostileKey = "ev il$(touch pwned)`touch pwned`;touch pwned>pwned'\"\\&|#*"

// holdKeys has a process hold a hostile key and others.
func (b *bench) holdKeys() {
	b.t.Helper()
	p, _ := b.startPiped("lock", "--", hostileKey, "job:a:1", "mail=x@here", "other$x:y", "-dash")
	p.prints("dash")
}

// wantsHarmless fails if the hostile key has run a command.
func (b *bench) wantsHarmless() {
	b.t.Helper()
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); !os.IsNotExist(err) {
		b.t.Errorf("bash has run a part of a key: %v", err)
	}
}

// TestBashQuotesKeys: a completed key is a single word for bash, whatever characters the key has.
func TestBashQuotesKeys(t *testing.T) {
	b := newBench(t)
	b.holdKeys()
	for _, c := range []struct {
		typed  string // behind "lockmesh inspect "
		words  string // the same as bash splits it, in the syntax of an array
		part   string // the part in whose place bash puts the answer
		wanted string // as bash reads the answer
	}{
		{`ev`, `ev`, `ev`, hostileKey},
		{`ev\ il\$`, `'ev\ il\$'`, `ev\ il\$`, hostileKey},
		{`job`, `job`, `job`, `job:a:1`},
		{`job:`, `job :`, ``, `a:1`},
		{`job:a`, `job : a`, `a`, `a:1`},
		{`mail=x@h`, `mail = x @ h`, `@h`, `@here`},
		{`other\$x:`, `'other\$x' :`, ``, `y`},
		{`'job`, `"'job"`, `job`, `job:a:1`},
		{`'job:a`, `"'job:a"`, `job:a`, `job:a:1`},
		{`'oth`, `"'oth"`, `oth`, ``}, // the key would need other quotes there
		{`-da`, `-da`, `-da`, ``},     // would be a flag
	} {
		const before = "lockmesh inspect "
		p := b.shell(fmt.Sprintf(`source <(lockmesh completion bash)
words=(lockmesh inspect %s)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
_lockmesh lockmesh "$2" "${words[COMP_CWORD - 1]}"
eval "answer=(${COMPREPLY[*]})"
printf '%%s\n' "${answer[@]}"`, c.words))
		p.Args = append(p.Args, "bash", before+c.typed, c.part)
		code := p.run()
		if got := strings.TrimSuffix(p.out.String(), "\n"); code != 0 || got != c.wanted || p.err.String() != "" {
			t.Errorf("%s is completed by %q, not %q: code %d, %s", c.typed, got, c.wanted, code, p.err.String())
		}
	}
	b.wantsHarmless()
}

// TestTabInATerminal: Tab completes a hostile key, a key with colons, and the name of a hostile
// file, and none of these runs a command.
func TestTabInATerminal(t *testing.T) {
	b := newBench(t)
	b.holdKeys()
	if err := os.WriteFile(filepath.Join(b.dir, "zz file$(touch pwned)"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.newScreen()
	s.types("source <(lockmesh completion bash)\n")
	for i, line := range []string{"inspect ev\t", "inspect job:\t", "inspect job\t", "run k -- ls zz\t"} {
		s.types("lockmesh " + line + "; echo code $(($?+1000))\n")
		s.shows("code 1000", i+1)
	}
	for text, n := range map[string]int{hostileKey + ": ": 1, "job:a:1: ": 2} {
		if got := strings.Count(s.text(), text); got != n {
			t.Errorf("%d times %q, not %d: %q", got, text, n, s.text())
		}
	}
	b.wantsHarmless()
}
