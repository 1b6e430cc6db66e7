//go:build hunt

package proctest

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// network connects processes with a network namespace each. All their packets pass through the
// test's process, which can drop packets. To create a network takes the right to create namespaces,
// which root has.
type network struct {
	t       *testing.T
	longest int // longer packets, headers included, are dropped; 0: no limit

	mu    sync.Mutex
	ports map[byte]*os.File // by the last byte of the address
	cuts  map[way]bool      // packets in these directions are dropped

	lost atomic.Int64 // packets over the limit
	most atomic.Int64 // bytes of the longest packet
}

// way is a direction from node to node, by the last bytes of their addresses.
type way struct{ from, to byte }

// newNetwork returns a network in which all nodes reach each other.
//
// Under the race detector the test's process forwards packets so slowly that leases are lost: then
// the tests are skipped, and the run without the detector has them.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if sampled.Raced {
		t.Skip("packets pass through this process, and the race detector makes it too slow for its leases; CI runs it without as well")
	}
	return &network{t: t, ports: make(map[byte]*os.File), cuts: make(map[way]bool)}
}

// address returns the listen address of a node, by the node's number.
func address(n byte) string { return fmt.Sprintf("10.77.0.%d:7950", n) }

// addresses returns the addresses of the first n nodes, as an argument.
func addresses(n byte) string {
	var all []string
	for i := range n {
		all = append(all, address(i+1))
	}
	return strings.Join(all, ",")
}

// launch starts a locknode in a namespace of its own, at the nth address. The test is skipped where
// its process may not create a namespace.
func (h *network) launch(n byte, name string, args ...string) *process {
	h.t.Helper()
	var (
		p    *process
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		// The thread is never unlocked: with its own network, it ends with the goroutine.
		runtime.LockOSThread()
		if err = h.plug(n); err == nil {
			p = launch(h.t, name, secret, append([]string{"-bind", address(n)}, args...)...)
		}
	}()
	<-done
	if err != nil {
		h.t.Skipf("!!!! SKIPPED: %s is NOT checked, since this process can't have %v", h.t.Name(), err)
	}
	if p == nil {
		h.t.Fatalf("%s isn't started", name)
	}
	h.mu.Lock()
	port := h.ports[n]
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.carry(port)
	}()
	h.t.Cleanup(func() {
		_ = port.Close() // the port may be closed already
		<-ended
	})
	return p
}

// unplug ends the namespace of a dead node, so that the address can be used again.
func (h *network) unplug(n byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.ports[n].Close()
	delete(h.ports, n)
}

// cut drops packets in the given directions.
func (h *network) cut(ways ...way) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range ways {
		h.cuts[w] = true
	}
}

// split drops packets between two groups of nodes.
func (h *network) split(one, other []byte) {
	for _, a := range one {
		for _, b := range other {
			h.cut(way{a, b}, way{b, a})
		}
	}
}

// heal ends all cuts.
func (h *network) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.cuts)
}

// ifreq is the kernel's struct ifreq; see netdevice(7).
type ifreq struct {
	name [syscall.IFNAMSIZ]byte
	data [24]byte
}

func control(fd int, what uintptr, r *ifreq) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), what, uintptr(unsafe.Pointer(r))); errno != 0 {
		return errno
	}
	return nil
}

// plug gives the calling thread a network of its own, with a single interface of MTU 1,500 and the
// address 10.77.0.n. The thread must be locked and never used again; processes started from it
// share the network.
func (h *network) plug(n byte) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace: %w", err)
	}
	const setTun, flagTun, flagNoInfo = 0x400454ca, 0x1, 0x1000 // linux/if_tun.h
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	tun := ifreq{}
	copy(tun.name[:], "tun0")
	binary.NativeEndian.PutUint16(tun.data[:], flagTun|flagNoInfo)
	if err := control(fd, setTun, &tun); err != nil {
		_ = syscall.Close(fd)
		return fmt.Errorf("an interface: %w", err)
	}
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(s) }()
	inet := func(a ...byte) (r ifreq) {
		copy(r.name[:], "tun0")
		binary.NativeEndian.PutUint16(r.data[:], syscall.AF_INET)
		copy(r.data[4:], a)
		return r
	}
	ip, mask, up, lo := inet(10, 77, 0, n), inet(255, 255, 255, 0), ifreq{}, ifreq{}
	copy(up.name[:], "tun0")
	copy(lo.name[:], "lo")
	binary.NativeEndian.PutUint16(up.data[:], syscall.IFF_UP|syscall.IFF_RUNNING)
	lo.data = up.data
	for _, step := range []struct {
		what uintptr
		r    *ifreq
	}{{syscall.SIOCSIFADDR, &ip}, {syscall.SIOCSIFNETMASK, &mask}, {syscall.SIOCSIFFLAGS, &up}, {syscall.SIOCSIFFLAGS, &lo}} {
		if err := control(s, step.what, step.r); err != nil {
			_ = syscall.Close(fd)
			return fmt.Errorf("configuring the interface: %w", err)
		}
	}
	f := os.NewFile(uintptr(fd), "tun0")
	h.mu.Lock()
	h.ports[n] = f
	h.mu.Unlock()
	return nil
}

// carry forwards the packets of a node, unless a packet is cut or too long, until the node's
// interface is closed.
func (h *network) carry(from *os.File) {
	b := make([]byte, 2000)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if n < 20 || b[0]>>4 != 4 {
			continue
		}
		h.most.Store(max(h.most.Load(), int64(n)))
		if h.longest > 0 && n > h.longest {
			h.lost.Add(1)
			continue
		}
		h.mu.Lock()
		to, gone := h.ports[b[19]], h.cuts[way{b[15], b[19]}]
		h.mu.Unlock()
		if to != nil && !gone {
			_, _ = to.Write(b[:n])
		}
	}
}
