package proctest

import (
	"strings"
	"testing"
)

// Nodes with ports chosen by the system find each other by the address of the first node, without a
// secret on loopback.
func TestPortsThatTheSystemChooses(t *testing.T) {
	t.Parallel()
	args := []string{"-bind", "127.0.0.1:0", "-voters", "a,b,c", "-max-ttl", ttl.String()}
	a := launch(t, "a", "", args...)
	first := a.reached("listening").Addr
	nodes := []*process{a}
	for _, name := range []string{"b", "c", "d"} {
		nodes = append(nodes, launch(t, name, "", append(args, "-peers", first)...))
	}
	addrs := map[string]string{"a": first}
	for _, p := range nodes[1:] {
		addrs[p.name] = p.reached("listening").Addr
	}
	var last line
	for _, p := range nodes {
		if host, port, _ := strings.Cut(addrs[p.name], ":"); host != "127.0.0.1" || port == "0" {
			t.Errorf("%s says that it listens on %s", p.name, addrs[p.name])
		}
		p.reached("ready")
		granted := p.lock("k")
		larger(t, granted, last)
		last = granted
		p.tell("unlock k")
		p.awaitEvent("released", "k")
	}
	for _, name := range []string{"a", "b", "c"} {
		nodes[3].awaitVoter(name, "reachable")
	}
	nodes[3].tell("status")
	for _, member := range nodes[3].awaitEvent("status", "").Status.Members {
		if member.State != "alive" || member.Addr != addrs[member.Name] {
			t.Errorf("d sees %s %s at %s, want alive at %s", member.Name, member.State, member.Addr, addrs[member.Name])
		}
		delete(addrs, member.Name)
	}
	if len(addrs) != 0 {
		t.Errorf("d doesn't see %v", addrs)
	}
}
