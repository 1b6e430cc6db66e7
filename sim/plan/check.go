package plan

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// complete fills in defaults derived from other fields.
func (s *Scenario) complete() {
	if s.TTL == unset {
		s.TTL = s.MaxTTL
	}
	if s.Probe.Within == unset {
		s.Probe.Within = s.Probe.Every
	}
	s.Link.complete()
	for i := range s.Links {
		s.Links[i].complete()
	}
	if s.Posts.Count == unset {
		s.Posts.Count = 0
		for _, n := range s.nodes() {
			if n.locks {
				s.Posts.Count++
			}
		}
		s.Posts.Count = min(s.Posts.Count, postsMost)
	}
}

func (l *Link) complete() {
	if l.Median == unset {
		return
	}
	if l.P99 == unset {
		l.P99 = 2 * l.Median
	}
	if l.Least == unset {
		l.Least = l.Median / 2
		if l.P99 == l.Median {
			l.Least = l.Median
		}
	}
}

var groupName = regexp.MustCompile(`^[a-z0-9-]{1,20}$`)

// check validates the combination of fields.
func (s *Scenario) check() (all problems) {
	s.checkNodes(&all)
	if s.TTL > s.MaxTTL {
		all.add("ttl", "%v: it must not be above max_ttl, %v", s.TTL, s.MaxTTL)
	}
	s.Link.check(&all, "link")
	for i := range s.Links {
		l := &s.Links[i]
		path := fmt.Sprintf("links[%d]", i)
		l.check(&all, path)
		if l.Median == unset {
			all.add(path+".median", "it isn't given")
		}
		if len(l.Between) != 2 {
			all.add(path+".between", "%q: it must be two names of groups", l.Between)
			continue
		}
		for _, name := range l.Between {
			if !slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Name == name }) {
				all.add(path+".between", "%q: no group is called so", name)
			}
		}
		for j := range s.Links[:i] {
			if o := s.Links[j].Between; len(o) == 2 && (o[0] == l.Between[0] && o[1] == l.Between[1] || o[0] == l.Between[1] && o[1] == l.Between[0]) {
				all.add(path+".between", "%q: links[%d] has the same", l.Between, j)
			}
		}
	}
	if s.Partitions.Shape == "group" && s.Partitions.Every > 0 && len(s.Groups) < 2 {
		all.add("partitions.shape", `"group": there must be two groups or more`)
	}
	if s.Probe.Within > s.Probe.Every {
		all.add("probe.within", "%v: it must not be above probe.every, %v", s.Probe.Within, s.Probe.Every)
	}
	if len(all) > 0 {
		return all
	}
	nodes, locking := s.nodes(), 0
	for i, a := range nodes {
		if a.locks {
			locking++
		}
		for _, b := range nodes[:i] {
			if s.way(a, b).Median == unset {
				where := ""
				if a.group != "" {
					where = fmt.Sprintf(", and links has nothing between %q and %q", b.group, a.group)
				}
				all.add("link.median", `it isn't given%s: give the one-way delay of messages, like "2ms"`, where)
				return all
			}
		}
	}
	if each := time.Duration(s.Simulate.For) / time.Duration(s.Simulate.Worlds); each < time.Second {
		all.add("simulate.worlds", "%d: so each lasts %v only, and must last a second", s.Simulate.Worlds, each)
	}
	if n := int64(locking) * int64(s.Simulate.For/s.Probe.Every); n > probesMost {
		all.add("simulate.for", "%v: that is %d probes, and there may be %d: simulate less, or probe less often by probe.every",
			s.Simulate.For, n, probesMost)
	}
	return all
}

func (s *Scenario) checkNodes(all *problems) {
	voters, total := s.Voters, s.Voters+s.Others
	if len(s.Groups) > groupsMost {
		all.add("groups", "it has %d elements, and may have %d", len(s.Groups), groupsMost)
	}
	for i, g := range s.Groups {
		path := fmt.Sprintf("groups[%d]", i)
		voters += g.Voters
		total += g.Voters + g.Others
		if !groupName.MatchString(g.Name) {
			all.add(path+".name", "%q: it must be 1 to 20 lower-case letters, digits and dashes", g.Name)
		}
		if slices.ContainsFunc(s.Groups[:i], func(o Group) bool { return o.Name == g.Name }) {
			all.add(path+".name", "%q: another group has it", g.Name)
		}
	}
	switch {
	case len(s.Groups) > 0 && s.Voters+s.Others > 0:
		all.add("voters", "nodes are given by groups, so voters and others must be 0; a group's are set as groups.%s.voters", s.Groups[0].Name)
	case voters < 1 || voters > 25:
		all.add("voters", "%d in all: there must be 1 to 25; three survive the loss of one, five of two", voters)
	case total > nodesMost:
		all.add("others", "%d nodes in all: there may be %d", total, nodesMost)
	case s.LockOn == "others" && total == voters:
		all.add("lock_on", `"others": there are no others, so no node would take locks`)
	}
}

func (l *Link) check(all *problems, path string) {
	if l.Median == unset {
		if l.P99 != unset || l.Least != unset {
			all.add(path+".median", "it isn't given, but p99 or least is")
		}
		return
	}
	if l.P99 < l.Median {
		all.add(path+".p99", "%v: it must not be below the median, %v", l.P99, l.Median)
	}
	if l.Least > l.Median {
		all.add(path+".least", "%v: it must not be above the median, %v", l.Least, l.Median)
	}
}

// place is one node of a scenario.
type place struct {
	name  string
	group string // empty without groups
	voter bool
	locks bool
}

// nodes lists all nodes, voters first, as sim requires.
func (s *Scenario) nodes() (all []place) {
	groups := s.Groups
	if len(groups) == 0 {
		groups = []Group{{Voters: s.Voters, Others: s.Others}}
	}
	for _, voter := range []bool{true, false} {
		for _, g := range groups {
			first, n := 0, g.Voters
			if !voter {
				first, n = g.Voters, g.Others
			}
			for i := range n {
				p := place{name: fmt.Sprintf("%s-%d", g.Name, first+i+1), group: g.Name, voter: voter}
				if g.Name == "" && voter {
					p.name = string(rune('a' + i))
				} else if g.Name == "" {
					p.name = fmt.Sprintf("x%d", i+1)
				}
				p.locks = s.LockOn == "all" || voter == (s.LockOn == "voters")
				all = append(all, p)
			}
		}
	}
	return all
}

// way returns the link between two nodes.
func (s *Scenario) way(a, b place) *Link {
	for i := range s.Links {
		l := &s.Links[i]
		if x, y := l.Between[0], l.Between[1]; x == a.group && y == b.group || x == b.group && y == a.group {
			return &l.Link
		}
	}
	return &s.Link
}
