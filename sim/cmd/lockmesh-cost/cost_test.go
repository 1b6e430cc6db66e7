package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// With fifty nodes, seven with a vote, a free lock takes at most half as long again as with three
// nodes. With equal links a free lock takes one round trip, whatever the number of nodes.
func TestAFreeLockIsHardlySlowerWithMoreNodes(t *testing.T) {
	sampled.Computes(t)
	for _, s := range shapes {
		took, err := acquire(s, equal, 60)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := rank(took, 1), rank(took, 100); least != 2*delay || most != 2*delay {
			t.Errorf("%v: %v to %v where links are equal, instead of one round of %v", s, least, most, 2*delay)
		}
	}
	first, err := acquire(shape{3, 3}, uneven, 600)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []shape{{7, 7}, {50, 7}} {
		took, err := acquire(s, uneven, 600)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := rank(took, 50), rank(first, 50); 2*a > 3*b || a <= b {
			t.Errorf("%v: the median is %v where links are uneven, and %v with three nodes", s, a, b)
		}
	}
}

// A free lock takes five messages for each voter asked, the node's own voter excepted. For a lock
// that is released at once, a bare majority is asked.
func TestTheWordsOfALockGrowWithTheVoters(t *testing.T) {
	const locks = 50
	perVoter := 0
	for _, voters := range electorates {
		for _, byVoter := range []bool{false, true} {
			for _, long := range []time.Duration{0, aWhile} {
				kinds, sum, err := lockWords(voters, byVoter, long, locks)
				if err != nil {
					t.Fatal(err)
				}
				asked := voters
				if long == 0 {
					asked = voters/2 + 1
				}
				if byVoter {
					asked--
				}
				if sum.messages != 5*asked*locks {
					t.Errorf("%d voters, asked by one of them: %v, held for %v: %d messages for %d locks instead of five for each of %d voters",
						voters, byVoter, long, sum.messages, locks, asked)
				}
				for k, x := range kinds {
					if x.messages != asked*locks {
						t.Errorf("%d voters: %d times %v for %d locks", voters, x.messages, k, locks)
					}
				}
				if asked == 0 {
					continue
				}
				if n := sum.bytes / asked; perVoter == 0 {
					perVoter = n
				} else if 100*n < 98*perVoter || 100*n > 102*perVoter {
					t.Errorf("%d voters: %d bytes for each, and %d where there is one", voters, n, perVoter)
				}
			}
		}
	}
}

