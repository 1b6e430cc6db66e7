//go:build hunt && linux

package main

import (
	"os/exec"
	"testing"
)

// bothTools begins a script that takes locks by a function: take OPTIONS -- COMMAND. hold runs a
// command with a lock until free is called.
const bothTools = `
take() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  if [ "$TOOL" = flock ]; then flock "${options[@]}" ./file "$@"; else lockmesh run "${options[@]}" key -- "$@"; fi
}
hold() {
  rm -f began end
  mkfifo began end
  take "$@" -- sh -c 'echo >began; read x <end' &
  holder=$!
  read x <began
}
free() { echo >end; wait $holder; }
`

// TestTheSameCodesAsFlock: scripts that call flock(1) print the same with lockmesh run in its
// place, for each option that docs/command.md calls the same.
func TestTheSameCodesAsFlock(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("!!!! SKIPPED: lockmesh run is NOT compared with flock: install the package util-linux")
	}
	b := newBench(t)
	for _, c := range []struct{ name, script, want string }{
		{"the command's code", "take -- true; echo $?; take -- sh -c 'exit 7'; echo $?", "0\n7\n"},
		{"a signal", "take -- sh -c 'kill -TERM $$'; echo $?; take -- sh -c 'kill -KILL $$'; echo $?", "143\n137\n"},
		{"a pipe", "printf 'b\\na\\n' | take -- cat | sort", "a\nb\n"},
		{"-c", `if [ $TOOL = flock ]; then flock ./file -c 'exit 3'; else lockmesh run key -c 'exit 3'; fi; echo $?`, "3\n"},
		{"-n, -E", "hold; take -n -E 9 -- echo wrong; echo $?; free; take -n -E 9 -- echo right; echo $?", "9\nright\n0\n"},
		{"--nonblock, --conflict-exit-code", "hold; take --nonblock --conflict-exit-code 9 -- echo wrong; echo $?; take --nb -E 8 -- echo wrong; echo $?; free", "9\n8\n"},
		{"-w", "hold; take -w 0.1 -E 9 -- echo wrong; echo $?; take --wait 0.1 -E 8 -- echo wrong; echo $?; free; take -w 5 -- echo right", "9\n8\nright\n"},
		{"a wait", "hold; take -w 60 -- echo had & waits=$!; free; wait $waits; echo $?", "had\n0\n"},
		{"-s", "hold -s; take -n -s -- echo reads; echo $?; take -n -E 9 -- echo wrong; echo $?; take -x -n -E 8 -- echo wrong; echo $?; free", "reads\n0\n9\n8\n"},
		{"-x", "hold -x; take -n -E 9 -s -- echo wrong; echo $?; take -n -E 8 --exclusive -- echo wrong; echo $?; free; take --shared -- echo right", "9\n8\nright\n"},
		{"--close", "mkfifo stays; take --close -- sh -c 'read x <stays &'; take -n -E 9 -- echo right; echo $?; echo >stays; rm stays", "right\n0\n"},
	} {
		for _, tool := range []string{"flock", "lockmesh"} {
			p := b.shell(bothTools + c.script)
			p.Env = append(p.Env, "TOOL="+tool)
			if p.run(); p.out.String() != c.want {
				t.Errorf("%s: %s prints %q, want %q; errors %q", c.name, tool, p.out.String(), c.want, p.err.String())
			}
		}
	}
}
