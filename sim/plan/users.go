package plan

import "time"

// think has a client of a process wait, ask for a key, hold it, give it back, and so on for ever.
func (x *world) think(l *life) {
	n := l.node
	x.w.AtNode(n.name, x.exp(n.users, x.s.Load.Think), func() {
		k := x.load[n.users.IntN(len(x.load))]
		again := func() { x.think(l) }
		var i *wish
		i = x.lock(l, k, func() {
			x.w.AtNode(n.name, x.exp(n.users, x.s.Load.Hold), func() {
				if i.held {
					x.release(i)
					x.think(l)
				}
			})
		}, again)
	})
}

// stand has a process ask for a post, hold it for a while, hand it over, and ask again.
func (x *world) stand(l *life, k *key) {
	n := l.node
	var i *wish
	again := func() { x.w.AtNode(n.name, againAfter, func() { x.stand(l, k) }) }
	i = x.lock(l, k, func() {
		x.w.AtNode(n.name, x.exp(n.users, x.s.Posts.Hold), func() {
			if i.held {
				x.release(i)
				x.stand(l, k)
			}
		})
	}, again)
}

// standWithin is about how soon a new process stands for its posts.
const standWithin = Duration(100 * time.Millisecond)

// againAfter is how soon somebody who has lost a post asks for it again.
const againAfter = time.Millisecond

// probing has a node's prober ask for a free lock every now and then.
func (x *world) probing(n *nodeState) {
	if !n.locks {
		return
	}
	every := time.Duration(x.s.Probe.Every)
	var next func()
	next = func() {
		x.w.At(every, next)
		x.probe(n)
	}
	x.w.At(time.Duration(n.users.Int64N(int64(every))), next)
}

// probe asks once. Who is dead or stopped doesn't ask; when the process dies meanwhile the probe says nothing.
func (x *world) probe(n *nodeState) {
	l := n.life
	if l == nil || x.w.Stopped(n.name) {
		return
	}
	var i *wish
	over, asked := false, x.w.Now()
	i = x.lock(l, l.probes, func() {
		if !over {
			x.probed(n.i, x.w.Now()-asked)
		}
		over = true
		x.w.AtNode(n.name, 0, func() { x.release(i) })
	}, nil)
	x.w.At(time.Duration(x.s.Probe.Within), func() {
		if over || n.life != l {
			return
		}
		over = true
		x.probed(n.i, -1)
		x.w.AtNode(n.name, 0, func() {
			if !i.held { // else its giving back is under way
				x.release(i)
			}
		})
	})
}

// majority looks now and then whether anybody reaches a majority.
func (x *world) majority() {
	x.w.At(time.Duration(x.s.Probe.Every), func() {
		x.looks++
		for _, n := range x.nodes {
			if x.w.ReachesMajority(n.name) {
				x.majorities++
				break
			}
		}
		x.majority()
	})
}
