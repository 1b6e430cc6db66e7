package explore

// identity distinguishes states: by hash, or in a raw run by every bit.
func (x *explorer) identity(s *state) uint64 {
	if !x.o.raw {
		return x.hash(s)
	}
	p := packer{}
	p.state(s, x)
	return digest(p.buf)
}

// features are hashes of a state by voters: of everything about one voter, and of one voter's
// knowledge about, and queries to, another.
type features struct {
	one [maxVoters]uint64
	two [maxVoters][maxVoters]uint64
}

func (x *explorer) features(s *state) (f features) {
	n := x.o.Voters
	for v := range n {
		l := &x.locals.all[s.nodes[v]]
		h := mix(l.main, uint64(s.incarnations[v]))
		for c := range x.clients {
			h = mix(h, x.locals.all[s.nodes[x.node(c)]].cols[v])
			for slot := range s.conns[c][v] {
				h = s.conns[c][v][slot].hash(h)
			}
			h = mix(h, bit(s.unlinkable[c][v] && x.o.Prompt))
		}
		f.one[v] = h
		for w := range n {
			if w != v {
				q := &s.asks[v][w]
				f.two[v][w] = mix(mix(l.cols[w], uint64(q.asked)<<2|bit(q.askedLate)<<1|bit(q.answersLate)), uint64(q.answers))
			}
		}
	}
	return f
}

// hash returns the same number for states equal up to an exchange of voters, and different numbers
// for all others, except with a probability of 2^-64 for each pair.
func (x *explorer) hash(s *state) uint64 {
	f := x.features(s)
	all := mix(0, uint64(s.tick)<<32|uint64(s.late)<<24|uint64(s.crashes)<<16|uint64(s.breaks)<<8|uint64(s.ticks))
	for k := range x.o.Keys {
		all = s.tokens[k].hash(all, x.sharing)
	}
	for c := range x.clients {
		node := x.node(c)
		all = mix(mix(all, x.locals.all[s.nodes[node]].main), uint64(s.incarnations[node])<<8|uint64(s.locks[c]))
	}
	least := ^uint64(0)
	for _, p := range x.perms {
		h := all
		for i, v := range p {
			h = mix(h, f.one[v])
			for _, w := range p[:i] {
				h = mix(mix(h, f.two[v][w]), f.two[w][v])
			}
		}
		least = min(least, h)
	}
	return least
}

// ranks returns numbers that order the voters independently of their names. Voters of equal rank
// can be exchanged.
func (x *explorer) ranks(s *state) (r [maxVoters]uint64) {
	f := x.features(s)
	r = f.one
	for v := range x.o.Voters {
		for w := range x.o.Voters {
			if v != w {
				r[v] += mix(mix(f.two[v][w], f.two[w][v]), f.one[w])
			}
		}
	}
	return r
}

func (k *conn) hash(h uint64) uint64 {
	h = mix(h, bit(k.client)|bit(k.voter)<<1|uint64(k.id)<<8|uint64(k.incarnation)<<16|uint64(k.voterIncarnation)<<24|uint64(k.late)<<32|bit(k.noticeLate)<<40)
	h = mix(h, uint64(k.lanes[0])<<32|uint64(k.lanes[1]))
	return mix(h, uint64(k.lanes[2])<<32|uint64(k.lanes[3]))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// mix adds one more number to a hash, by the finaliser of SplitMix64.
func mix(h, x uint64) uint64 {
	x += h*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// seen is a set of hashes, with open addressing, since the set holds millions.
type seen struct {
	table []uint64
	n     int
}

// add reports whether the hash is new.
func (s *seen) add(h uint64) bool {
	if h == 0 {
		h = 1 // zero marks a free place
	}
	if 4*(s.n+1) > 3*len(s.table) {
		old := s.table
		s.table = make([]uint64, max(1<<16, 2*len(old)))
		for _, k := range old {
			if k != 0 {
				s.put(k)
			}
		}
	}
	if !s.put(h) {
		return false
	}
	s.n++
	return true
}

func (s *seen) put(h uint64) bool {
	mask := uint64(len(s.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case 0:
			s.table[i] = h
			return true
		case h:
			return false
		}
	}
}
