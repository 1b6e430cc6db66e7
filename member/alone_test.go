package member

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// A name with an address for each node includes the node's own address. While the node knows no
// other node, the name is looked up every few seconds, so that the first other address is found at
// once.
func TestANodeThatIsAloneLooksItsPeerUpEveryFewSeconds(t *testing.T) {
	sampled.Computes(t)
	const dead = 9
	for claim, first := range map[string][]netip.AddrPort{
		"its own address":            {at(2)},
		"its own and a dead address": {at(2), at(dead)},
		"only a dead address":        {at(dead)},
		"no address":                 nil,
	} {
		t.Run(claim, func(t *testing.T) {
			inLab(t, func(l *lab) {
				var more atomic.Bool
				var lookUps atomic.Int32
				l.start("a", 1, addr(1), func(c *Config) { c.Peers = nil })
				b := l.start("b", 2, addr(2), func(c *Config) {
					c.Peers = []Peer{{Text: "all.example", Changes: true, LookUp: func(context.Context) ([]netip.AddrPort, error) {
						lookUps.Add(1)
						switch {
						case more.Load():
							return append([]netip.AddrPort{at(1)}, first...), nil
						case len(first) == 0:
							return nil, context.DeadlineExceeded
						}
						return first, nil
					}}}
				})
				time.Sleep(time.Minute)
				if n := lookUps.Load(); n < 25 || n > 70 {
					l.t.Errorf("%d look-ups in a minute", n)
				}
				more.Store(true)
				took := l.within(time.Minute, "b sees a", func() bool { return b.sees("a", "b") })
				if took > 3*time.Second {
					l.t.Errorf("it took %v", took)
				}
				before := lookUps.Load()
				time.Sleep(10 * time.Minute)
				if n := lookUps.Load() - before; n > 40 && claim != "only a dead address" {
					l.t.Errorf("%d look-ups in ten minutes with another node", n)
				}
			})
		})
	}
}

// A node with a pause of half a minute, since another node was known, looks again soon after the
// other node is gone.
func TestANodeThatIsLeftAloneLooksItsPeerUpSoon(t *testing.T) {
	inLab(t, func(l *lab) {
		var next atomic.Bool
		a := l.start("a", 1, addr(1), func(c *Config) { c.Peers = nil })
		b := l.start("b", 2, addr(2), func(c *Config) {
			c.Peers = []Peer{{Text: "all.example", Changes: true, LookUp: func(context.Context) ([]netip.AddrPort, error) {
				if next.Load() {
					return []netip.AddrPort{at(2), at(3)}, nil
				}
				return []netip.AddrPort{at(1), at(2), at(9)}, nil
			}}}
		})
		l.within(5*time.Second, "b sees a", func() bool { return b.sees("a", "b") })
		time.Sleep(5 * time.Minute)
		l.start("c", 3, addr(3), func(c *Config) { c.Peers = nil })
		next.Store(true)
		if err := a.Leave(l.t.Context()); err != nil {
			l.t.Error(err)
		}
		l.within(10*time.Second, "b has noticed", func() bool { return !b.sees("a", "b") })
		l.within(3*time.Second, "b sees c", func() bool { return b.sees("b", "c") })
	})
}

// Peers with a slow look-up hold up no other peer.
func TestSlowLookUpsAreMadeAtTheSameTime(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.start("a", 1, addr(1), func(c *Config) { c.Peers = nil })
		var running, most atomic.Int32
		b := l.start("b", 2, addr(2), func(c *Config) {
			c.Peers = nil
			for range 2 * lookUpsAtOnce {
				c.Peers = append(c.Peers, Peer{Text: "silent.example", Changes: true, LookUp: func(ctx context.Context) ([]netip.AddrPort, error) {
					n := running.Add(1)
					defer running.Add(-1)
					for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
					}
					ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				}})
			}
			c.Peers = append(peersAt(addr(1)), c.Peers...)
		})
		l.within(time.Second, "b and a know each other", func() bool { return b.sees("a", "b") && a.sees("a", "b") })
		time.Sleep(time.Minute)
		if n := most.Load(); n != lookUpsAtOnce {
			l.t.Errorf("%d look-ups at once", n)
		}
		if err := a.Close(); err != nil {
			l.t.Error(err)
		}
		l.within(time.Minute, "b has noticed", func() bool { return b.sees("b") })
		a = l.start("a", 11, addr(1), func(c *Config) { c.Peers = nil })
		l.within(15*time.Second, "they know each other again", func() bool { return b.sees("a", "b") && a.sees("a", "b") })
		began := time.Now()
		if err := b.Close(); err != nil {
			l.t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			l.t.Errorf("Close took %v", took)
		}
	})
}

// Of several slow peers, the last is tried at the same time as the first.
func TestTheLastPeerDoesNotWaitForTheOthers(t *testing.T) {
	inLab(t, func(l *lab) {
		l.start("a", 1, addr(1), func(c *Config) { c.Peers = nil })
		b := l.start("b", 2, addr(2), func(c *Config) {
			silent := Peer{Text: "silent.example", LookUp: func(ctx context.Context) ([]netip.AddrPort, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			c.Peers = append([]Peer{silent, silent, silent}, peersAt(addr(1))...)
		})
		l.within(time.Second, "b sees a", func() bool { return b.sees("a", "b") })
	})
}

func at(n int) netip.AddrPort { return netip.MustParseAddrPort(addr(n)) }

// Silent addresses, of a name that still lists ended processes or of a list of peers, delay the
// join of the others by the time of one dial at most.
func TestSilentAddressesDelayNoOther(t *testing.T) {
	const silent = connectsAtOnce - 1
	for claim, peers := range map[string]func([]netip.AddrPort) []Peer{
		"addresses of one name": func(all []netip.AddrPort) []Peer {
			return []Peer{{Text: "all.example", Changes: true, LookUp: func(context.Context) ([]netip.AddrPort, error) { return all, nil }}}
		},
		"a list of addresses": func(all []netip.AddrPort) (peers []Peer) {
			for _, a := range all {
				peers = append(peers, peersAt(a.String())...)
			}
			return peers
		},
	} {
		t.Run(claim, func(t *testing.T) {
			inLab(t, func(l *lab) {
				lost := make(map[string]bool)
				all := []netip.AddrPort{}
				for n := range silent {
					all = append(all, at(100+n))
					lost[addr(100+n)] = true
				}
				l.net.partition(func(_, to string) bool { return lost[to] })
				all = append(all, at(2), at(1))
				l.start("a", 1, addr(1), func(c *Config) { c.Peers = nil })
				b := l.start("b", 2, addr(2), func(c *Config) { c.Peers = peers(all) })
				l.within(time.Second, "b sees a", func() bool { return b.sees("a", "b") })
				time.Sleep(10 * time.Second)
				if lines := b.log.lines("gossip has reported a problem"); len(lines) > 0 {
					t.Errorf("the log says %q", lines)
				}
			})
		})
	}
}
