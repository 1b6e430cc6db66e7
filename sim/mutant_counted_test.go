package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// countedMutants break the rules of a birth by count. Each scenario keeps to the bound of the
// claim, except for the scenario in which all processes reach each other.
var countedMutants = []mutant{
	{
		name: "one process less is expected", build: expectsLess, scenario: besideAMesh,
		options: counted(ByCount{Expect: 3, Most: 4}), draw: DrawByCount,
	},
	{
		name: "an electorate of one", build: oneSuffices, scenario: shrinksToOne,
		options: counted(ByCount{Expect: 3, Most: 4}), draw: DrawByCount,
	},
	{
		name: "no quiet time after a birth", build: bornHastily, scenario: holdsOverABirth,
		options: counted(ByCount{Expect: 3, Most: 4}), draw: DrawByCount,
	},
	{
		name: "a birth though a member was heard of", build: hearsNoMeshes, scenario: heardOfAMember,
		options: counted(ByCount{Expect: 3, Most: 6}), draw: DrawByCount,
	},
	{
		name: "two pledges by one identity", build: pledgesOn, scenario: pledgesAgain,
		options: counted(ByCount{Expect: 3, Most: 4}), draw: DrawByCount,
	},
	{
		name: "an identity kept over a restart", build: keepsItsIdentity, scenario: restartsAndPledgesAgain,
		options: counted(ByCount{Expect: 3, Most: 4}), draw: DrawByCount,
	},
}

// othersCome starts d, e and f, as far as the limit allows, and later has a and d request the same
// key.
func (w *World) othersCome() {
	for _, name := range []string{"d", "e", "f"} {
		w.Script.Start(name)
	}
	w.Run(3 * countedTTL)
	w.Script.Lock("a", "k")
	w.Script.Lock("d", "k")
	w.Run(2 * countedTTL)
}

// besideAMesh has a, b and c found a mesh. Then c ends, and as many others as the limit allows
// start without ever learning of a and b.
func besideAMesh(w *World) {
	w.known("a", "b", "c")
	w.Script.Split([]string{"a", "b"}, []string{"d", "e", "f"})
	w.Script.PowerOff("c")
	w.othersCome()
}

// shrinksToOne makes a the only voter, if the others allow this. Then b and c end, and three others
// start without ever learning of a.
func shrinksToOne(w *World) {
	w.known("a", "b", "c")
	h := w.host("a")
	_ = h.p.m.Propose(h.p.read(w.now), []vote.Elector{{Name: "a", Dir: h.p.dir}})
	w.settle(h.p)
	w.RunUntil(3*countedTTL, func() bool { e := h.p.m.Known(); return len(e.Voters) == 1 && !e.Joint() })
	w.Script.Split([]string{"a"}, []string{"d", "e", "f"})
	w.Script.PowerOff("b")
	w.Script.PowerOff("c")
	w.othersCome()
}

// holdsOverABirth has a hold a lease of a mesh, and ends the other voters, so that the lease stands
// for a while. Other processes found a mesh at once.
func holdsOverABirth(w *World) {
	w.known("a", "b", "c")
	w.Script.Start("d")
	w.Run(countedTTL / 2) // until the others know d
	w.Script.Split([]string{"a"}, []string{"d", "e", "f"})
	w.expect(w.Script.Lock("a", "k"), Granted, countedTTL)
	for _, name := range []string{"b", "c", "d"} {
		w.Script.PowerOff(name)
	}
	for _, name := range []string{"d", "e", "f"} {
		w.Script.Start(name)
	}
	w.RunUntil(countedTTL, func() bool { return w.host("d").p.knew != 0 })
	w.Script.Lock("d", "k")
	w.Run(3 * countedTTL)
}

// heardOfAMember has a, b and c found a mesh, and then starts more processes than the bound allows.
// All processes reach each other, so the new processes join.
func heardOfAMember(w *World) {
	w.known("a", "b", "c")
	w.othersCome()
}

func expectsLess(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	cfg.Birth.Expect--
	return node.New(cfg, now)
}

func oneSuffices(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	cfg.Birth.MinVoters = 1
	return node.New(cfg, now)
}

// hastilyBorn has the voter's clock leap over the startup quarantine after a birth.
type hastilyBorn struct {
	*node.Node
	ttl  time.Duration
	born bool
}

func (h *hastilyBorn) Tick(now vote.Now) {
	h.Node.Tick(now)
	if e := h.Known(); !h.born && vote.VersionNumber(e.Version) == 1 {
		h.born = true
		now.Slow = now.Slow.Add(h.ttl)
		h.Node.Tick(now)
	}
}

// deafToMeshes is a process that never learns of an electorate of others.
type deafToMeshes struct {
	*node.Node
	w *World
}

func (d deafToMeshes) isMember(name vote.NodeID) bool {
	h := d.w.host(string(name))
	return h.p != nil && h.p.m.Known().Version != 0 && !h.p.m.Known().Names(d.Elector().Name)
}

func (d deafToMeshes) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if !d.isMember(from.Node) {
		d.Node.Deliver(now, conn, from, m)
	}
}

func (d deafToMeshes) Gossip(now vote.Now, all []electorate.Seen) {
	d.Node.Gossip(now, slices.DeleteFunc(all, func(s electorate.Seen) bool { return d.isMember(s.Name) }))
}

