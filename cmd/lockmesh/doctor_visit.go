package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

const (
	// visitTime is how long a doctor's node is in the mesh at most: gossip and the first contacts
	// with voters take two seconds, and a difference of clocks shows soon after.
	visitTime = 6 * time.Second

	// visitPause is the pause between two looks.
	visitPause = 100 * time.Millisecond

	// settledLooks is how many looks in a row have to show the same before the visit ends early.
	settledLooks = 20

	// farClock is a difference of wall clocks that is worth a warning. Locks don't depend on wall
	// clocks; tokens after a loss of all voters, times in logs and certificates do.
	farClock = time.Second
)

// visit joins the mesh for a moment, and prints the others' verdict on the settings.
func (x *examination) visit() {
	switch {
	case x.cfg.Expect == 1:
		x.add("join", ok, "", "a mesh of one process has no others to join")
		return
	case x.failed("settings"):
		x.add("join", skip, "", "the settings can't be used")
		return
	case !slices.ContainsFunc(x.peers, func(p peer) bool { return p.reached }):
		x.add("join", skip, "", "no peer can be reached by TCP")
		return
	}
	mesh, leave, err := x.join()
	if err != nil {
		x.add("join", fail, "do as the text says", "%s", describe(err))
		return
	}
	defer leave()
	status := x.look(mesh)
	if x.ctx.Err() != nil {
		return
	}
	x.refusals(mesh, &status)
	x.gossip(mesh, &status)
	x.voters(&status)
}

// join starts a node without a vote, with the settings of this machine's agent.
func (x *examination) join() (*lockmesh.Mesh, func(), error) {
	cfg := x.cfg
	cfg.Name, cfg.NonVoting, cfg.Bootstrap = passingName(visitor, visitorLen), true, false
	var addresses []string
	for _, p := range x.peers {
		addresses = append(addresses, p.address)
	}
	cfg.Bind, cfg.Advertise, cfg.Peers = anyPort(addresses), "", addresses[:min(len(addresses), lockmesh.MaxPeers)]
	cfg.Voters = slices.Clone(cfg.Voters)
	cleanup := func() {}
	if cfg.StateDir != "" {
		// The agent's own directory is for the agent; a node without a vote promises nothing.
		dir, err := os.MkdirTemp("", "lockmesh-doctor-")
		if err != nil {
			return nil, nil, err
		}
		cfg.StateDir, cleanup = dir, func() { _ = os.RemoveAll(dir) }
	}
	mesh, err := lockmesh.Join(x.ctx, cfg)
	if err != nil {
		cleanup()
		return nil, nil, err
	}
	return mesh, func() {
		sayGoodbye(mesh)
		cleanup()
	}, nil
}

// look waits until the node's view of the mesh stays the same.
func (x *examination) look(mesh *lockmesh.Mesh) (s lockmesh.Status) {
	end := time.Now().Add(visitTime)
	seen, same := "", 0
	for time.Now().Before(end) && same < settledLooks && x.ctx.Err() == nil {
		time.Sleep(visitPause)
		s = mesh.Status()
		view := fmt.Sprint(len(s.Members), s.Electorate.Ready, len(s.Electorate.Voters), len(s.Refused))
		isRefused := func(v lockmesh.VoterStatus) bool { return v.State == lockmesh.VoterRefused }
		refused := len(s.Refused) > 0 || slices.ContainsFunc(s.Electorate.Voters, isRefused) || mesh.Stats().Refusals["secret"] > 0
		if view == seen && (s.Electorate.Ready || refused) {
			same++
		} else {
			seen, same = view, 0
		}
	}
	return s
}

