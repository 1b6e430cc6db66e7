package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const (
	// bindTries is how many ports the system may pick until one is free for UDP as well as TCP.
	// About one port in a few thousand isn't.
	bindTries = 10
	// packetBuffer is the size requested for the UDP socket's receive buffer; a smaller buffer only
	// loses more gossip.
	packetBuffer = 1 << 20
)

// bind opens the TCP and UDP sockets. ctx bounds the look-up of a host name.
func (p *Port) bind(ctx context.Context, address, advertise string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listening: Bind %q: %w: give host:port, for instance 0.0.0.0:7950 or :0", address, err)
	}
	tries := 1
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && n == 0 || port == "" {
		tries = bindTries
	}
	for range tries {
		if err = p.bindBoth(ctx, family(host), address); err == nil {
			break
		}
	}
	if err != nil {
		return bindError(address, err)
	}
	_ = p.udp.SetReadBuffer(packetBuffer)
	bound := p.tcp.Addr().(*net.TCPAddr).AddrPort()
	p.addr = netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port())
	if p.advertise, err = advertised(advertise, p.addr, interfaceAddrs); err != nil {
		_ = p.tcp.Close()
		_ = p.udp.Close()
		return err
	}
	return nil
}

// family returns the suffix of the network to listen on: "4" for an IPv4 host. Without the suffix
// Go listens on both address families for 0.0.0.0.
func family(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return "4"
	}
	return ""
}

func (p *Port) bindBoth(ctx context.Context, family, address string) error {
	cfg := net.ListenConfig{Control: clampBefore}
	// Go requests multipath TCP by default, and most kernels don't allow the segment size of an
	// MPTCP socket to be clamped.
	cfg.SetMultipathTCP(false)
	l, err := cfg.Listen(ctx, "tcp"+family, address)
	if err != nil {
		return err
	}
	tcp := l.(*net.TCPListener)
	at := tcp.Addr().(*net.TCPAddr)
	udp, err := net.ListenUDP("udp"+family, &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err != nil {
		_ = tcp.Close()
		return err
	}
	p.tcp, p.udp = tcp, udp
	return nil
}

// bindError explains how to fix an address that can't be bound.
func bindError(address string, err error) error {
	var errno syscall.Errno
	const wsaAddrInUse = 10048 // Windows' number for EADDRINUSE, missing from package syscall
	if errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "windows" && errors.As(err, &errno) && errno == wsaAddrInUse {
		return fmt.Errorf("listening: Bind %q is taken: stop the process that has the port (TCP or UDP), or bind another; port 0 picks a free one: %w",
			address, err)
	}
	return fmt.Errorf("listening: Bind %q isn't available: give an address of this machine and a "+
		"port that is allowed: %w", address, err)
}

// advertised determines the address for others to dial; see Port.AdvertiseAddr.
func advertised(configured string, bound netip.AddrPort, interfaces func() []netip.Addr) (string, error) {
	number := strconv.Itoa(int(bound.Port()))
	if configured != "" {
		host, port, err := splitAdvertise(configured)
		if err != nil {
			return "", err
		}
		if port == "" || port == "0" {
			port = number
		}
		return net.JoinHostPort(host, port), nil
	}
	addr := bound.Addr()
	if addr.IsUnspecified() {
		addr = reachable(interfaces(), addr.Is4())
	}
	return net.JoinHostPort(addr.String(), number), nil
}

// splitAdvertise parses "host", "host:port", "::1" and "[::1]:port". The port is "" if s has none.
func splitAdvertise(s string) (host, port string, err error) {
	bad := func(reason string) (string, string, error) {
		return "", "", fmt.Errorf("the address to advertise: Advertise %q: %s: give the host or host:port that others can dial", s, reason)
	}
	if _, err := netip.ParseAddr(s); err == nil || !strings.Contains(s, ":") {
		host = s
	} else if host, port, err = net.SplitHostPort(s); err != nil {
		return bad(err.Error())
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return bad("the port is no number from 0 to 65535")
	}
	if host == "" {
		return bad("it has no host")
	}
	if a, err := netip.ParseAddr(host); err == nil && a.IsUnspecified() {
		return bad("no node can dial the unspecified address")
	}
	return host, port, nil
}

// reachable picks the address that other nodes most likely reach.
func reachable(addrs []netip.Addr, only4 bool) netip.Addr {
	best, rank := netip.Addr{}, 0
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if only4 && !a.Is4() {
			continue
		}
		r := 0
		switch {
		case a.IsPrivate():
			r = 3
		case a.IsGlobalUnicast():
			r = 2
		case a.IsLoopback():
			r = 1
		}
		r *= 2
		if r > 0 && a.Is4() {
			r++
		}
		if r > rank {
			best, rank = a, r
		}
	}
	if rank == 0 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return best
}

// interfaceAddrs lists the addresses of the interfaces that are up, in the system's order.
func interfaceAddrs() []netip.Addr {
	var out []netip.Addr
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil // some sandboxes forbid listing interfaces; only loopback remains
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(n.IP); ok {
					out = append(out, addr)
				}
			}
		}
	}
	return out
}