func bornHastily(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &hastilyBorn{Node: n, ttl: cfg.MaxTTL}, err
}

func hearsNoMeshes(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return deafToMeshes{n, w}, err
}

// pledges reports whether a process has pledged itself to founders, and doesn't know their mesh
// yet.
func (w *World) pledges(name string) bool {
	p := w.host(name).p
	if p == nil {
		return false
	}
	st, _ := p.m.(interface {
		ElectorateStatus(vote.Now) (electorate.Status, bool)
	}).ElectorateStatus(p.read(w.now))
	return strings.HasSuffix(st.Change, "and waits for their pledges")
}

// foundsAlone has a count the pledges of b and c. Neither b nor c receives the other's pledge, or
// learns of the birth.
func foundsAlone(w *World) {
	w.Script.Cut("a", "d")
	w.RunUntil(countedTTL, func() bool { return w.pledges("a") })
	w.Script.Cut("b", "c")
	w.RunUntil(countedTTL, func() bool { return w.host("a").p.knew != 0 })
	w.Script.Cut("a", "b", "c")
}

// foundsWithTheOthers has b, c and d pledge themselves. Then c and d count all pledges; b doesn't
// receive the first of their pledges, and so learns of no birth.
func foundsWithTheOthers(w *World) {
	w.Script.Mend("b", "c")
	w.Script.Start("d")
	w.RunUntil(2*countedTTL, func() bool { return w.pledges("c") || w.pledges("d") })
	first, second := "c", "d"
	if w.pledges("d") {
		first, second = second, first
	}
	w.Script.Cut(first, "b")
	w.RunUntil(countedTTL, func() bool { return w.host("c").p.knew != 0 || w.host("d").p.knew != 0 })
	w.Script.Cut(second, "b")
}

// wantBoth has a and d request the same key.
func wantBoth(w *World) {
	w.Script.Lock("a", "k")
	w.Script.Lock("d", "k")
	w.Run(3 * countedTTL)
}

// pledgesAgain has b and c undo a pledge that a has counted, and pledge themselves with d. Then a
// reaches b again.
func pledgesAgain(w *World) {
	foundsAlone(w)
	w.Run(countedTTL) // longer than a pledge may take
	foundsWithTheOthers(w)
	w.Script.Mend("a", "b")
	wantBoth(w)
}

// restartsAndPledgesAgain is pledgesAgain with restarts instead of undone pledges.
func restartsAndPledgesAgain(w *World) {
	foundsAlone(w)
	w.Script.Restart("b")
	w.Script.Restart("c")
	foundsWithTheOthers(w)
	w.Script.Restart("b")
	w.Script.Mend("a", "b")
	wantBoth(w)
}

// identified is a process with a file for its identity, and nothing else.
type identified struct {
	*node.Node
	w *World
	h *host
}

// newIdentified returns a process with the identity in the host's file, or with a new identity.
func newIdentified(w *World, cfg node.Config, now vote.Now) (identified, error) {
	h := w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == cfg.Name })]
	// Other processes take an identity with a restarted count of writes for an old copy, and refuse
	// the identity.
	cfg.Dynamic.State.Writes = uint64(h.starts) << 32
	cfg.Dynamic.Fresh = true
	n, err := node.New(cfg, now)
	return identified{n, w, h}, err
}

// remember writes an identity into the file.
func (i identified) remember(dir vote.Dir) {
	i.h.disk.exists, i.h.disk.state = true, vote.DiskState{Mesh: "sim", Name: i.h.name, Dir: dir}
}

// keeper keeps its identity for the next start.
type keeper struct{ identified }

func keepsItsIdentity(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	i, err := newIdentified(w, cfg, now)
	return keeper{i}, err
}

func (k keeper) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	k.remember(k.Elector().Dir)
	return k.Node.Drain(out, ev)
}

// pledger undoes a pledge without a new identity: another process with the pledged identity takes
// its place.
type pledger struct {
	identified
	dir     vote.Dir // its identity
	pledged bool     // has reported a pledge, and knows no electorate
}

func pledgesOn(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	i, err := newIdentified(w, cfg, now)
	i.h.disk = disk{made: i.h.disk.made} // only this start has the identity
	return &pledger{identified: i, dir: i.Elector().Dir}, err
}

func (p *pledger) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	if dir := p.Elector().Dir; dir != p.dir {
		if p.pledged {
			p.beginsAnew(p.dir)
		}
		p.dir, p.pledged = dir, false
	}
	first := len(out)
	out, ev = p.Node.Drain(out, ev)
	for i := range out[first:] {
		if m := &out[first+i].Message; m.Kind == vote.KindReport {
			p.pledged = len(m.Consensus.Electorate.Voters) > 0
		}
	}
	p.pledged = p.pledged && p.Known().Version == 0
	return out, ev
}

// beginsAnew replaces this process by a new process with the given identity.
func (p *pledger) beginsAnew(dir vote.Dir) {
	was := p.h.p
	p.w.At(0, func() {
		if p.h.p == was && p.w.crash(p.h, endingAtOnce, nil) {
			p.remember(dir)
			p.w.start(p.h)
		}
	})
}
