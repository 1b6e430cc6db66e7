package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// leastPacket is the length of the longest packet that a node sends by UDP, with the headers of UDP
// and IPv6: see docs/network.md.
const leastPacket = 1096

// names looks up the peers.
func (x *examination) names() {
	if len(x.cfg.Peers) == 0 && x.cfg.Expect != 1 {
		x.add("names", warn, "name some nodes with --peers", "no peers are named, so this node waits to be found")
	}
	for _, setting := range x.cfg.Peers {
		addresses, err := x.lookUp(setting)
		switch {
		case x.ctx.Err() != nil:
			return
		case err != nil:
			x.add("names", fail, "correct the entry, or the name server's", "%s: %v", setting, err)
			continue
		case len(addresses) == 0:
			x.add("names", fail, "start the other nodes, or correct the entry", "%s has no address", setting)
			continue
		}
		for _, a := range addresses {
			x.peers = append(x.peers, peer{setting: setting, address: a})
		}
		text := fmt.Sprintf("%s has %s: %s", setting, fmt.Sprintf("%d addresses", len(addresses)), shortList(addresses))
		if len(addresses) == 1 {
			text = fmt.Sprintf("%s has the address %s", setting, addresses[0])
		}
		if strings.HasPrefix(setting, "dns:") && !x.hasSelf(addresses) {
			text += "; this machine's isn't among them, as it would be for a running node of the same service"
		}
		x.add("names", ok, "", "%s", text)
	}
}

// longestList is how many items of a list are shown.
const longestList = 8

func shortList(all []string) string {
	if len(all) > longestList {
		return strings.Join(all[:longestList], ", ") + fmt.Sprintf(" and %d more", len(all)-longestList)
	}
	return strings.Join(all, ", ")
}

// lookUp returns the addresses of an entry of Peers.
func (x *examination) lookUp(setting string) ([]string, error) {
	ctx, cancel := context.WithTimeout(x.ctx, dialTime)
	defer cancel()
	kind, rest, _ := strings.Cut(setting, ":")
	switch kind {
	case "file":
		return peersOfFile(rest)
	case "srv":
		_, all, err := x.resolver.LookupSRV(ctx, "", "", rest)
		if err != nil {
			return nil, err
		}
		var addresses []string
		for _, r := range all {
			addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		return addresses, nil
	case "dns":
		setting = rest
	}
	host, port, err := net.SplitHostPort(setting)
	if err != nil {
		return nil, err
	}
	ips, err := x.resolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, port)
	}
	return ips, nil
}

// peersOfFile returns the addresses in a file, a line each.
func peersOfFile(path string) (addresses []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			addresses = append(addresses, line)
		}
	}
	return addresses, nil
}

// hasSelf reports whether an address is this machine's.
func (x *examination) hasSelf(addresses []string) bool {
	own := map[string]bool{x.cfg.Advertise: true}
	if host, _, err := net.SplitHostPort(x.cfg.Advertise); err == nil {
		own[host] = true
	}
	all, _ := net.InterfaceAddrs() // without addresses nothing is this machine's
	for _, a := range all {
		if n, is := a.(*net.IPNet); is {
			own[n.IP.String()] = true
		}
	}
	for _, a := range addresses {
		if host, _, err := net.SplitHostPort(a); err == nil && own[host] {
			return true
		}
	}
	return false
}

// tcp connects to each peer.
func (x *examination) tcp() {
	for rest := x.peers; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(p peer) bool { return p.setting != rest[0].setting })
		if n < 0 {
			n = len(rest)
		}
		x.connect(rest[:n])
		rest = rest[n:]
	}
}

// connect connects to the addresses of one entry of Peers. A host name is a single node, and nodes
// try all its addresses: one that leads to the node is enough.
func (x *examination) connect(entry []peer) {
	errs := make([]error, len(entry))
	reached := false
	for i := range entry {
		d := net.Dialer{Timeout: dialTime}
		conn, err := d.DialContext(x.ctx, "tcp", entry[i].address)
		if x.ctx.Err() != nil {
			return
		}
		if err == nil {
			entry[i].reached, reached = true, true
			_ = conn.Close()
		}
		errs[i] = err
	}
	oneNode := !slices.ContainsFunc([]string{"dns:", "srv:", "file:"}, func(p string) bool { return strings.HasPrefix(entry[0].setting, p) })
	for i, err := range errs {
		at := entry[i].address
		switch {
		case err == nil:
			x.add("tcp", ok, "", "%s accepts connections", at)
		case oneNode && reached:
			x.add("tcp", warn, "have the node listen there, too, or remove the address from the name",
				"%s can't be reached, and another address of %s can: %v", at, entry[i].setting, err)
		case errors.Is(err, syscall.ECONNREFUSED):
			x.add("tcp", fail, "start the node there, or correct the port, or have the firewall let TCP and UDP through",
				"%s refuses connections: no process listens there, or a firewall refuses", at)
		default:
			x.add("tcp", fail, "have the firewalls between let TCP and UDP through to that port",
				"%s can't be reached: %v", at, err)
		}
	}
}

// packets examines how long packets on the way to a peer may be.
func (x *examination) packets() {
	for _, p := range x.peers {
		if !p.reached {
			continue
		}
		n, known := pathMTU(p.address)
		switch {
		case !known:
		case n < leastPacket:
			x.add("packets", fail, fmt.Sprintf("raise the MTU of the interface or tunnel to %d bytes or more", leastPacket),
				"packets to %s may have %d bytes, and gossip sends up to %d", p.address, n, leastPacket)
		default:
			x.add("packets", ok, "", "packets to %s may have %d bytes, and %d are enough", p.address, n, leastPacket)
		}
	}
}
