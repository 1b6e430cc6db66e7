package explore

import "github.com/lockmesh/lockmesh/internal/vote"

type stepKind uint8

const (
	stepDeliver    stepKind = iota // the first message of a lane arrives
	stepLate                       // an urgent lane runs late from here on
	stepAsk                        // a restarted voter's question arrives
	stepAskLate                    // or runs late
	stepAnswer                     // the answer to the question arrives
	stepAnswerLate                 // or runs late
	stepLock                       // a client requests the key
	stepTry                        // or tries to lock the key
	stepRelease                    // a client releases its lease, or gives a request up
	stepUpgrade                    // a client with a shared lease requests an exclusive lease
	stepShare                      // a client makes its exclusive lease a shared lease
	stepBreak                      // a connection breaks, and one side knows at once
	// stepNotice: the other side knows, and messages under way to this side are lost.
	stepNotice
	stepNoticeLate // or knows late
	stepLink       // a client's connection to a voter comes up
	stepLinkLate   // or comes up late
	stepCrash      // a node crashes
	stepStart      // and starts again
	stepTick       // time passes
	stepCalm       // no more faults occur
)

// Step is one possible next step. The meaning of the fields depends on the kind.
type Step struct {
	kind stepKind
	// a client (stepAsk, stepAnswer: a voter that asks; stepCrash, stepStart: a node) and a voter
	a, b       uint8
	slot, lane uint8  // of the connection
	key        uint8  // of a client's step
	msg        uint32 // stepLate: the first late message
}

// The sides of a connection, in place of a lane.
const (
	clientSide = 0
	voterSide  = 1
)

// prompt returns the step that precedes everything else, unless the step is late: messages of the
// refresh lane arrive, and with Options.Prompt all other messages; closed connections are noticed,
// and connections come up anew.
//
// Where voters can be exchanged, their names must not decide which voter comes first, or an
// exchange would change the outcome.
func (x *explorer) prompt(s *state) (Step, bool) {
	var first Step
	var ranks *[maxVoters]uint64
	before := func(a, b Step) bool { // whether a, which follows b by names, comes before b
		if ranks == nil {
			r := x.ranks(s)
			ranks = &r
		}
		if a.kind == stepAsk || a.kind == stepAnswer {
			if ranks[a.a] != ranks[b.a] {
				return ranks[a.a] < ranks[b.a]
			}
		} else if a.a != b.a {
			return false
		}
		return ranks[a.b] < ranks[b.b]
	}
	found := false
	for c := range x.clients {
		for v := range x.o.Voters {
			st, ok := x.promptOf(s, c, v)
			if ok && (!found || before(st, first)) {
				first, found = st, true
			}
			if found && !x.ranked {
				return first, true
			}
		}
		if found {
			return first, true
		}
	}
	for i := range x.o.Voters {
		for j := range x.o.Voters {
			st, ok := promptAsk(s, i, j)
			if ok && (!found || before(st, first)) {
				first, found = st, true
			}
			if found && !x.ranked {
				return first, true
			}
		}
	}
	return first, found
}

// promptOf returns the prompt step between a client and a voter.
func (x *explorer) promptOf(s *state, c, v int) (Step, bool) {
	for slot := range s.conns[c][v] {
		k := &s.conns[c][v][slot]
		for l := range uint8(lanesPerConn) {
			if !x.o.Prompt && (l == toVoter || l == toClient) {
				continue
			}
			if k.lanes[l] != 0 && k.late>>l&1 == 0 {
				return Step{kind: stepDeliver, a: uint8(c), b: uint8(v), slot: uint8(slot), lane: l}, true
			}
		}
		if x.o.Prompt && k.client != k.voter && !k.noticeLate {
			return Step{kind: stepNotice, a: uint8(c), b: uint8(v), slot: uint8(slot), lane: uint8(bit(k.voter))}, true
		}
	}
	if x.o.Prompt && !s.unlinkable[c][v] && x.linkable(s, c, v) {
		return Step{kind: stepLink, a: uint8(c), b: uint8(v)}, true
	}
	return Step{}, false
}

// promptAsk returns the prompt step between a restarted voter and a voter queried for tokens.
func promptAsk(s *state, i, j int) (Step, bool) {
	q := &s.asks[i][j]
	switch {
	case q.asked != 0 && !q.askedLate:
		return Step{kind: stepAsk, a: uint8(i), b: uint8(j)}, true
	case q.answers != 0 && !q.answersLate:
		return Step{kind: stepAnswer, a: uint8(i), b: uint8(j)}, true
	}
	return Step{}, false
}

