package lockmesh

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
)

func TestAMissingFounderIsWaitedForByName(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.start("a", found)
		w.start("b", found)
		time.Sleep(time.Minute)
		s := w.nodes["a"].Status()
		if e := s.Electorate; e.Version != 0 || !strings.Contains(e.Change, "waits for all founders; missing: c (not reached)") || !strings.Contains(s.String(), e.Change) {
			t.Errorf("%v", s)
		}
		_, err := w.nodes["a"].TryLock(testwait.Within(t, 5*time.Minute), "k")
		wantIs(t, err, ErrNoQuorum)
		if !strings.Contains(err.Error(), "missing: c") {
			t.Errorf("%v", err)
		}
		err = w.nodes["b"].Ready(testwait.Within(t, time.Second))
		wantIs(t, err, ErrNoQuorum, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "missing: c") {
			t.Errorf("%v", err)
		}
		waiting := make(chan error, 1)
		go func() {
			l, err := w.nodes["b"].Lock(t.Context(), "k")
			if err == nil {
				err = l.Unlock(t.Context())
			}
			waiting <- err
		}()
		synctest.Wait()
		w.start("c", found)
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}

func TestAFounderThatIsNotToldToFoundIsNamed(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.start("a", found)
		w.start("b", found)
		w.start("c", nil)
		s := w.until("a", "c named", func(s ElectorateStatus) bool { return strings.Contains(s.Change, "c (started without Bootstrap)") })
		if s.Version != 0 {
			t.Errorf("%v", s)
		}
		if s := w.nodes["c"].Status().Electorate; !strings.Contains(s.Change, "waits to reach a node that knows it") {
			t.Errorf("%q", s.Change)
		}
	})
}

func TestNewcomersAreVotedInTheDeadAreVotedOutAndALeaseLivesOn(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		held := w.lock("a", "held")
		w.start("d", nil)
		w.start("e", nil)
		w.untilVoters("a", "a", "b", "c", "d", "e")
		w.untilVoters("e", "a", "b", "c", "d", "e")
		if err := held.Err(); err != nil {
			t.Fatalf("the lease: %v", err)
		}
		w.crash("b")
		w.crash("c")
		s := w.untilVoters("a", "a", "d", "e")
		if s.Majority != 2 || !s.Ready {
			t.Errorf("%v", s)
		}
		w.untilVoters("d", "a", "d", "e")
		// until no lease rests on the votes of b and c
		time.Sleep(2 * DefaultMaxTTL)
		// No node dials a crashed node any more.
		for name, want := range map[string][]string{"a": {"d", "e"}, "d": {"a", "e"}} {
			var dialed []string
			for name := range w.nodes[name].eng.Links() {
				dialed = append(dialed, string(name))
			}
			if slices.Sort(dialed); !slices.Equal(dialed, want) {
				t.Errorf("%s dials %v, want %v", name, dialed, want)
			}
		}
		w.crash("e")
		w.unlock(w.lock("d", "other"))
		if err := held.Err(); err != nil {
			t.Fatalf("the lease: %v", err)
		}
		w.unlock(held)
		w.unlock(w.lock("d", "held"))
		if err := errors.Join(w.nodes["a"].Close(), w.nodes["d"].Close()); err != nil {
			t.Error(err)
		}
		if n := w.logs.count("the electorate has changed", "on=a"); n < 4 {
			t.Errorf("a has logged %d changes", n)
		}
	})
}

// A node drops the link to a standby that has crashed, and makes a new link once the standby is
// back.
func TestConnectionsFollowTheWantedNodes(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nil)
		w.until("a", "d standing by", func(s ElectorateStatus) bool { return len(s.Standby) == 1 })
		a := w.nodes["a"]
		links := func() map[vote.NodeID]bool { synctest.Wait(); return a.eng.Links() }
		if got, want := links(), (map[vote.NodeID]bool{"b": true, "c": true, "d": true}); !maps.Equal(got, want) {
			t.Errorf("links of a: %v, want those to b, c and the standby d", got)
		}
		w.crash("d")
		time.Sleep(5 * time.Second)
		if got, want := links(), (map[vote.NodeID]bool{"b": true, "c": true}); !maps.Equal(got, want) {
			t.Errorf("links of a: %v; d is gone and doesn't vote", got)
		}
		w.start("d", nil)
		time.Sleep(5 * time.Second)
		if got := links(); !got["d"] {
			t.Errorf("links of a: %v; d is back", got)
		}
	})
}

