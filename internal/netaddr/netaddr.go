// Package netaddr checks the addresses in a configuration.
package netaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Host returns the host of an address, host:port, or the problem with the address. Only a listening
// address may omit the host or leave the port to the system.
func Host(addr string, listen bool) (host, problem string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		var why *net.AddrError // its text has the address unquoted
		if errors.As(err, &why) {
			return "", fmt.Sprintf("%q is not host:port (%s)", addr, why.Err)
		}
		return "", fmt.Sprintf("%q is not host:port", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return "", fmt.Sprintf("the port of %q is not a number from 0 to 65535", addr)
	case n == 0 && !listen:
		return "", fmt.Sprintf("the port of %q must be known to others; zero is for Bind only", addr)
	case host == "" && !listen:
		return "", fmt.Sprintf("%q has no host; others need one", addr)
	}
	if _, zone, _ := strings.Cut(host, "%"); zone != "" {
		return "", fmt.Sprintf("%q has a zone (%s), and gossip can't dial such an address; use another "+
			"address of that machine", addr, zone)
	}
	return host, ""
}

// AdvertisedHost is like [Host] for an address at which others reach a node, which may lack the
// port.
func AdvertisedHost(addr string) (host, problem string) {
	if _, err := netip.ParseAddr(addr); err == nil || addr != "" && !strings.Contains(addr, ":") {
		host = addr
	} else if host, problem = Host(addr, false); problem != "" {
		return "", problem
	}
	return host, BadDestination(host, addr)
}

// BadDestination returns the reason why no node can dial an address with the given host; empty if
// nodes can.
func BadDestination(host, addr string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return fmt.Sprintf("%q is an address to listen on, not to dial; name an address at which "+
			"the other nodes reach that machine", addr)
	}
	return ""
}

// IsLoopback reports whether a host can be reached from this machine only.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