// delay returns the step that lets a prompt step be late instead.
func (x *explorer) delay(s *state, st Step) Step {
	switch st.kind {
	case stepAsk:
		st.kind = stepAskLate
	case stepAnswer:
		st.kind = stepAnswerLate
	case stepNotice:
		st.kind = stepNoticeLate
	case stepLink:
		st.kind = stepLinkLate
	default:
		st.kind = stepLate
		st.msg, _ = x.words.pop(s.conns[st.a][st.b][st.slot].lanes[st.lane])
	}
	return st
}

// steps appends all possible next steps of a state without prompt steps.
func (x *explorer) steps(s *state, all []Step) []Step {
	for c := range x.clients {
		all = x.userSteps(s, c, all)
		for v := range x.o.Voters {
			for slot := range s.conns[c][v] {
				all = x.connSteps(s, c, v, slot, all)
			}
			if x.linkable(s, c, v) {
				all = append(all, Step{kind: stepLink, a: uint8(c), b: uint8(v)})
			}
		}
	}
	for i := range x.o.Voters {
		for j := range x.o.Voters {
			if s.asks[i][j].asked != 0 {
				all = append(all, Step{kind: stepAsk, a: uint8(i), b: uint8(j)})
			}
			if s.asks[i][j].answers != 0 {
				all = append(all, Step{kind: stepAnswer, a: uint8(i), b: uint8(j)})
			}
		}
	}
	for n := range x.names {
		switch {
		case s.nodes[n] == 0:
			all = append(all, Step{kind: stepStart, a: uint8(n)})
		case s.crashes > 0 && x.crashes[n]:
			all = append(all, Step{kind: stepCrash, a: uint8(n)})
		}
	}
	if s.ticks > 0 && x.lagging(s) <= int(s.late) {
		all = append(all, Step{kind: stepTick})
	}
	if x.o.Served && x.waits(s) {
		all = append(all, Step{kind: stepCalm})
	}
	return all
}

// linkable reports whether a client can connect to a voter.
func (x *explorer) linkable(s *state, c, v int) bool {
	k := &s.conns[c][v][0]
	return s.nodes[x.node(c)] != 0 && s.nodes[v] != 0 && v != x.node(c) && !k.client && !k.voter
}

func (x *explorer) userSteps(s *state, c int, all []Step) []Step {
	n := s.nodes[x.node(c)]
	if n == 0 {
		return all
	}
	for k := range x.o.Keys {
		u := &x.locals.all[n].users[k]
		add := func(kind stepKind) { all = append(all, Step{kind: kind, a: uint8(c), key: uint8(k)}) }
		switch {
		case u.waits():
			if x.o.Abandon {
				add(stepRelease)
			}
		case u.state == idle && s.locks[c] > 0:
			add(stepLock)
			if x.o.Try {
				add(stepTry)
			}
		case u.state == holding:
			if !x.o.Keep {
				add(stepRelease)
			}
			if x.o.Upgrade && u.mode == vote.Shared && s.locks[c] > 0 {
				add(stepUpgrade)
			}
			if x.o.Downgrade && u.mode == vote.Exclusive {
				add(stepShare)
			}
		}
	}
	return all
}

func (x *explorer) connSteps(s *state, c, v, slot int, all []Step) []Step {
	k := &s.conns[c][v][slot]
	at := Step{a: uint8(c), b: uint8(v), slot: uint8(slot)}
	add := func(kind stepKind, lane uint8) {
		at.kind, at.lane = kind, lane
		all = append(all, at)
	}
	for l, waiting := range k.lanes {
		if waiting != 0 {
			add(stepDeliver, uint8(l))
		}
	}
	switch {
	case k.client && k.voter:
		if s.breaks == 0 || !x.breaks[c][v] {
			break
		}
		add(stepBreak, clientSide)
		add(stepBreak, voterSide)
	case k.client && !k.voter:
		add(stepNotice, clientSide)
	case k.voter && !k.client:
		add(stepNotice, voterSide)
	}
	return all
}

// lagging returns how many more lanes run late if time passes now.
func (x *explorer) lagging(s *state) (n int) {
	for c := range x.clients {
		for v := range x.o.Voters {
			for slot := range s.conns[c][v] {
				k := &s.conns[c][v][slot]
				for l, waiting := range k.lanes {
					if waiting != 0 && k.late>>l&1 == 0 {
						n++
					}
				}
			}
		}
	}
	return n
}
