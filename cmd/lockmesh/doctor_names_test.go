package main

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lockmesh/lockmesh"
)

// nameServer answers for the names of a test, on loopback. A name without addresses is known, and
// other names aren't.
func nameServer(t *testing.T, names map[string][]netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			addrs, known := names[q.Name.String()]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
			if !known {
				reply.RCode = dnsmessage.RCodeNameError
			}
			for _, a := range addrs {
				if q.Type == dnsmessage.TypeA {
					reply.Answers = append(reply.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: a.As4()},
					})
				}
				if q.Type == dnsmessage.TypeSRV {
					reply.Answers = append(reply.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.SRVResource{Port: 7950, Target: dnsmessage.MustNewName("one.test.")},
					})
				}
			}
			if out, err := reply.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestDoctorOnNames: names that don't exist or have no address, entries without a port, and the
// addresses of a service, with this machine's among them or not.
func TestDoctorOnNames(t *testing.T) {
	one, two, self := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("127.0.0.1")
	resolver := nameServer(t, map[string][]netip.Addr{
		"one.test.": {one}, "service.test.": {one, two}, "own.test.": {one, self}, "empty.test.": nil, "_mesh._tcp.test.": {one, two},
	})
	for _, row := range []struct {
		setting, advertise string
		verdict            verdict
		says               string
		reached            int // the addresses that are tried afterwards
	}{
		{"one.test.:7950", "", ok, "one.test.:7950 has the address 198.51.100.1:7950", 1},
		{"dns:service.test.:7950", "", ok, "has 2 addresses: 198.51.100.1:7950, 198.51.100.2:7950; this machine's isn't among them", 2},
		{"dns:service.test.:7950", "198.51.100.2:7950", ok, "has 2 addresses: 198.51.100.1:7950, 198.51.100.2:7950", 2},
		{"dns:own.test.:7950", "", ok, "has 2 addresses: ", 2},
		{"srv:_mesh._tcp.test.", "", ok, "one.test:7950", 2},
		{"none.test.:7950", "", fail, "none.test.:7950: ", 0},
		{"dns:none.test.:7950", "", fail, "no such host", 0},
		{"dns:empty.test.:7950", "", fail, "dns:empty.test.:7950", 0},
		{"srv:_other._tcp.test.", "", fail, "no such host", 0},
		{"one.test.", "", fail, "missing port", 0},
		{"file:" + filepath.Join(t.TempDir(), "none"), "", fail, "no such file", 0},
	} {
		x := &examination{ctx: t.Context(), tell: func(finding) error { return nil }, resolver: resolver}
		x.cfg.Peers, x.cfg.Advertise = []string{row.setting}, row.advertise
		x.names()
		if len(x.found) != 1 || len(x.peers) != row.reached {
			t.Errorf("%s: %+v, and then %+v are tried", row.setting, x.found, x.peers)
			continue
		}
		f := x.found[0]
		among := strings.Contains(f.Reason, "isn't among them")
		if f.Check != "names" || f.Verdict != row.verdict || !strings.Contains(f.Reason, row.says) || among != strings.Contains(row.says, "isn't among them") {
			t.Errorf("%s: %+v, want %v and %q", row.setting, f, row.verdict, row.says)
		}
		if (f.Verdict == fail) != (f.Fix != "") {
			t.Errorf("%s: the advice is %q", row.setting, f.Fix)
		}
	}
}

// TestDoctorOnADecidedMaxTTL: with dynamic membership a node with another maximum TTL isn't
// refused, and the decided value counts; doctor says so.
func TestDoctorOnADecidedMaxTTL(t *testing.T) {
	mesh, err := lockmesh.Join(t.Context(), lockmesh.Config{Expect: 1, Bind: "127.0.0.1:0", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mesh.Close()
	for _, row := range []struct {
		configured, decided time.Duration
		verdict             verdict
		says                string
	}{
		{0, 10 * time.Second, ok, "no node has another"},
		{10 * time.Second, 10 * time.Second, ok, "no node has another"},
		{10 * time.Second, 0, ok, "no node has another"}, // fixed membership: others refuse the node
		{30 * time.Second, 10 * time.Second, warn, "have decided the maximum TTL 10s, and this node is set to 30s"},
		{0, 30 * time.Second, warn, "have decided the maximum TTL 30s, and this node is set to 10s"},
	} {
		s := mesh.Status()
		s.Members, s.Electorate.MaxTTL = make([]lockmesh.MemberStatus, 3), row.decided
		x := &examination{ctx: t.Context(), tell: func(finding) error { return nil }}
		x.cfg.MaxTTL = row.configured
		x.refusals(mesh, &s)
		wantFinding(t, x.found, "agreement", row.verdict, row.says)
		if len(x.found) != 2 {
			t.Errorf("%+v: %+v", row, x.found)
		}
	}
}
