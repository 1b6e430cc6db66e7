package explore

// route puts a message from a node on its lane.
func (x *explorer) route(s *state, from int, m *send) {
	peer := peerIn(m.conn)
	urgent := x.words.messages[m.msg].Kind.Urgent()
	switch dials(m.conn) {
	case dialed:
		pair := &s.conns[x.client(from)][peer]
		k := &pair[0]
		if !k.client || k.id != idIn(m.conn) {
			return
		}
		switch {
		case m.closed:
			k.hangUp(clientSide)
			settlePair(pair)
		case !k.voter: // the message is lost
		case urgent:
			k.lanes[toVoterUrgent] = x.words.push(k.lanes[toVoterUrgent], m.msg)
		default:
			k.lanes[toVoter] = x.words.push(k.lanes[toVoter], m.msg)
		}
	case accepted:
		pair := &s.conns[peer][from]
		for slot := range pair {
			k := &pair[slot]
			if !k.voter || k.id != idIn(m.conn) {
				continue
			}
			switch {
			case m.closed:
				k.hangUp(voterSide)
			case !k.client:
			case urgent:
				k.lanes[toClientUrgent] = x.words.push(k.lanes[toClientUrgent], m.msg)
			default:
				k.lanes[toClient] = x.words.push(k.lanes[toClient], m.msg)
			}
			break
		}
		settlePair(pair)
	case dialedByIdle:
		// A repeated question is the same question.
		if q := &s.asks[from][peer]; s.nodes[peer] != 0 && q.asked == 0 {
			q.asked = m.msg
		}
	case idleAccepted:
		q := &s.asks[peer][from]
		q.answers = x.words.push(q.answers, m.msg)
	}
}

// hangUp ends one side of a connection: messages under way to this side are lost.
func (k *conn) hangUp(side uint8) {
	to := [...]uint8{toVoterUrgent, toVoter}
	if side == clientSide {
		k.client = false
		to = [...]uint8{toClientUrgent, toClient}
	} else {
		k.voter = false
	}
	for _, l := range to {
		k.lanes[l] = 0
		k.late &^= 1 << l
	}
}

// settlePair forgets closed connections, and moves a connection considered open only by the voter
// to the second place.
func settlePair(pair *[2]conn) {
	for i := range pair {
		if !pair[i].client && !pair[i].voter {
			pair[i] = conn{}
		}
	}
	if pair[0].voter && !pair[0].client && !pair[1].voter {
		pair[0], pair[1] = conn{}, pair[0]
	}
}

// cut reports to one side of a connection that the connection is gone.
func (x *explorer) cut(s *state, st Step) string {
	pair := &s.conns[st.a][st.b]
	id := pair[st.slot].id
	pair[st.slot].hangUp(st.lane)
	settlePair(pair)
	if st.lane == clientSide {
		return x.happen(s, input{kind: onUnlink, node: uint8(x.node(int(st.a))), conn: connNumber(dialed, int(st.b), id)})
	}
	return x.happen(s, input{kind: onUnlink, node: st.b, conn: connNumber(accepted, int(st.a), id)})
}

func (x *explorer) link(s *state, st Step) string {
	pair := &s.conns[st.a][st.b]
	s.unlinkable[st.a][st.b] = false
	client := x.node(int(st.a))
	id := uint8(1)
	if pair[1].id == id {
		id = 2
	}
	pair[0] = conn{client: true, voter: true, id: id, incarnation: s.incarnations[client], voterIncarnation: s.incarnations[st.b]}
	return x.happen(s, input{
		kind: onLink, node: uint8(client), peer: st.b, incarnation: s.incarnations[st.b], conn: connNumber(dialed, int(st.b), id),
	})
}

// crash ends a node's incarnation. The node's connections break, unnoticed by the peers as yet.
func (x *explorer) crash(s *state, node int) {
	s.nodes[node] = 0
	if c := x.client(node); c >= 0 {
		for v := range x.o.Voters {
			pair := &s.conns[c][v]
			pair[0].hangUp(clientSide)
			settlePair(pair)
		}
	}
	if node >= x.o.Voters {
		return
	}
	for c := range x.clients {
		pair := &s.conns[c][node]
		for slot := range pair {
			pair[slot].hangUp(voterSide)
		}
		settlePair(pair)
	}
	for v := range x.o.Voters {
		s.asks[node][v] = question{}
		s.asks[v][node].asked, s.asks[v][node].askedLate = 0, false
	}
}
