package sim

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// grayMutants break the rule that direct contacts, as reported by a majority of the voters, decide
// which nodes are voted in and out.
var grayMutants = []mutant{
	{
		name: "gossip's sight counted as direct contact", build: seesAsContact, scenario: grayThenDead,
		options: Options{Names: []string{"a", "b", "c", "d"}, Clients: 1, Dynamic: &Dynamic{MaxVoters: 3}},
		draw:    DrawDynamic,
		unseen:  "nothing is granted any more, and no lease is wrong",
	},
}

// seer is a node that adds to each voter's report a contact with every node that gossip sees alive.
type seer struct {
	Machine
	alive []vote.Elector
}

func seesAsContact(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &seer{Machine: n}, err
}

func (s *seer) Gossip(now vote.Now, all []electorate.Seen) {
	s.alive = s.alive[:0]
	for _, o := range all {
		if o.State == vote.Alive {
			s.alive = append(s.alive, vote.Elector{Name: o.Name, Dir: o.Dir})
		}
	}
	s.Machine.Gossip(now, all)
}

func (s *seer) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindReport && len(m.Consensus.Contacts) > 0 {
		e := *m.Consensus
		e.Contacts = slices.Clone(e.Contacts)
		for _, v := range s.alive {
			if !slices.Contains(e.Contacts, v) {
				e.Contacts = append(e.Contacts, v)
			}
		}
		told := *m
		told.Consensus = &e
		m = &told
	}
	s.Machine.Deliver(now, conn, from, m)
}

// grayThenDead makes c gray, and crashes b once c must have made room for d.
func grayThenDead(w *World) {
	w.founded()
	w.Run(2 * sceneTTL)
	w.dynamic.Gray("c", "a", "b", "d")
	w.Run(electorate.FailAfter(sceneTTL) + changeTime() + sceneTTL)
	w.Script.PowerOff("b")
	w.Run(sceneTTL)
	w.expect(w.Script.Lock("a", "k"), Granted, 3*sceneTTL)
}
