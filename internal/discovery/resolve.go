package discovery

import (
	"context"
	"net"
	"net/netip"
	"slices"
)

// resolve returns the addresses of the given peers, looking up their names. report receives the
// result for each name.
func resolve(ctx context.Context, peers []string, report func(peer string, err error)) []string {
	var all []string
	for _, p := range peers {
		host, port, err := net.SplitHostPort(p)
		if err != nil {
			continue // refused by Validate
		}
		if _, err := netip.ParseAddr(host); err == nil {
			all = append(all, p)
			continue
		}
		lookUp, cancel := context.WithTimeout(ctx, probeTimeout)
		ips, err := net.DefaultResolver.LookupNetIP(lookUp, "ip", host)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		report(p, err)
		for _, ip := range ips[:min(len(ips), addrsPerPeer)] {
			all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