// refusals reports the settings that differ from the settings of other nodes.
func (x *examination) refusals(mesh *lockmesh.Mesh, s *lockmesh.Status) {
	n := mesh.Stats().Refusals["secret"]
	if n > 0 {
		x.add("secret", fail, "give all nodes the same secret (LOCKMESH_SECRET or LOCKMESH_SECRET_FILE)",
			"%s ended since the secrets differ", count(int(n), "handshake")) //nolint:gosec // small
	} else if len(s.Members) > 1 {
		x.add("secret", ok, "", "other nodes accept the secret")
	}
	refused := len(s.Refused) > 0
	for _, v := range s.Electorate.Voters {
		if v.State != lockmesh.VoterRefused {
			continue
		}
		refused = true
		if n == 0 || !strings.Contains(v.Text, "secret") { // otherwise reported above
			x.add("agreement", fail, "give both nodes the same value, and start the wrong one again", "%s", v.Text)
		}
	}
	for _, r := range s.Refused {
		x.add("agreement", fail, "give both nodes the same value, and start the wrong one again",
			"%s at %s has other settings: %s", r.Name, r.Addr, r.Reason)
	}
	mine := cmp.Or(x.cfg.MaxTTL, lockmesh.DefaultMaxTTL)
	if decided := s.Electorate.MaxTTL; !refused && decided != 0 && decided != mine {
		x.add("agreement", warn, "give all nodes the same --max-ttl; docs/changing-maxttl.md has the steps of a change",
			"the voters have decided the maximum TTL %v, and this node is set to %v: the decided value counts", decided, mine)
		return
	}
	if !refused && len(s.Members) > 1 {
		x.add("agreement", ok, "", "no node has another mesh name, maximum TTL, list of voters or version")
	}
}

// gossip reports the known nodes, and whether packets reach the nodes and come back.
func (x *examination) gossip(mesh *lockmesh.Mesh, s *lockmesh.Status) {
	if len(s.Members) < 2 {
		x.add("join", fail, "look at the findings above; if they are all ok, look into the log of a peer",
			"no other node has let this one in within %v", visitTime)
		return
	}
	x.add("join", ok, "", "gossip knows %s besides this one", count(len(s.Members)-1, "node"))
	for _, m := range s.Members {
		if m.Name == mesh.Name() || strings.HasPrefix(m.Name, visitor) {
			continue
		}
		if m.State != "alive" {
			if m.State == "failed" {
				x.add("udp", warn, "start the node again, or wait until gossip forgets it", "%s at %s has failed", m.Name, m.Addr)
			}
			continue
		}
		ctx, cancel := context.WithTimeout(x.ctx, dialTime)
		d, err := mesh.Ping(ctx, m.Name)
		cancel()
		if err != nil {
			x.add("udp", fail, "have the firewalls between let UDP through to that port, and the answers back",
				"%s at %s answers no packet by UDP: %v", m.Name, m.Addr, errors.Unwrap(err))
			continue
		}
		x.add("udp", ok, "", "%s at %s answers by UDP in %v", m.Name, m.Addr, d.Round(10*time.Microsecond))
	}
}

// voters reports whether locks can be granted, and the faults of voters.
func (x *examination) voters(s *lockmesh.Status) {
	e := &s.Electorate
	for _, v := range e.Voters {
		name := v.Name
		switch {
		case v.Quiet > 0:
			x.add("voters", warn, fmt.Sprintf("wait for %v", v.Quiet.Round(time.Second)),
				"%s has started recently, and its votes don't count yet", name)
		case v.State != lockmesh.VoterReachable && v.State != lockmesh.VoterRefused:
			x.add("voters", warn, "start the voter, or look at what is between", "%s is %s: %s", name, v.State, v.Text)
		}
		if v.Drift != "" {
			x.add("clocks", fail, "mend the clock of that machine or of this one: stop what slews them (a VM's tools and NTP at once)",
				"%s: %s", name, v.Drift)
		}
		if d := v.ClockOffset.Abs(); d > farClock {
			x.add("clocks", warn, "run NTP on both machines", "the clock of %s is %v away from this one's", name, d.Round(100*time.Millisecond))
		}
	}
	switch {
	case e.Lost != "":
		x.add("ready", fail, "lockmesh recover -h", "%s", e.Lost)
	case len(e.Voters) == 0:
		x.add("ready", fail, "start the other nodes; with --state-dir and --voters the founders need --bootstrap at their first start",
			"no lock can be granted: no voters are known yet")
	case !e.Ready:
		x.add("ready", fail, "look at the findings above", "no lock can be granted: %s, and %d are needed",
			plain.Counting(e.Counting, len(e.Voters)), e.Majority)
	case e.Spare == 0 && len(e.Voters) > 1:
		x.add("ready", warn, "start the missing voters", "locks can be granted, and not if one more voter fails")
	default:
		x.add("ready", ok, "", "locks can be granted; %s may fail", count(e.Spare, "voter"))
	}
	if n := len(e.Voters); e.Dynamic && n > 1 && n%2 == 0 {
		x.add("majority", warn, "add a node, or wait until one on standby is voted in",
			"the electorate has %d voters, and tolerates no more failures than %d would", n, n-1)
	}
}