// A failed dial of a voter is reported once. A node that learns of the electorate only later must
// show the voter as unreachable nevertheless.
func TestWhyAVoterIsUnreachableIsKnownWhenTheElectorateIs(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.crash("c")
		w.stall("a", true)
		w.stall("b", true)
		w.start("d", nil)
		time.Sleep(time.Second)
		w.stall("a", false)
		w.stall("b", false)
		s := w.until("d", "an electorate", func(s ElectorateStatus) bool { return s.Ready })
		if i := slices.Index(s.names(), "c"); i < 0 || s.Voters[i].State != VoterUnreachable {
			t.Errorf("%+v", s.Voters)
		}
	})
}

func TestLeaveVotesOutAndThenSaysGoodbye(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nil) // a standby: four voters tolerate no more failures than three
		w.until("a", "d standing by", func(s ElectorateStatus) bool { return slices.Equal(s.Standby, []string{"d"}) })
		if err := w.nodes["d"].Leave(testwait.Within(t, time.Second)); err != nil {
			t.Errorf("who is no voter leaves at once: %v", err)
		}
		w.start("d", nil)
		w.until("a", "d standing by", func(s ElectorateStatus) bool { return slices.Equal(s.Standby, []string{"d"}) })
		// Whether d's restart was noticed or not, d has been alive for long enough to become a
		// voter.
		time.Sleep(2 * DefaultMaxTTL)
		l := w.lock("b", "k")
		if err := w.nodes["b"].Leave(testwait.Within(t, 3*DefaultMaxTTL)); err != nil {
			t.Error(err)
		}
		wantIs(t, l.Err(), ErrReleased)
		s := w.untilVoters("a", "a", "c", "d")
		if s.Version != 3 {
			t.Errorf("%v", s)
		}
		w.unlock(w.lock("a", "k"))
	})
}

// TestFiveVotersThatLeaveInTurnStayThree shows that a rolling restart by Leave, which votes each
// voter out, never leaves fewer than three voters, whether Ready or Settled lets the next node go.
func TestFiveVotersThatLeaveInTurnStayThree(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for name, gate := range map[string]func(*Mesh, context.Context) error{"ready": (*Mesh).Ready, "settled": (*Mesh).Settled} {
		t.Run(name, func(t *testing.T) {
			inLivingBubble(t, func(t *testing.T, w *living) {
				w.foundAll()
				w.start("d", nil)
				w.start("e", nil)
				w.untilVoters("a", "a", "b", "c", "d", "e")
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					if err := w.nodes[name].Leave(testwait.Within(t, 30*time.Second)); err != nil {
						t.Errorf("%s leaves: %v", name, err)
					}
					if err := gate(w.start(name, nil), testwait.Within(t, 5*time.Minute)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					w.untilVoters(name, "a", "b", "c", "d", "e")
				}
				if w.logs.count("the electorate has changed") == 0 {
					t.Fatal("no electorate was logged")
				}
				for _, line := range w.logs.all("the electorate has changed") {
					if _, text, found := strings.Cut(line, `voters="[`); !found || len(strings.Fields(text[:strings.Index(text, "]")])) < 3 {
						t.Errorf("fewer than three voters: %s", line)
					}
				}
			})
		})
	}
}

func TestAVoterThatOthersCannotDoWithoutSaysSoWhenItLeaves(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = []string{"a", "b"}
		w.foundAll()
		err := w.nodes["b"].Leave(testwait.Within(t, time.Minute))
		wantIs(t, err, ErrStillVoter)
		if !strings.Contains(err.Error(), "electorate 1 (a, b)") || !strings.Contains(err.Error(), "until it is back") {
			t.Errorf("%v", err)
		}
		w.start("b", nil)
		w.unlock(w.lock("a", "k"))
	})
}

