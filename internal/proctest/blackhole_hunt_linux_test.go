//go:build hunt

package proctest

import (
	"strings"
	"testing"
)

// A mesh forms although the network drops packets of more than 1,100 bytes, from the first packet
// on. Package transport tests the packet sizes without namespaces.
func TestAMeshFormsWhereLongPacketsVanish(t *testing.T) {
	t.Parallel()
	h := newNetwork(t)
	h.longest = 1100
	procs := make(map[string]*process)
	for i, name := range abc {
		procs[name] = h.launch(byte(i+1), name, "-voters", strings.Join(abc, ","), "-peers", addresses(3), "-max-ttl", ttl.String())
	}
	for _, name := range abc {
		procs[name].reached("ready")
		for _, other := range abc {
			procs[name].awaitVoter(other, "reachable")
		}
	}
	var last line
	for _, name := range abc {
		granted := procs[name].lock("k")
		larger(t, granted, last)
		last = granted
		procs[name].tell("unlock k")
		procs[name].awaitEvent("released", "k")
	}
	if most := h.most.Load(); h.lost.Load() != 0 || most < 600 {
		t.Errorf("%d packets were too long, the longest had %d bytes; a short one proves nothing", h.lost.Load(), most)
	}
}
