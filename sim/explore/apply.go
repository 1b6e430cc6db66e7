package explore

// apply executes a step, and returns the violation; "" if there is none.
func (x *explorer) apply(s *state, st Step) string {
	x.report.Transitions++
	wrong := x.take(s, st)
	if wrong == "" {
		wrong = x.judge(s)
	}
	return wrong
}

func (x *explorer) take(s *state, st Step) string {
	node := uint8(x.node(int(st.a)))
	k := &s.conns[st.a%maxClients][st.b][st.slot]
	switch st.kind {
	case stepDeliver:
		return x.deliver(s, st)
	case stepLate:
		s.late--
		k.late |= 1 << st.lane
	case stepAskLate:
		s.late--
		s.asks[st.a][st.b].askedLate = true
	case stepAnswerLate:
		s.late--
		s.asks[st.a][st.b].answersLate = true
	case stepAsk:
		return x.ask(s, st)
	case stepAnswer:
		return x.deliverAnswer(s, st)
	case stepLock, stepTry:
		s.locks[st.a]--
		kind := onLock
		if st.kind == stepTry {
			kind = onTry
		}
		return x.happen(s, input{kind: kind, node: node, key: st.key})
	case stepUpgrade:
		s.locks[st.a]--
		return x.happen(s, input{kind: onUpgrade, node: node, key: st.key})
	case stepShare:
		return x.happen(s, input{kind: onShare, node: node, key: st.key})
	case stepCalm:
		return x.served(*s)
	case stepRelease:
		return x.happen(s, input{kind: onRelease, node: node, key: st.key})
	case stepBreak:
		s.breaks--
		s.unlinkable[st.a][st.b] = true
		return x.cut(s, st)
	case stepNoticeLate:
		s.late--
		k.noticeLate = true
	case stepLinkLate:
		s.late--
		s.unlinkable[st.a][st.b] = true
	case stepNotice:
		return x.cut(s, st)
	case stepLink:
		return x.link(s, st)
	case stepCrash:
		s.crashes--
		x.crash(s, int(st.a))
	case stepStart:
		s.incarnations[st.a]++
		return x.happen(s, input{kind: onStart, node: st.a, incarnation: s.incarnations[st.a]})
	case stepTick:
		return x.passTime(s)
	}
	return ""
}

// happen applies an input to a node, and routes the node's messages to the lanes.
func (x *explorer) happen(s *state, o input) string {
	o.tick = s.tick
	out := x.locals.on(s.nodes[o.node], o)
	s.nodes[o.node] = out.next
	if x.watch != nil {
		x.watch(o, out)
	}
	if out.wrong != "" {
		return out.wrong
	}
	x.report.note(out)
	for i := range out.sends {
		x.route(s, int(o.node), &out.sends[i])
	}
	return x.judgeTokens(s, &o, out)
}

func (x *explorer) deliver(s *state, st Step) string {
	k := &s.conns[st.a][st.b][st.slot]
	m, rest := x.words.pop(k.lanes[st.lane])
	k.lanes[st.lane] = rest
	if rest == 0 {
		k.late &^= 1 << st.lane
	}
	client := uint8(x.node(int(st.a)))
	if st.lane == toVoter || st.lane == toVoterUrgent {
		return x.happen(s, input{
			kind: onDeliver, node: st.b, peer: client, incarnation: k.incarnation, conn: connNumber(accepted, int(st.a), k.id), msg: m,
		})
	}
	return x.happen(s, input{
		kind: onDeliver, node: client, peer: st.b, incarnation: k.voterIncarnation, conn: connNumber(dialed, int(st.b), k.id), msg: m,
	})
}

// passTime lets a tick pass, for all nodes. Lanes with messages on them now run late.
func (x *explorer) passTime(s *state) string {
	s.late -= uint8(x.lagging(s))
	for c := range x.clients {
		for v := range x.o.Voters {
			for slot := range s.conns[c][v] {
				k := &s.conns[c][v][slot]
				for l, waiting := range k.lanes {
					if waiting != 0 {
						k.late |= 1 << l
					}
				}
			}
		}
	}
	s.tick++
	s.ticks--
	for n := range x.names {
		if s.nodes[n] == 0 {
			continue
		}
		if wrong := x.happen(s, input{kind: onTick, node: uint8(n)}); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (x *explorer) ask(s *state, st Step) string {
	q := &s.asks[st.a][st.b]
	m := q.asked
	q.asked, q.askedLate = 0, false
	return x.happen(s, input{
		kind: onDeliver, node: st.b, peer: st.a, incarnation: s.incarnations[st.a], conn: connNumber(idleAccepted, int(st.a), 0), msg: m,
	})
}

func (x *explorer) deliverAnswer(s *state, st Step) string {
	q := &s.asks[st.a][st.b]
	m, rest := x.words.pop(q.answers)
	q.answers = rest
	q.answersLate = q.answersLate && rest != 0
	return x.happen(s, input{
		kind: onDeliver, node: st.a, peer: st.b, incarnation: s.incarnations[st.b], conn: connNumber(dialedByIdle, int(st.b), 0), msg: m,
	})
}