func TestAWipedFounderIsANewPeer(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		before := w.nodes["c"].Status().Electorate
		w.crash("c")
		w.Wipe(statePath("c"))
		w.start("c", found) // c doesn't bootstrap, since the other founders know the electorate
		s := w.until("a", "c voted in anew", func(s ElectorateStatus) bool {
			return !s.Joint && s.Version >= 3 && slices.Equal(s.names(), []string{"a", "b", "c"})
		})
		after := w.until("c", "itself a voter", func(s ElectorateStatus) bool {
			return s.Voter && s.StoredVersion == s.Version && !s.Joint && s.Version >= 3
		})
		if after.DirID == before.DirID {
			t.Errorf("%v", s)
		}
		w.unlock(w.lock("c", "k"))
	})
}

func TestFoundThatIsLeftSetIsWarnedOf(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		synctest.Wait()
		const warning = "BOOTSTRAP IS STILL SET"
		if n := w.logs.count(warning, "level=WARN", "on=a"); n != 1 {
			t.Errorf("%d warnings after the founding", n)
		}
		for range 2 {
			w.crash("a")
			w.start("a", found)
			w.ready("a")
		}
		w.crash("a")
		w.start("a", nil)
		w.ready("a")
		if n := w.logs.count(warning, "level=WARN", "on=a"); n != 3 {
			t.Errorf("%d warnings, want one after the founding and one at each of two starts", n)
		}
	})
}

func TestADiskThatFailsKeepsNoNodeFromLocking(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.crash("b")
		w.FailDisk(statePath("b"), errors.New("no space left"))
		w.start("b", nil)
		s := w.until("b", "trouble", func(s ElectorateStatus) bool { return s.Trouble != "" })
		if !strings.Contains(s.Trouble, "no space left") || !strings.Contains(w.nodes["b"].Status().String(), "trouble: the state directory can't be written") {
			t.Errorf("%q", s.Trouble)
		}
		w.crash("c")
		w.unlock(w.lock("b", "k")) // by the votes of a and b
		synctest.Wait()
		if n := w.logs.count("level=ERROR", "takes no part in changes", "on=b"); n != 1 {
			t.Errorf("%d alarms", n)
		}
		w.FailDisk(statePath("b"), nil)
		w.until("b", "no trouble", func(s ElectorateStatus) bool { return s.Trouble == "" })
	})
}

func TestASlowDiskDelaysNoLock(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.crash("c")
		w.SlowDisk(statePath("c"), time.Minute)
		w.start("c", nil)
		w.crash("b")
		start := time.Now()
		w.unlock(w.lock("c", "k"))
		if d := time.Since(start); d > 2*DefaultMaxTTL {
			t.Errorf("the lock took %v", d)
		}
		if err := w.nodes["c"].Close(); !errors.Is(err, ErrStateDir) {
			t.Errorf("closing while the disk is at work: %v", err)
		}
		w.meshes = slices.DeleteFunc(w.meshes, func(m *Mesh) bool { return m == w.nodes["c"] })
		time.Sleep(2 * time.Minute)
		w.SlowDisk(statePath("c"), 0)
		w.start("c", nil) // the directory is free again
	})
}

func TestFixedAndDynamicNodesRefuseEachOther(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		fixed := w.start("d", func(c *Config) { c.StateDir = "" })
		err := fixed.Ready(testwait.Within(t, time.Minute))
		wantIs(t, err, ErrRefused)
		if !strings.Contains(err.Error(), "the electorate is fixed here and is dynamic there") && !strings.Contains(err.Error(), "the electorate is dynamic here and is fixed there") {
			t.Errorf("%v", err)
		}
	})
	inBubble(t, func(t *testing.T, w *wire) {
		w.three()
		d := w.join("d", []string{"a", "b", "c"}, func(c *Config) { c.StateDir = "/state/d" })
		err := d.Ready(testwait.Within(t, time.Minute))
		wantIs(t, err, ErrRefused)
		if !strings.Contains(err.Error(), "the electorate is dynamic ") {
			t.Errorf("%v", err)
		}
	})
}