// The number of refreshes doesn't depend on the number of leases; only the counts in the messages
// grow, by some bytes.
func TestRefreshesDoNotGrowWithLeases(t *testing.T) {
	sampled.Computes(t)
	s := shape{4, 3}
	none, err := refreshes(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, leases := range []int{1, 1000, 5000} {
		u, err := refreshes(s, leases)
		if err != nil {
			t.Fatal(err)
		}
		if u.mesh.messages != none.mesh.messages || u.voter.messages != none.voter.messages || u.other.messages != none.other.messages {
			t.Errorf("%d leases: %+v; without any %+v", leases, u, none)
		}
		if more := (u.mesh.bytes - none.mesh.bytes) / u.mesh.messages; more < 0 || more > 10 {
			t.Errorf("%d leases add %d bytes to each message", leases, more)
		}
	}
}

// Each node refreshes its session at each other voter five times per TTL, and receives an answer: a
// node's share doesn't grow with the number of nodes, and a voter's share grows by a refresh and
// its answer for each node.
func TestRefreshesGrowWithNodesTimesVoters(t *testing.T) {
	for _, s := range []shape{{3, 3}, {10, 7}, {50, 7}} {
		u, err := refreshes(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		rounds := 5 * int(refreshed/ttl)
		pairs := s.voters*(s.voters-1) + (s.nodes-s.voters)*s.voters
		for _, x := range []struct {
			what      string
			got, want int
		}{
			{"in all", u.mesh.messages, 2 * pairs * rounds},
			{"for a voter", u.voter.messages, 2 * (s.voters - 1 + s.nodes - 1) * rounds},
			{"for another", u.other.messages, 2 * s.voters * rounds * min(s.nodes-s.voters, 1)},
		} {
			// A timer is late now and then.
			if slack := x.want / 50; x.got < x.want-slack || x.got > x.want+slack {
				t.Errorf("%v: %d messages %s in %v instead of %d", s, x.got, x.what, refreshed, x.want)
			}
		}
	}
}

// A hand-over takes a release and a vote: two messages in turn, however many nodes wait and vote.
func TestAHandOverTakesTwoDelays(t *testing.T) {
	const grants = 64
	for _, voters := range []int{3, 5, 7} {
		for _, byVoters := range []bool{false, true} {
			if byVoters && voters < askers {
				continue
			}
			r, err := handOvers(voters, byVoters, grants)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.between) < grants*9/10 {
				t.Errorf("%d voters: %d of %d grants came from another node: this shows nothing", voters, len(r.between), grants)
			}
			for _, d := range r.between {
				// A node's own voter answers at once.
				if d != 2*delay && !(byVoters && d < 2*delay) {
					t.Fatalf("%d voters, byVoters %v: %v from a release to the next grant, of %d delays of %v", voters, byVoters, d, d/delay, delay)
				}
			}
			each := voters
			if byVoters {
				each--
			}
			// Some voter may be spared, and the count begins and ends in the middle of a hand-over.
			if want, one := 5*each*r.grants, 5*each; r.said.messages < want*9/10 || r.said.messages > want+one {
				t.Errorf("%d voters, byVoters %v: %d messages for %d grants instead of %d, as many as for free locks", voters, byVoters, r.said.messages, r.grants, want)
			}
		}
	}
}

// The page about performance shows this output, so the output must always be the same, in Markdown
// with headings of the third level.
func TestTheOutputIsTheSameEachTime(t *testing.T) {
	sampled.Computes(t)
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		for _, p := range []string{"silent", "lock", "handover", "gossip"} {
			if err := run([]string{"-quick", "-part", p}, b, io.Discard); err != nil {
				t.Fatal(err)
			}
		}
	}
	if first.String() != second.String() {
		t.Errorf("%s\nand then\n%s", first.String(), second.String())
	}
	for line := range strings.Lines(first.String()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "### ") {
			t.Errorf("a heading of another level: %s", line)
		}
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|\n") {
			t.Errorf("a row that isn't closed: %q", line)
		}
	}
}

// Asking a majority first costs nothing while the majority answers. After an asked voter has
// stopped, only the first lock waits a little for this voter.
func TestAVoterThatDoesNotAnswerCostsOneWait(t *testing.T) {
	all, first, after, err := silent(equal, 300)
	if err != nil {
		t.Fatal(err)
	}
	const trip = 2 * delay
	if least, most := rank(all, 1), rank(all, 100); least != trip || most != trip {
		t.Errorf("%v to %v while all answer", least, most)
	}
	if least, most := rank(after, 1), rank(after, 100); least != trip || most != trip {
		t.Errorf("%v to %v once it is known who is slow", least, most)
	}
	waited := 0
	for _, d := range first {
		if d == trip {
			continue
		}
		// Two round trips for the silent voter, a third for the spared voter, and a fourth if a
		// timer is late.
		if waited++; d < 3*trip-trip/10 || d > 4*trip+trip/10 {
			t.Errorf("the first took %v", d)
		}
	}
	if 3*waited != 2*len(first) {
		t.Errorf("%d of %d waited: of three voters two are asked", waited, len(first))
	}
}

func TestFlags(t *testing.T) {
	var b bytes.Buffer
	if err := run([]string{"-h"}, io.Discard, &b); err != nil || !strings.Contains(b.String(), "handover") || !strings.Contains(b.String(), "-quick") {
		t.Errorf("the help: %v, %s", err, b.String())
	}
	for flags, want := range map[string]string{"-part nothing": "there are acquire, silent, lock", "-nodes 3": "-h lists", "acquire": "isn't a flag"} {
		if err := run(strings.Fields(flags), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want something with %q", flags, err, want)
		}
	}
}

func TestRank(t *testing.T) {
	samples := []time.Duration{4, 1, 3, 2}
	for percent, want := range map[int]time.Duration{0: 1, 1: 1, 25: 1, 26: 2, 50: 2, 75: 3, 99: 4, 100: 4} {
		if got := rank(samples, percent); got != want {
			t.Errorf("%d %%: %v instead of %v", percent, got, want)
		}
	}
}

// Each kind of message of a free lock needs a row in the table.
func TestEveryWordOfALockHasARow(t *testing.T) {
	kinds, _, err := lockWords(3, false, aWhile, 3)
	if err != nil || len(kinds) != 5 || kinds[vote.KindPromise] == nil {
		t.Errorf("%v, %v", kinds, err)
	}
}
