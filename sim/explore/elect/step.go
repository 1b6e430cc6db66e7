package elect

import "github.com/lockmesh/lockmesh/internal/vote"

// step is a possible step of a world.
type step struct {
	what stepKind
	a, b uint8  // nodes
	n    uint16 // further argument
}

type stepKind uint8

const (
	stepPropose stepKind = iota // a makes proposal n
	// stepAsk: the message at n under way from a to b arrives, on a connection dialed by a.
	stepAsk
	// stepAnswer: the first message from a to b arrives, on a connection dialed by b.
	stepAnswer
	stepTell   // a sends b the decided electorate n
	stepReport // a sends b its report
	stepSaved  // a's save is done
	stepFails  // a's save fails
	stepCrash  // a crashes; with n = 1, its save was done
	stepStart
	stepCut // the connection dialed by a to b breaks, and comes up again
	stepIdle
	stepDrain
	stepWait
)

// steps appends all possible steps of a world.
func (x *explorer) steps(w *world, todo []step) []step {
	for i, p := range x.proposals {
		if n := w.nodes[p.node]; n.local != 0 && w.proposed>>i&1 == 0 && x.locals[n.local].known.Version == firstVersion && x.locals[n.local].ballot.Counter == 0 {
			todo = append(todo, step{stepPropose, uint8(p.node), 0, uint16(i)})
		}
	}
	for i := range x.nodes {
		a, n := uint8(i), &w.nodes[i]
		if n.local == 0 {
			todo = append(todo, step{stepStart, a, 0, 0})
		} else {
			l := &x.locals[n.local]
			if l.saving != 0 {
				todo = append(todo, step{stepSaved, a, 0, 0})
				if w.failures > 0 {
					todo = append(todo, step{stepFails, a, 0, 0})
				}
			}
			if w.crashes > 0 && x.o.may(x.o.Crash, i) {
				todo = append(todo, step{stepCrash, a, 0, 0})
				if l.saving != 0 {
					todo = append(todo, step{stepCrash, a, 0, 1})
				}
			}
			if int(n.idles) < x.o.Idles && l.known.Version < finalVersion && x.o.may(x.o.Idle, i) {
				todo = append(todo, step{stepIdle, a, 0, 0})
			}
		}
		for j := range x.nodes {
			if i != j {
				todo = x.between(w, i, j, todo)
			}
		}
	}
	if w.drains > 0 && w.decided[jointVersion] != 0 {
		todo = append(todo, step{stepDrain, 0, 0, 0})
	}
	if w.waits > 0 && w.decided[jointVersion] != 0 {
		todo = append(todo, step{stepWait, 0, 0, 0})
	}
	return todo
}

// between appends the possible steps from node i to node j.
func (x *explorer) between(w *world, i, j int, todo []step) []step {
	a, b := uint8(i), uint8(j)
	asks, tells := w.asks[i][j], w.tells[i][j]
	if w.cuts > 0 && (asks != "" || w.tells[j][i] != "") {
		todo = append(todo, step{stepCut, a, b, 0})
	}
	if w.nodes[j].local == 0 {
		return todo
	}
	// The first message of each incarnation of a can arrive.
	met := 0
	for at := 0; at < len(asks); at += packet {
		if gen, _ := asks.at(at); met>>gen&1 == 0 {
			met |= 1 << gen
			todo = append(todo, step{stepAsk, a, b, uint16(at)})
		}
	}
	if tells != "" {
		todo = append(todo, step{stepAnswer, a, b, 0})
	}
	from, to := w.nodes[i].local, &x.locals[w.nodes[j].local]
	if from == 0 {
		return todo
	}
	l := &x.locals[from]
	for v := max(to.known.Version, firstVersion) + 1; v <= l.known.Version && !x.o.Mute; v++ {
		todo = append(todo, step{stepTell, a, b, w.decided[v]})
	}
	if to.known.Version == jointVersion && l.known.Version == jointVersion && x.o.hears(j, i) {
		todo = append(todo, step{stepReport, a, b, 0})
	}
	return todo
}

// generation numbers the connections between two nodes; the connections are new whenever either
// node starts.
func generation(w *world, i, j int) uint8 { return w.nodes[i].incarnations + w.nodes[j].incarnations }