func TestALostElectorateIsToldOfAndFoundedAgain(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nil)
		w.until("a", "d standing by", func(s ElectorateStatus) bool { return len(s.Standby) == 1 })
		a := w.nodes["a"]
		wantIs(t, a.Recover(t.Context(), "a", "d"), ErrNotLost)
		w.crash("b")
		w.crash("c")
		s := w.until("a", "the loss", func(s ElectorateStatus) bool { return s.Lost != "" })
		if !strings.Contains(s.Lost, "(Recover)") || !strings.Contains(a.Status().String(), "LOST: "+s.Lost[:20]) {
			t.Errorf("%q", s.Lost)
		}
		time.Sleep(10 * time.Second)
		_, err := a.TryLock(t.Context(), "k")
		wantIs(t, err, ErrNoQuorum)
		for _, err := range []error{err, a.Ready(testwait.Within(t, time.Second))} {
			if !strings.Contains(err.Error(), "an operator must name new voters (Recover)") {
				t.Errorf("%v", err)
			}
		}
		if n := w.logs.count("level=ERROR", "the electorate is lost", "on=a"); n != 1 {
			t.Errorf("%d lines say so", n)
		}
		for _, row := range []struct {
			says   string
			voters []string
		}{
			{"no voter is named", nil}, {"listed twice", []string{"a", "a"}}, {"not in touch with b", []string{"a", "b"}}, {"must be among the voters", []string{"d"}}, {"spaces", []string{"a b"}},
		} {
			err := a.Recover(t.Context(), row.voters...)
			wantIs(t, err, ErrConfig)
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("Recover(%q): %v", row.voters, err)
			}
		}
		if err := a.Recover(t.Context(), "a", "d"); err != nil {
			t.Fatal(err)
		}
		w.untilVoters("d", "a", "d")
		w.unlock(w.lock("d", "k"))
		time.Sleep(2 * time.Second)
		if n := w.logs.count("level=INFO", "is no longer lost", "on=a"); n != 1 {
			t.Errorf("%d lines say that it is over", n)
		}
		// b has the directory of the lost electorate, and learns of the new electorate.
		w.start("b", nil)
		w.until("b", "the new electorate", func(s ElectorateStatus) bool { return s.Version > 1000 })
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		wantIs(t, a.Recover(t.Context(), "a"), ErrClosed)
	})
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		err := a.Recover(t.Context(), "a")
		wantIs(t, err, ErrConfig)
		if !strings.Contains(err.Error(), "the electorate is fixed") {
			t.Errorf("%v", err)
		}
	})
}

// The voters' names are back, and answer, but the promises of the voters are gone.
func TestVotersThatLostTheirDirectoriesAreLost(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		for _, name := range []string{"b", "c"} {
			w.crash(name)
			w.Wipe(statePath(name))
			w.start(name, nil)
		}
		s := w.until("a", "the loss", func(s ElectorateStatus) bool { return s.Lost != "" })
		if !strings.Contains(s.Lost, "b, which is back with another state directory") {
			t.Errorf("%q", s.Lost)
		}
		if text := w.nodes["a"].Status().String(); !strings.Contains(text, "b connecting (it doesn't know that it is a voter") {
			t.Error(text)
		}
		if err := w.nodes["a"].Recover(t.Context(), "a", "b", "c"); err != nil {
			t.Fatal(err)
		}
		w.untilVoters("c", "a", "b", "c")
		w.unlock(w.lock("b", "k"))
	})
}

