package sockettest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// dnsServer is a name server on loopback with answers set by the test.
type dnsServer struct {
	conn net.PacketConn

	mu    sync.Mutex
	srv   map[string][]uint16 // ports of 127.0.0.1, by name
	ips   map[string][]netip.Addr
	lag   time.Duration
	flaps int // how many more answers deny every name: every second answer, until then
	asked int
}

// domain is the domain of the test's names. The trailing dot keeps the resolver from trying other
// domains.
const domain = "mesh.test."

// serveNames starts a name server for the whole process. The caller calls end.
func serveNames() (d *dnsServer, end func(), err error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	d = &dnsServer{conn: conn, srv: make(map[string][]uint16), ips: make(map[string][]netip.Addr)}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.serve()
	}()
	return d, func() {
		_ = conn.Close()
		<-ended
	}, nil
}

func (d *dnsServer) serve() {
	var answers sync.WaitGroup
	defer answers.Wait()
	buf := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		answers.Go(func() { d.answer(&m, from) })
	}
}

func (d *dnsServer) answer(m *dnsmessage.Message, to net.Addr) {
	d.mu.Lock()
	d.asked++
	q, lag := m.Questions[0], d.lag
	name := strings.ToLower(q.Name.String())
	known := len(d.srv[name])+len(d.ips[name]) > 0
	hide := known && d.flaps > 0 && d.asked%2 == 0
	if hide {
		d.flaps--
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	var found bool
	if !hide {
		for _, port := range d.srv[name] {
			found = true
			target := dnsmessage.MustNewName("node." + domain)
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.SRVResource{Port: port, Target: target}})
		}
		for _, ip := range d.ips[name] {
			found = true
			if q.Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
			}
		}
	}
	d.mu.Unlock()
	m.Response, m.RecursionAvailable = true, true
	m.Additionals = nil
	if !found {
		m.RCode = dnsmessage.RCodeNameError
	}
	time.Sleep(lag) // the delay of the network: the test asserts nothing about the delay
	if b, err := m.Pack(); err == nil {
		_, _ = d.conn.WriteTo(b, to)
	}
}

func (d *dnsServer) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func portOf(t *testing.T, m *lockmesh.Mesh) uint16 {
	t.Helper()
	at, err := netip.ParseAddrPort(m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return at.Port()
}

// The names are empty when the nodes start, and are added one by one; the server is slow, and at
// first denies the names in every second answer. Without an end of the denials, a node in step with
// the queries of other nodes might never get an answer.
func TestNodesFindEachOtherByNames(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	d := names
	service := "_mesh._tcp.birth." + domain
	d.set(func() {
		d.lag, d.flaps = 50*time.Millisecond, 9
		d.ips["node."+domain] = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	r := &onLoopback{t: t, secret: ownSecret(), ttl: loopTTL, voters: []string{"a", "b", "c"}}
	for _, name := range r.voters {
		r.join(name, func(c *lockmesh.Config) { c.Peers = []string{"srv:" + service} })
	}
	testwait.Until(t, "an error names the name that has no address", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := r.nodes[0].Ready(ctx)
		return err != nil && strings.Contains(err.Error(), "srv:"+service+": lookup ")
	})
	for _, m := range r.nodes {
		d.set(func() { d.srv[service] = append(d.srv[service], portOf(t, m)) })
	}
	for _, m := range r.nodes {
		r.ready(m)
	}
	d.set(func() { d.lag, d.flaps = 0, 0 })
	d.set(func() { d.ips["all."+domain] = []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	r.ready(r.join("by-address", func(c *lockmesh.Config) {
		c.Peers = []string{fmt.Sprintf("dns:all.%s:%d", domain, portOf(t, r.nodes[0]))}
	}))
	r.ready(r.join("by-function", func(c *lockmesh.Config) {
		b := r.nodes[1].Addr()
		c.Peers, c.Discover = nil, func(context.Context) ([]string, error) { return []string{b}, nil }
	}))
	stranger := r.join("stranger", func(c *lockmesh.Config) { c.Mesh, c.Peers = "another", []string{"srv:" + service} })
	err := stranger.Ready(testwait.Within(t, patience))
	wantIs(t, err, lockmesh.ErrRefused)
	if err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("%v doesn't say that the meshes differ", err)
	}
}