// apply executes a step, and returns the violation; empty if there is none. apply returns
// impossible if the step can't happen after all.
func (x *explorer) apply(w *world, s step) (wrong string) {
	i, j := int(s.a), int(s.b)
	n := &w.nodes[i]
	switch s.what {
	case stepPropose:
		w.proposed |= 1 << s.n
		return x.happen(w, i, input{kind: proposes, arg: uint32(s.n)})
	case stepAsk:
		gen, msg := w.asks[i][j].at(int(s.n))
		w.asks[i][j] = w.asks[i][j].without(int(s.n))
		return x.happen(w, j, input{kind: asked, peer: s.a, gen: gen, arg: msg})
	case stepAnswer:
		gen, msg := w.tells[i][j].at(0)
		w.tells[i][j] = w.tells[i][j].without(0)
		return x.happen(w, j, input{kind: answered, peer: s.a, gen: gen, arg: msg})
	case stepTell:
		return x.happen(w, j, input{kind: learns, peer: s.a, gen: generation(w, i, j), arg: uint32(s.n)})
	case stepReport:
		return x.reports(w, i, j)
	case stepSaved:
		x.write(w, i)
		if wrong := x.judgeDisk(w, i); wrong != "" {
			return wrong
		}
		return x.happen(w, i, input{kind: saved})
	case stepFails:
		w.failures--
		return x.happen(w, i, input{kind: fails})
	case stepCrash:
		return x.crash(w, i, s.n == 1)
	case stepStart:
		return x.start(w, i)
	case stepCut:
		w.cuts--
		w.asks[i][j], w.tells[j][i] = "", ""
		return ""
	case stepIdle:
		n.idles++
		return x.happen(w, i, input{kind: idles})
	}
	long := drains
	if s.what == stepWait {
		long = waits
		w.waits--
	} else {
		w.drains--
	}
	for k := range x.nodes {
		if d := &w.nodes[k]; d.joined == 1 {
			d.joined = 2
		}
	}
	for k := range x.nodes {
		if w.nodes[k].local != 0 {
			if wrong := x.happen(w, k, input{kind: long}); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// reports has node i send node j its report, in answer to a poll arriving now.
func (x *explorer) reports(w *world, i, j int) (wrong string) {
	gen := generation(w, i, j)
	out := x.happens(input{local: w.nodes[i].local, kind: polled, peer: uint8(j), gen: gen, arg: x.poll}, i)
	w.nodes[i].local = out.local
	if x.living != nil {
		x.live(i, input{kind: polled, peer: uint8(j), gen: gen, arg: x.poll}, out)
	}
	for _, s := range out.sent {
		if x.messages[s.msg].Kind == vote.KindReport {
			return x.happen(w, j, input{kind: reported, peer: uint8(i), gen: gen, arg: s.msg})
		}
	}
	return "it answers no poll"
}

// write has a node's save reach its disk.
func (x *explorer) write(w *world, i int) {
	n := &w.nodes[i]
	n.before, n.disk = n.disk, x.locals[n.local].saving
	if x.disks[n.disk].Electorate.Version >= jointVersion && n.joined == 0 {
		n.joined = 1
	}
}

// crash ends a node's incarnation. Messages from the node may yet arrive; messages under way to the
// node don't.
func (x *explorer) crash(w *world, i int, saved bool) (wrong string) {
	n := &w.nodes[i]
	w.crashes--
	if saved {
		x.write(w, i)
		wrong = x.judgeDisk(w, i)
	} else if x.o.lossy {
		n.disk = n.before
	}
	n.local = 0
	for j := range x.nodes {
		w.asks[j][i], w.tells[j][i] = "", ""
	}
	return wrong
}

// start begins a node's next incarnation with the contents of its disk. All other live nodes learn
// that the connections to the previous incarnation are gone, and dial the new incarnation, which
// dials them.
func (x *explorer) start(w *world, i int) (wrong string) {
	n := &w.nodes[i]
	n.incarnations++
	begins := input{kind: starts, gen: n.incarnations, arg: n.disk}
	out := x.happens(begins, i)
	if out.wrong != "" {
		return out.wrong
	}
	n.local = out.local
	if x.living != nil {
		x.living[i] = &host{Node: i}
		x.live(i, begins, out)
	}
	for j := range x.nodes {
		if j == i {
			continue
		}
		w.tells[i][j] = ""
		if w.nodes[j].local == 0 {
			continue
		}
		gen := generation(w, i, j)
		if wrong := x.happen(w, i, input{kind: links, peer: uint8(j), gen: gen}); wrong != "" {
			return wrong
		}
		if wrong := x.happen(w, j, input{kind: links, peer: uint8(i), gen: gen}); wrong != "" {
			return wrong
		}
	}
	return ""
}

// happen applies an input to a node, and puts the node's messages on their way.
func (x *explorer) happen(w *world, i int, o input) (wrong string) {
	n := &w.nodes[i]
	o.local = n.local
	out := x.happens(o, i)
	if out.wrong != "" {
		if out.wrong != impossible {
			return string(nodeName(i)) + ": " + out.wrong
		}
		return out.wrong
	}
	n.local = out.local
	if wrong := x.judgeNode(w, i); wrong != "" {
		return wrong
	}
	if x.living != nil {
		x.live(i, o, out)
	}
	for _, s := range out.sent {
		j := int(s.to)
		if w.nodes[j].local == 0 || s.answer && s.gen != generation(w, i, j) {
			continue // there is no receiver
		}
		if wrong := x.judgeWord(w, i, &x.messages[s.msg]); wrong != "" {
			return wrong
		}
		if s.answer {
			w.tells[i][j] = w.tells[i][j].add(s.gen, s.msg)
		} else {
			w.asks[i][j] = w.asks[i][j].add(s.gen, s.msg)
		}
	}
	return ""
}

// tidy removes messages without effect at any time of arrival: answers to a finished ballot,
// answers to a ballot's first phase once the ballot is in its second, and questions about a
// finished election.
func (x *explorer) tidy(w *world) {
	for i := range x.nodes {
		for j := range x.nodes {
			if i == j || w.nodes[j].local == 0 {
				continue
			}
			to := &x.locals[w.nodes[j].local]
			over := func(m *vote.Message) bool {
				e := m.Consensus
				if to.known.Version >= finalVersion {
					return true
				}
				return e.Promised.Counter <= to.number && (m.Version <= to.known.Version || e.Ballot != to.ballot || to.accepting && m.Kind == vote.KindPrepared)
			}
			w.tells[i][j] = x.without(w.tells[i][j], over)
			w.asks[i][j] = x.without(w.asks[i][j], func(m *vote.Message) bool {
				return m.Version <= to.known.Version && (m.Consensus.Ballot.Counter <= to.number || to.known.Version >= finalVersion)
			})
		}
	}
}

func (x *explorer) without(l lane, over func(m *vote.Message) bool) lane {
	for at := 0; at < len(l); {
		if _, msg := l.at(at); over(&x.messages[msg]) {
			l = l.without(at)
		} else {
			at += packet
		}
	}
	return l
}