func TestWatchElectorateTellsTheNewestAndEnds(t *testing.T) {
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		ctx, cancel := context.WithCancel(t.Context())
		slow, err := w.nodes["a"].WatchElectorate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		idle, err := w.nodes["a"].WatchElectorate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := <-idle; s.Version != 1 || !s.Dynamic {
			t.Errorf("%v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for len(idle) > 0 {
			<-idle
		}
		time.Sleep(time.Minute)
		select {
		case s := <-idle:
			t.Errorf("told %+v though nothing has changed", s)
		default:
		}
		w.start("d", nil)
		w.start("e", nil)
		w.untilVoters("a", "a", "b", "c", "d", "e")
		if s := <-slow; s.Version != 3 {
			t.Errorf("a slow reader gets %v, not the newest", s)
		}
		cancel()
		synctest.Wait()
		for range slow { // the channel is closed
		}
		if err := w.nodes["a"].Close(); err != nil {
			t.Error(err)
		}
		for range idle {
		}
		if _, err := w.nodes["a"].WatchElectorate(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if _, err := w.nodes["b"].WatchElectorate(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		states, err := a.WatchElectorate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := <-states; s.Dynamic || len(s.Voters) != 3 {
			t.Errorf("%v", s)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for s := range states {
			if s.Counting == 2 {
				break
			}
		}
	})
}

func TestAWatchOfAKeyLivesThroughChangesOfTheElectorate(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		watch, err := w.nodes["a"].Watch(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		next := func() Event {
			t.Helper()
			e, ok := <-watch.Events()
			if !ok {
				t.Fatal(watch.Err())
			}
			return e
		}
		if e := next(); e.Kind != EventSynced {
			t.Fatal(e)
		}
		l := w.lock("b", "k")
		if e := next(); e.Kind != EventGranted {
			t.Fatal(e)
		}
		w.start("d", nil)
		w.start("e", nil)
		w.untilVoters("a", "a", "b", "c", "d", "e")
		w.crash("c")
		w.crash("e")
		w.untilVoters("a", "a", "b", "d")
		w.unlock(l)
		if e := next(); e.Kind != EventReleased {
			t.Error(e)
		}
	})
}

func TestAStateDirectoryThatIsNotThisNodesKeepsItFromStarting(t *testing.T) {
	dir := t.TempDir()
	inLivingBubble(t, func(t *testing.T, w *living) {
		path := filepath.Join(dir, "state of a")
		disk := func(name, mesh string) (*Mesh, error) {
			p := w.Start()
			cfg := w.config(name)
			cfg.Clock, cfg.StateDir, cfg.Mesh = p.Clock(), path, mesh
			in := p.World()
			in.State = func(path string) (world.StateDir, error) {
				d, err := statedir.Open(path)
				if err != nil {
					return nil, err
				}
				return d, nil
			}
			return join(t.Context(), cfg, in)
		}
		says := func(what string, m *Mesh, err error, texts ...string) {
			t.Helper()
			if err == nil {
				t.Errorf("%s: it started", what)
				_ = m.Close()
				return
			}
			wantIs(t, err, ErrStateDir)
			for _, text := range texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v doesn't say %q", what, err, text)
				}
			}
		}
		a, err := disk("a", "m")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		m, err := disk("a", "m")
		says("a second process", m, err, path, "stop the other process")
		dirID := a.Status().Electorate.DirID
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		m, err = disk("b", "m")
		says("another name", m, err, `it is of node "a"`, "give each node a directory of its own")
		m, err = disk("a", "n")
		says("another mesh", m, err, `it is of mesh "m"`)
		again, err := disk("a", "m")
		if err != nil {
			t.Fatal(err)
		}
		if again.Status().Electorate.DirID != dirID {
			t.Error("the directory came back as another")
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "state"), []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err = disk("a", "m")
		says("rubbish", m, err, "can't be trusted", "remove it")
	})
}

// A voter takes time to leave. A pending Ready ends at once, with ErrClosed: the node takes no more
// calls.
func TestReadyEndsWhenLeaveBegins(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.crash("b")
		w.crash("c")
		a := w.nodes["a"]
		w.until("a", "no majority", func(s ElectorateStatus) bool { return !s.Ready })
		waited := make(chan error, 1)
		go func() { waited <- a.Ready(t.Context()) }()
		synctest.Wait()
		left := make(chan error, 1)
		go func() { left <- a.Leave(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-waited:
			wantIs(t, err, ErrClosed)
		default:
			t.Error("Ready still waits though the node is leaving")
		}
		wantIs(t, <-left, ErrStillVoter)
	})
}
