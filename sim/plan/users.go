package plan

import "time"

// think makes a client of a process wait, request a key, hold and release the key, again and again.
func (x *world) think(l *process) {
	n := l.node
	x.w.AtNode(n.name, x.exp(n.users, x.s.Load.Think), func() {
		k := x.load[n.users.IntN(len(x.load))]
		again := func() { x.think(l) }
		var i *request
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

// stand makes a process request a post, hold the post for a while, hand the post over, and request
// it again.
func (x *world) stand(l *process, k *key) {
	n := l.node
	var i *request
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

// standWithin is about how soon a new process competes for its posts.
const standWithin = Duration(100 * time.Millisecond)

// againAfter is how soon a process that has lost a post requests the post again.
const againAfter = time.Millisecond

// probing makes a node's prober request a free lock at regular intervals.
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

// probe makes one request. A crashed or stopped process makes none; if the process crashes
// meanwhile, the probe isn't counted.
func (x *world) probe(n *nodeState) {
	l := n.process
	if l == nil || x.w.Stopped(n.name) {
		return
	}
	var i *request
	over, asked := false, x.w.Now()
	i = x.lock(l, l.probes, func() {
		if !over {
			x.probed(n.i, x.w.Now()-asked)
		}
		over = true
		x.w.AtNode(n.name, 0, func() { x.release(i) })
	}, nil)
	x.w.At(time.Duration(x.s.Probe.Within), func() {
		if over || n.process != l {
			return
		}
		over = true
		x.probed(n.i, -1)
		x.w.AtNode(n.name, 0, func() {
			if !i.held { // otherwise the release is under way
				x.release(i)
			}
		})
	})
}

// majority checks at regular intervals whether any node reaches a majority.
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
