package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
)

// Rows 28, 34, 35, 60 and 76 of the list of faults: directories restored from a copy, disks that
// break, are slow or hang, and gossip with false reports about other nodes.

// TestFault28AnOldCopyIsRefused restores c's directory from a copy. The nodes that know of later
// writes notice: no message of c counts any more, c's operator is alarmed, and a standby takes c's
// seat.
func TestFault28AnOldCopyIsRefused(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	copied := s.dynamic.Writes("c")
	s.Restart("c")
	s.Run(2 * sceneTTL)
	r := s.holds("d", "k")
	s.PowerOff("c")
	s.dynamic.PutBack("c", copied)
	s.Start("c")
	s.Run(time.Second)
	for _, want := range []string{"the state directory of c is an old copy, and is not trusted", "the state directory is an old copy: "} {
		if !s.alarmed(want) {
			t.Errorf("nobody says that %s", want)
		}
	}
	s.Run(2 * sceneTTL)
	if q := s.host("c").p.m.Voter().Quiet(); q <= 0 {
		t.Error("c's votes count")
	}
	s.PowerOff("b") // so that a is alone
	s.serveNot(2*sceneTTL, "a", "c", "d")
	s.Start("b")
	s.Run(2 * sceneTTL)
	s.is(r, Lost)
	r = s.holds("d", "k")
	s.voting(20*sceneTTL, "a", "b", "d")
	s.is(r, Granted)
	s.Run(sceneTTL)
	s.unchanged(10 * sceneTTL)
	s.PowerOff("c") // as the alarm tells c's operator
	s.dynamic.Wipe("c")
	s.Start("c")
	s.Run(2 * sceneTTL)
	s.dynamic.Leave("d")
	s.voting(20*sceneTTL, "a", "b", "c")
	s.serves("c")
}

// TestFault28AnOldCopyUnknownToAllVoters shows the limit of this protection: once all nodes that
// know of later writes have restarted, the copy can't be told from the directory as c left it.
func TestFault28AnOldCopyUnknownToAllVoters(t *testing.T) {
	s := mesh(t, 3, nil, Dynamic{})
	s.Run(2 * sceneTTL)
	copied := s.dynamic.Writes("c")
	s.Restart("c")
	s.Run(2 * sceneTTL)
	s.PowerOff("c")
	s.dynamic.PutBack("c", copied)
	s.Restart("a")
	s.Restart("b")
	s.Start("c")
	s.Run(3 * sceneTTL)
	if s.alarmed("old copy") {
		t.Error("it is noticed: then the text of docs/simulation.md is too careful")
	}
	s.serves("c")
}

// TestFault60ABrokenDisk breaks c's disk for writes. c goes on voting on locks under its stored
// electorate, takes no part in changes, and is replaced after a while.
func TestFault60ABrokenDisk(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	s.dynamic.BreakDisk("c")
	s.Restart("c") // each start is written
	s.Run(sceneTTL + learning)
	if !s.alarmed("the state directory can't be written, so this node takes no part in changes of the electorate; it goes on voting on locks: no space left on device") {
		t.Error("nobody is told")
	}
	s.PowerOff("b")
	s.serves("d") // by the votes of a and c
	s.unchanged(3 * sceneTTL)
	r := s.holds("d", "k")
	s.unchanged(10 * sceneTTL) // with b away, c would have to decide, and can't
	s.is(r, Granted)
	s.Start("b")
	s.between("to replace c", s.voting(20*sceneTTL, "a", "b", "d"), electorate.Drain(sceneTTL), 2*sceneTTL+changeTime())
	s.is(r, Granted)
	s.Run(time.Second)
	s.dynamic.MendDisk("c")
	s.Run(2 * sceneTTL)
	s.applies("a", "b", "c", "d")
	s.serves("c")
}

// TestFault60ABrokenDiskOnTime shows that if all other nodes are there, a standby replaces a voter
// with a broken disk once FailAfter and a change have passed.
func TestFault60ABrokenDiskOnTime(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	s.dynamic.BreakDisk("b")
	s.Restart("b")
	s.between("to replace b", s.voting(20*sceneTTL, "a", "c", "d"), electorate.FailAfter(sceneTTL), electorate.FailAfter(sceneTTL)+time.Second+changeTime())
	s.serves("b")
}

