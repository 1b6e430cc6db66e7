package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
)

// Rows 28, 34, 35 and 60 of the list of faults: directories that were put back, disks that break or are slow, and gossip that lies about who is there.

// TestFault28AnOldCopyIsRefused : c's directory is put back from a copy. Those who have heard of later writes notice: c says nothing that counts any
// more, its operator is told, and a standby votes in its place.
func TestFault28AnOldCopyIsRefused(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Following{MaxVoters: 3})
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
	s.PowerOff("b") // and so a is alone
	s.serveNot(2*sceneTTL, "a", "c", "d")
	s.Start("b")
	s.Run(2 * sceneTTL)
	s.is(r, Lost)
	r = s.holds("d", "k")
	s.voting(20*sceneTTL, "a", "b", "d")
	s.is(r, Granted)
	s.Run(sceneTTL)
	s.unchanged(10 * sceneTTL)
	s.PowerOff("c") // as its operator is told to
	s.dynamic.Wipe("c")
	s.Start("c")
	s.Run(2 * sceneTTL)
	s.dynamic.Leave("d")
	s.voting(20*sceneTTL, "a", "b", "c")
	s.serves("c")
}

// TestFault28AnOldCopyThatNobodyKnowsBetter is the limit of that: all who have heard of later writes have restarted since. It can't be told from the directory
// as it was left.
func TestFault28AnOldCopyThatNobodyKnowsBetter(t *testing.T) {
	s := mesh(t, 3, nil, Following{})
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

// TestFault60ABrokenDisk : c's disk takes no writes. c goes on voting on locks by the electorate that it has stored, takes no part in changes, and is replaced
// after a while.
func TestFault60ABrokenDisk(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Following{MaxVoters: 3})
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	s.dynamic.BreakDisk("c")
	s.Restart("c") // each start is written
	s.Run(sceneTTL + learning)
	if !s.alarmed("the state directory can't be written, so this node takes no part in changes of the electorate; it goes on voting on locks: no space left on device") {
		t.Error("nobody is told")
	}
	s.PowerOff("b")
	s.serves("d") // by a and c
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
	s.goesBy("a", "b", "c", "d")
	s.serves("c")
}

// TestFault60ABrokenDiskOnTime : where all others are there, a standby votes in its place once FailAfter and a change have passed.
func TestFault60ABrokenDiskOnTime(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Following{MaxVoters: 3})
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	s.dynamic.BreakDisk("b")
	s.Restart("b")
	s.between("to replace b", s.voting(20*sceneTTL, "a", "c", "d"), electorate.FailAfter(sceneTTL), electorate.FailAfter(sceneTTL)+time.Second+changeTime())
	s.serves("b")
}

// TestFault60AllDisksAreFull : nothing changes, and all are served, as long as nobody is voted out.
func TestFault60AllDisksAreFull(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Following{MaxVoters: 5}, "d", "e")
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

// TestFault60ASlowDisk : saves that take a quarter of a TTL delay changes, and no locks.
func TestFault60ASlowDisk(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e"}, Following{MaxVoters: 5, DiskMost: sceneTTL / 4}, "d", "e")
	s.Run(2 * sceneTTL)
	r, x := s.holds("a", "k"), s.takes("b")
	s.Start("d")
	s.Start("e")
	s.between("to grow", s.voting(40*sceneTTL, "a", "b", "c", "d", "e"), electorate.Drain(sceneTTL), 20*sceneTTL)
	s.is(r, Granted)
	x.ends(time.Second)
}

// TestFault76ADiskThatHangs : c's disk neither answers nor fails. That is trouble within a TTL, and a standby takes its seat as that of one that is gone; leases don't feel it.
func TestFault76ADiskThatHangs(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "f"}, Following{MaxVoters: 5}, "d", "e", "f")
	s.judge.deaf = map[string]bool{checkAlarm: true}
	s.Run(2 * sceneTTL)
	r := s.holds("c", "k")
	s.dynamic.FreezeDisk("c")
	s.Start("d")
	s.Start("e")
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e") // by a and b
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
	s.goesBy("a", "b", "c", "d", "e", "f")
	s.is(r, Granted)
}

// TestFault35OneAccuserChangesNothing : gossip tells one node that all others are dead. It hears from them, so it isn't misled; nor are the others.
func TestFault35OneAccuserChangesNothing(t *testing.T) {
	t.Parallel()
	for _, accuser := range []string{"a", "b", "d"} {
		s := mesh(t, 3, []string{"d"}, Following{MaxVoters: 3})
		s.Run(2 * sceneTTL)
		r := s.holds("d", "k")
		s.dynamic.Accuse(accuser)
		s.unchanged(20 * sceneTTL)
		s.is(r, Granted)
		s.serves("b")
		s.dynamic.Acquit(accuser)
	}
}

// TestFault34AllAccuseAll : gossip tells everybody that everyone else is dead. As long as direct connections stand, nobody is voted out or in.
func TestFault34AllAccuseAll(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Following{MaxVoters: 5}, "d", "e")
	s.Run(2 * sceneTTL)
	r := s.holds("a", "k")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.Accuse(n)
	}
	s.Start("d")
	s.Start("e")
	s.unchanged(30 * sceneTTL)
	s.is(r, Granted)
	s.serves("b")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		s.dynamic.Acquit(n)
	}
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e")
	s.is(r, Granted)
}

// TestFault34GossipThatFlaps : gossip loses and finds all others again and again. A node must have been there for a while to be voted in, so nothing changes to and fro.
func TestFault34GossipThatFlaps(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e"}, Following{MaxVoters: 5})
	s.voting(10*sceneTTL, "a", "b", "c", "d", "e")
	r := s.holds("d", "k")
	version := s.dynamic.Electorate().Version
	for range 20 {
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			s.dynamic.Accuse(n)
		}
		s.Run(sceneTTL / 2)
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			s.dynamic.Acquit(n)
		}
		s.Run(sceneTTL / 2)
	}
	s.is(r, Granted)
	if s.dynamic.Electorate().Version != version {
		t.Errorf("it has changed: %+v", s.dynamic.Electorate())
	}
}
