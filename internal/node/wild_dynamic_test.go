package node

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

var wildChanges = flag.Int("wild.changes", 8, "how many orders TestAnythingWhileTheElectorateChanges draws")

// disk is a node's state directory.
type disk struct {
	state vote.DiskState
	fresh bool // not used by any incarnation yet
	saves []vote.DiskState
}

// dynamicConfig returns the configuration of a starting node: the content of its disk.
func (w *wild) dynamicConfig(name vote.NodeID) *Dynamic {
	d := w.disks[name]
	if d == nil {
		d = &disk{state: vote.DiskState{Mesh: "m", Name: name, Dir: vote.Dir(name[0])}, fresh: true}
		w.disks[name] = d
	}
	d.saves = nil // saves under way are lost
	f := &Dynamic{State: d.state, Fresh: d.fresh, MayFound: true}
	d.fresh = false
	return f
}

// gossip reports all nodes as alive.
func (w *wild) gossip() {
	var all []electorate.Seen
	for _, name := range w.names {
		if d := w.disks[name]; d != nil {
			all = append(all, electorate.Seen{Name: name, Dir: d.state.Dir, State: vote.Alive})
		}
	}
	for _, name := range w.names {
		w.nodes[name].Gossip(w.now, all)
		w.collect(name)
	}
}

// store completes some of the saves under way, once in a while by a failure.
func (w *wild) store() {
	for _, name := range w.names {
		d := w.disks[name]
		if d == nil || len(d.saves) == 0 || w.rng.IntN(4) > 0 {
			continue
		}
		s := d.saves[0]
		d.saves = d.saves[1:]
		reason := ""
		if w.rng.IntN(60) == 0 {
			reason = "no room"
		}
		if reason == "" || w.rng.IntN(2) == 0 { // a failed save may be stored nevertheless
			d.state = s
		}
		w.nodes[name].Saved(w.now, s.Writes, reason)
		w.collect(name)
	}
}

// shuffle has nodes leave the electorate and come back, and links break.
func (w *wild) shuffle(name vote.NodeID) {
	switch w.rng.IntN(30) {
	case 0, 1:
		w.nodes[name].LeaveElectorate(w.now)
		w.collect(name)
	case 2:
		for _, other := range w.names {
			if other != name && w.nodes[other].Quiet() > 0 {
				return
			}
		}
		w.restart(name)
		w.gossip()
	case 3:
		conns := w.open()
		w.cut(conns[w.rng.IntN(len(conns))])
	}
}

func TestAnythingWhileTheElectorateChanges(t *testing.T) {
	sampled.Computes(t)
	most, granted := uint64(0), 0
	for seed := range uint64(*wildChanges) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWild(t, dynamic, seed, 3, 6)
			w.monkey(3**wildSteps, w.anything)
			if t.Failed() {
				return
			}
			w.pass(time.Second)
			w.idle(dynamic.ttl() + 4*time.Second)
			w.quiescent()
			for _, name := range w.names {
				most = max(most, w.nodes[name].Known().Version)
			}
			for _, l := range w.past {
				granted += len(l)
			}
		})
	}
	if !t.Failed() && (most < 4 || granted < 100) {
		t.Errorf("the electorate has come to version %d, and %d leases were granted", most, granted)
	}
	t.Logf("the electorate has come to version %d, and %d leases were granted", most, granted)
}