// TestFault60AllDisksAreFull fills all disks: the electorate doesn't change, and all nodes are
// served.
func TestFault60AllDisksAreFull(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{MaxVoters: 5}, "d", "e")
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	r := s.holds("a", "k")
	for _, v := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.BreakDisk(v)
	}
	s.Start("d")
	s.Start("e")
	s.unchanged(20 * sceneTTL)
	s.is(r, Granted)
	s.serves("b")
	for _, v := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.MendDisk(v)
	}
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e")
	s.is(r, Granted)
}

// TestFault60ASlowDisk has saves take up to a quarter of a TTL: the saves delay changes, and no
// locks.
func TestFault60ASlowDisk(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{MaxVoters: 5, DiskMost: sceneTTL / 4}, "d", "e")
	s.Run(2 * sceneTTL)
	r, x := s.holds("a", "k"), s.takes("b")
	s.Start("d")
	s.Start("e")
	s.between("to grow", s.voting(40*sceneTTL, "a", "b", "c", "d", "e"), electorate.Drain(sceneTTL), 20*sceneTTL)
	s.is(r, Granted)
	x.ends(time.Second)
}

// TestFault76ADiskThatHangs has c's disk neither answer nor fail. Within a TTL the operator is
// alarmed, and a standby takes c's seat as if c were gone; leases go on.
func TestFault76ADiskThatHangs(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "f"}, Dynamic{MaxVoters: 5}, "d", "e", "f")
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	r := s.holds("c", "k")
	s.dynamic.FreezeDisk("c")
	s.Start("d")
	s.Start("e")
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e") // decided by a and b
	s.Start("f")
	s.Run(electorate.SaveLimit(sceneTTL))
	if !s.alarmed("the disk has not answered for") {
		t.Error("nobody is told")
	}
	s.between("to vote c out", s.voting(20*sceneTTL, "a", "b", "d", "e", "f"), 0, electorate.FailAfter(sceneTTL)+time.Second+changeTime())
	s.is(r, Granted)
	s.serves("c")
	s.dynamic.ThawDisk("c")
	s.Run(2 * sceneTTL)
	s.applies("a", "b", "c", "d", "e", "f")
	s.is(r, Granted)
}

// TestFault35OneAccuserChangesNothing has gossip report all other nodes as dead to one node. The
// node has direct contact with the others, so neither this node nor the others are misled.
func TestFault35OneAccuserChangesNothing(t *testing.T) {
	t.Parallel()
	for _, accuser := range []string{"a", "b", "d"} {
		s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
		s.Run(2 * sceneTTL)
		r := s.holds("d", "k")
		s.dynamic.ReportFailed(accuser)
		s.unchanged(20 * sceneTTL)
		s.is(r, Granted)
		s.serves("b")
		s.dynamic.StopReportingFailed(accuser)
	}
}

// TestFault34AllAccuseAll has gossip report all other nodes as dead to every node. As long as
// direct connections stand, no node is voted out or in.
func TestFault34AllAccuseAll(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{MaxVoters: 5}, "d", "e")
	s.Run(2 * sceneTTL)
	r := s.holds("a", "k")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.ReportFailed(n)
	}
	s.Start("d")
	s.Start("e")
	s.unchanged(30 * sceneTTL)
	s.is(r, Granted)
	s.serves("b")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.StopReportingFailed(n)
	}
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e")
	s.is(r, Granted)
}

// TestFault34GossipThatFlaps has gossip lose and find all other nodes again and again. A node must
// be present for a while before the node is voted in, so the electorate doesn't change back and
// forth.
func TestFault34GossipThatFlaps(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{MaxVoters: 5})
	s.voting(10*sceneTTL, "a", "b", "c", "d", "e")
	r := s.holds("d", "k")
	version := s.dynamic.Electorate().Version
	for range 20 {
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			s.dynamic.ReportFailed(n)
		}
		s.Run(sceneTTL / 2)
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			s.dynamic.StopReportingFailed(n)
		}
		s.Run(sceneTTL / 2)
	}
	s.is(r, Granted)
	if s.dynamic.Electorate().Version != version {
		t.Errorf("it has changed: %+v", s.dynamic.Electorate())
	}
}
