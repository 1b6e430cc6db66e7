package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/lockmesh/internal/netaddr"
)

// The kinds of entries, by their prefixes.
const (
	prefixDNS  = "dns:"
	prefixSRV  = "srv:"
	prefixFile = "file:"
)

// kind says how the addresses of an entry are found.
type kind uint8

const (
	kindAddress  kind = iota // the entry is the address
	kindName                 // a host name, of a single node as a rule
	kindDNS                  // a name with an address for each node
	kindSRV                  // a name with a host and a port for each node
	kindFile                 // a file with an entry in each line
	kindDiscover             // the application's function
)

const (
	// nameAddresses is how many addresses of a host name are used: a name with more is
	// misconfigured.
	nameAddresses = 16

	// groupAddresses is how many addresses are used of an entry for many nodes. A few are enough to
	// find all other nodes.
	groupAddresses = 256

	// fileMost is how many bytes of a file are read: far more than the used addresses.
	fileMost = 1 << 20
)

// Resolver looks up names, such as [net.Resolver].
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// source is a parsed entry.
type source struct {
	kind kind
	host string // of an address or a name; the name of kindSRV
	port uint16
	path string // of kindFile
}

// Check returns the problem with an entry; empty if there is none.
func Check(text string) string {
	_, problem := parse(text)
	return problem
}

func parse(text string) (source, string) {
	if path, ok := strings.CutPrefix(text, prefixFile); ok {
		if path == "" || strings.ContainsRune(path, 0) {
			return source{}, fmt.Sprintf("%q names no file; write file:/path, with an address host:port in each line of the file", text)
		}
		return source{kind: kindFile, path: path}, ""
	}
	if name, ok := strings.CutPrefix(text, prefixSRV); ok {
		if name == "" || strings.ContainsAny(name, ": /") {
			return source{}, fmt.Sprintf("%q is not srv:_service._proto.name; a port doesn't belong here, since SRV records have one", text)
		}
		return source{kind: kindSRV, host: name}, ""
	}
	group := kindName
	addr := text
	if rest, ok := strings.CutPrefix(text, prefixDNS); ok {
		group, addr = kindDNS, rest
	}
	host, problem := netaddr.Host(addr, false)
	if problem == "" {
		problem = netaddr.BadDestination(host, addr)
	}
	if problem != "" {
		if group == kindDNS {
			problem += "; write dns:name:port"
		}
		return source{}, problem
	}
	_, port, _ := net.SplitHostPort(addr) // Host has checked it
	n, _ := strconv.ParseUint(port, 10, 16)
	s := source{kind: group, host: host, port: uint16(n)}
	if _, err := netip.ParseAddr(host); err == nil {
		s.kind = kindAddress
	}
	return s, ""
}

// errNoAddress is the error for an entry without an address at the moment.
var errNoAddress = errors.New("it has no address")

// lookUp returns the addresses of a source, without duplicates.
func (s *source) lookUp(ctx context.Context, r Resolver) (addrs []netip.AddrPort, err error) {
	most := groupAddresses
	switch s.kind {
	case kindAddress:
		addr, err := s.addr()
		return []netip.AddrPort{addr}, err
	case kindName:
		most = nameAddresses
		addrs, err = hostAddrs(ctx, r, s.host, s.port)
	case kindDNS:
		addrs, err = hostAddrs(ctx, r, s.host, s.port)
	case kindSRV:
		addrs, err = s.lookUpSRV(ctx, r)
	}
	return found(addrs, err, most)
}

// addr returns the address of kindAddress.
func (s *source) addr() (netip.AddrPort, error) {
	ip, err := netip.ParseAddr(s.host)
	return netip.AddrPortFrom(ip.Unmap(), s.port), err
}

func unique(addrs []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return slices.Compact(addrs)
}

func hostAddrs(ctx context.Context, r Resolver, host string, port uint16) ([]netip.AddrPort, error) {
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), port))
	}
	return addrs, nil
}

// lookUpSRV returns the addresses of all hosts named by SRV records (RFC 2782). Priorities and
// weights have no meaning here, since every node is as good as another.
func (s *source) lookUpSRV(ctx context.Context, r Resolver) (addrs []netip.AddrPort, err error) {
	// Invalid records are left out of the records, and are an error beside the others.
	_, records, err := r.LookupSRV(ctx, "", "", s.host)
	if err != nil && len(records) == 0 {
		return nil, err
	}
	var g group
	for _, rec := range records[:min(len(records), groupAddresses)] {
		if rec.Port != 0 {
			g.add(source{kind: kindDNS, host: rec.Target, port: rec.Port}, "")
		}
	}
	return g.lookUp(ctx, r)
}

// readFile returns the lines of a file. readFile returns late if the file system hangs.
func readFile(path string) (lines []string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; name a file with an address host:port in each line", path)
	case info.Size() > fileMost:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), fileMost)
	}
	text, err := io.ReadAll(io.LimitReader(f, fileMost)) // the file may grow meanwhile
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines, nil
}

// byteOrderMark is what some editors write at the beginning of a file.
const byteOrderMark = "\uFEFF"

// fileGroup returns the parts in the lines of a file: an address or a host name with a port in each
// line. Empty lines, and text after a #, are ignored. err is the error of reading the file.
func fileGroup(lines []string, err error) group {
	g := group{errs: []error{err}}
	for i, line := range lines {
		if g.full() {
			break
		}
		if i == 0 {
			line = strings.TrimPrefix(line, byteOrderMark)
		}
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text != "" {
			g.addText(text, fmt.Sprintf("line %d: ", i+1))
		}
	}
	return g
}

// found returns at most so many of the found addresses, without duplicates. Errors count only if
// there is no address.
func found(addrs []netip.AddrPort, err error, most int) ([]netip.AddrPort, error) {
	addrs = unique(addrs)
	switch {
	case len(addrs) > 0:
		return addrs[:min(len(addrs), most)], nil
	case err != nil:
		return nil, err
	}
	return nil, errNoAddress
}
