package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// overATerm is longer than the term for which voters act without the register. An hour would show
// no more, and takes a minute and a half under the race detector.
const overATerm = DefaultRegisterTerm + 2*time.Minute

// registered returns an edit that gives a node a register.
func registered(r register.Register) func(*Config) {
	return func(c *Config) { c.Register = r }
}

// bornRegistered starts a, b and c with a register, and waits until they are the voters.
func (w *living) bornRegistered(r register.Register) {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		w.start(name, expect(3, registered(r)))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.ready(name)
	}
	w.untilVoters("a", "a", "b", "c")
}

// recordOf returns the record of a register.
func recordOf(t *testing.T, r register.Register) string {
	t.Helper()
	data, _, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// With a register, the first lock takes no longer than without a register.
func TestAMeshIsBornWithARegister(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		m, began := new(register.Memory), time.Now()
		w.bornRegistered(m)
		w.unlock(w.lock("a", "k"))
		if took := time.Since(began); took > DefaultMaxTTL+3*time.Second {
			t.Errorf("the first lock took %v", took)
		}
		first := recordOf(t, m)
		if !contains(first, `"mesh":"default"`, `"term":"10m0s"`, `"lockmesh_register":1`) {
			t.Error(first)
		}
		time.Sleep(overATerm)
		if recordOf(t, m) == first {
			t.Error("no voter has renewed the record")
		}
		w.unlock(w.lock("b", "k"))
		if n := w.logs.count("level=ERROR") + w.logs.count("level=WARN") - w.logs.count("no secret is set"); n != 0 {
			t.Errorf("warnings: %v", w.logs.lines)
		}
	})
}

// A mesh goes on without its register for two thirds of a term, and stops after a whole term.
func TestAMeshOutlivesAnOutageOfItsRegister(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		w.bornRegistered(m)
		held := w.lock("a", "held")
		m.Fail(errors.New("the database is down"))
		for range 6 {
			time.Sleep(time.Minute)
			w.unlock(w.lock("b", "k"))
		}
		if s := w.nodes["b"].Status().Electorate; !contains(s.Trouble, "the database is down", "votes count for another") {
			t.Errorf("%+v", s)
		}
		if n := w.logs.count("the register can't be used; will retry", "the database is down"); n != 3 {
			t.Errorf("%d warnings, want one on each of three nodes", n)
		}
		time.Sleep(5 * time.Minute)
		select {
		case <-held.Context().Done():
		default:
			t.Error("a lease is valid though no voter has been registered for a term")
		}
		_, err := w.nodes["b"].Lock(testwait.Within(t, 5*time.Second), "k")
		wantIs(t, err, ErrNoQuorum)
		if !contains(fmt.Sprint(err), "the register can't be used: the database is down") {
			t.Error(err)
		}
		m.Fail(nil)
		began := time.Now()
		w.unlock(w.lock("b", "k"))
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("after the outage a lock took %v", took)
		}
		time.Sleep(time.Minute)
		if n := w.logs.count("the register can be used again"); n != 3 {
			t.Errorf("%d nodes log the end of the outage", n)
		}
	})
}

// After the loss of all processes the next mesh waits for a term, and reports the wait.
func TestTheNextMeshWaitsForTheRegister(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		w.bornRegistered(m)
		first := w.lock("a", "k").Token()
		for _, name := range []string{"a", "b", "c"} {
			w.crash(name)
		}
		time.Sleep(overATerm)
		began := time.Now()
		for _, name := range []string{"d", "e", "f"} {
			w.start(name, expect(3, registered(m)))
		}
		_, err := w.nodes["d"].Lock(testwait.Within(t, 5*time.Minute), "k")
		wantIs(t, err, ErrNoQuorum, context.DeadlineExceeded)
		if !contains(fmt.Sprint(err), "the register names an earlier mesh", "stood unchanged for 10m0s (another 5m") {
			t.Error(err)
		}
		l, err := w.nodes["d"].Lock(testwait.Within(t, 10*time.Minute), "k")
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("the next mesh grants after %v", took)
		if took < DefaultRegisterTerm || took > DefaultRegisterTerm+30*time.Second {
			t.Errorf("it took %v", took)
		}
		if l.Token() <= first {
			t.Errorf("token %d after %d", l.Token(), first)
		}
		w.unlock(l)
	})
}

// Processes that share a register with a mesh out of their reach are told what to do: the record of
// a mesh that is alive never stands unchanged for a term.
func TestARegisterInUseByAMeshOutOfReach(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		w.bornRegistered(m)
		var peers []string
		for _, name := range []string{"d", "e", "f"} {
			peers = append(peers, wireAddr(name))
		}
		secret := NewSecret()
		for _, name := range []string{"d", "e", "f"} {
			w.start(name, expect(3, registered(m), func(c *Config) { c.Secret, c.Insecure, c.Peers = secret, false, peers }))
		}
		time.Sleep(DefaultRegisterTerm)
		change := w.nodes["d"].Status().Electorate.Change
		if !contains(change, "that mesh is alive", "Peers, Secret", "a Mesh name and a register of its own", "stood unchanged for 10m0s") {
			t.Errorf("d doesn't say what to do: %s", change)
		}
	})
}

// After the loss of a majority no process says that the lost mesh is alive: not the survivor, which
// has seen renewals by the lost voters, and after two thirds of a term no other process either.
func TestNoProcessTakesALostMeshForAlive(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		w.bornRegistered(m)
		secret := NewSecret()
		w.start("d", expect(3, registered(m), func(c *Config) { c.Secret, c.Insecure, c.Peers = secret, false, nil }))
		const alive, earlier = "that mesh is alive", "the register names an earlier mesh"
		time.Sleep(10 * time.Minute)
		if change := w.nodes["d"].Status().Electorate.Change; !contains(change, alive) {
			t.Errorf("beside the mesh d says %s", change)
		}
		w.crash("b")
		w.crash("c")
		for range 3 {
			time.Sleep(2 * time.Minute)
			if change := w.nodes["a"].Status().Electorate.Change; !contains(change, earlier) {
				t.Errorf("the survivor says %s", change)
			}
		}
		time.Sleep(3 * time.Minute) // d may see the last renewal a sixth of a term later
		if change := w.nodes["d"].Status().Electorate.Change; change == "" || contains(change, alive) {
			t.Errorf("beside the lost mesh d says %s", change)
		}
	})
}

// A rollout with a wrong secret stays shut, however many processes have this secret: the register
// keeps them from being born while the mesh lives that refuses them. After the end of that mesh and
// a term they are born.
func TestARolloutWithAWrongSecretStaysRefused(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m, right, wrong := new(register.Memory), NewSecret(), NewSecret()
		var peers []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			peers = append(peers, wireAddr(name))
		}
		with := func(secret Secret) func(*Config) {
			return expect(3, registered(m), func(c *Config) { c.Secret, c.Insecure, c.Peers = secret, false, peers })
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with(right))
		}
		w.ready("a")
		late := []string{"d", "e", "f"}
		for _, name := range late {
			w.start(name, with(wrong))
		}
		for range 15 { // at first the record's age is unknown, and later its renewals are seen
			time.Sleep(time.Minute)
			for _, name := range late {
				for _, wait := range []func(context.Context) error{w.nodes[name].Ready, w.nodes[name].Settled} {
					err := wait(testwait.Within(t, time.Second))
					wantIs(t, err, ErrRefused, context.DeadlineExceeded)
					if !contains(fmt.Sprint(err), "refuses this node", "the secrets differ", "the register names") {
						t.Fatal(err)
					}
				}
			}
		}
		w.unlock(w.lock("a", "k"))
		for _, name := range []string{"a", "b", "c"} {
			w.crash(name)
		}
		time.Sleep(overATerm)
		for _, name := range late {
			check(t, w.nodes[name].Ready(testwait.Within(t, time.Minute)))
		}
		w.untilVoters("d", late...)
		w.unlock(w.lock("d", "k"))
	})
}

// Processes without a vote that share a wrong secret are never born: that they accept each other
// shows nothing, with or without a register.
func TestProcessesWithoutAVoteAndWithAWrongSecretStayRefused(t *testing.T) {
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		right, wrong := NewSecret(), NewSecret()
		var peers []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			peers = append(peers, wireAddr(name))
		}
		with := func(secret Secret, nonVoting bool) func(*Config) {
			return expect(3, func(c *Config) { c.Secret, c.Insecure, c.Peers, c.NonVoting = secret, false, peers, nonVoting })
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with(right, false))
		}
		w.ready("a")
		late := []string{"d", "e", "f"}
		for _, name := range late {
			w.start(name, with(wrong, true))
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			for _, name := range late {
				err := w.nodes[name].Ready(testwait.Within(t, time.Second))
				wantIs(t, err, ErrRefused, context.DeadlineExceeded)
				if !contains(fmt.Sprint(err), "refuses this node", "the secrets differ") {
					t.Fatal(err)
				}
			}
		}
	})
}

// A mesh with a register refuses a process without a register: the process could bootstrap a second
// mesh.
func TestARegisterIsPartOfTheTerms(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		peers := func(c *Config) { c.Peers = []string{wireAddr("a"), wireAddr("b"), wireAddr("c")} }
		m := new(register.Memory)
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3, peers, registered(m)))
		}
		w.ready("a")
		w.start("d", expect(3, peers))
		_, err := w.nodes["d"].Lock(testwait.Within(t, time.Minute), "k")
		wantIs(t, err, ErrRefused)
		if !contains(fmt.Sprint(err), "Register is not set at d and set at") && !contains(fmt.Sprint(err), "Register is not set here and set at") {
			t.Error(err)
		}
		if r := w.nodes["a"].Status().Refused; len(r) != 1 || !contains(r[0].Reason, "Register is set here and not set at d") {
			t.Errorf("a refuses %+v", r)
		}
	})
}

// A node without a vote takes locks of a mesh with a register, and never calls the register.
func TestANodeThatNeverVotesCallsNoRegister(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		m, bad := new(register.Memory), new(register.Memory)
		bad.Fail(errors.New("called"))
		w.bornRegistered(m)
		w.start("x", expect(3, registered(bad), nonVoting))
		w.ready("x")
		w.unlock(w.lock("x", "k"))
		time.Sleep(overATerm)
		w.unlock(w.lock("x", "k"))
		if s := w.nodes["x"].Status().Electorate; s.Trouble != "" {
			t.Errorf("%+v", s)
		}
		if w.logs.count("called") != 0 {
			t.Error(w.logs.lines)
		}
	})
}

// hung is a register that answers no call.
type hung struct{}

func (hung) Load(ctx context.Context) ([]byte, string, error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

func (hung) Store(ctx context.Context, _ []byte, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestARegisterThatCantBeUsed(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	other := new(register.Memory)
	err := other.Store(t.Context(), []byte(`{"lockmesh_register":1,"mesh":"orders","lineage":"7","term":"10m0s","max_ttl":"10s","renewal":3,"writer":"x","writer_identity":"9"}`), "0")
	if err != nil {
		t.Fatal(err)
	}
	foreign := new(register.Memory)
	if err := foreign.Store(t.Context(), []byte(`{"kind":"Settings"}`), "0"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		register register.Register
		want     string
	}{
		{"it doesn't answer", hung{}, "the register can't be used: context deadline exceeded"},
		{"it is another mesh's", other, `the register is in use by the mesh "orders", and this one is "default": give each mesh a register of its own`},
		{"it holds something else", foreign, "the register holds something else than a record of lockmesh (no format)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				short := func(c *Config) { c.RegisterTerm = time.Minute }
				for _, name := range []string{"a", "b", "c"} {
					w.start(name, expect(3, registered(test.register), short))
				}
				_, err := w.nodes["a"].Lock(testwait.Within(t, time.Minute), "k")
				wantIs(t, err, ErrNoQuorum)
				if !strings.Contains(fmt.Sprint(err), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				time.Sleep(2 * time.Minute)
				if s := w.nodes["a"].Status().Electorate; s.Version != 0 || !strings.Contains(s.Trouble, test.want) {
					t.Errorf("%+v", s)
				}
				for _, on := range []string{"on=a", "on=b", "on=c"} {
					if n := w.logs.count("level=WARN", "msg=\"the register ", on); n != 1 {
						t.Errorf("%d lines about the register, %s: %q", n, on, w.logs.all("the register"))
					}
				}
			})
		})
	}
}

// deafRegister is a register with calls that ignore their context, and return at the end of the
// test.
type deafRegister struct{ over chan struct{} }

func (d *deafRegister) Load(context.Context) ([]byte, string, error) {
	<-d.over
	return nil, "", errors.New("the test is over")
}

func (d *deafRegister) Store(context.Context, []byte, string) error {
	<-d.over
	return errors.New("the test is over")
}

func TestCloseDoesNotWaitForADeafRegister(t *testing.T) {
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		d := &deafRegister{over: make(chan struct{})}
		release := sync.OnceFunc(func() { close(d.over) })
		defer release()
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3, registered(d)))
		}
		_, err := w.nodes["a"].Lock(testwait.Within(t, time.Minute), "k")
		wantIs(t, err, ErrNoQuorum)
		if !contains(fmt.Sprint(err), "the register can't be used") {
			t.Error(err)
		}
		began := time.Now()
		stuck := time.AfterFunc(time.Minute, release)
		for _, end := range []func() error{
			w.nodes["a"].Close,
			func() error { return w.nodes["b"].Leave(testwait.Within(t, 10*time.Second)) },
			func() error { return w.nodes["c"].Stop(testwait.Within(t, 10*time.Second)) },
		} {
			_ = end() // may fail for lack of voters
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the ends of three nodes took %v", took)
		}
		if !stuck.Stop() {
			t.Error("a node waited for the register")
		}
		if n := w.logs.count("the register has not returned"); n != 3 {
			t.Errorf("%d nodes log what goes on: %v", n, w.logs.lines)
		}
	})
}

// unreachable is a register that can be put out of reach.
type unreachable struct {
	register.Register
	off atomic.Bool
}

func (r *unreachable) Load(ctx context.Context) ([]byte, string, error) {
	if r.off.Load() {
		return nil, "", errors.New("out of reach")
	}
	return r.Register.Load(ctx)
}

// A voter of an earlier mesh goes on after a stop of minutes, and can't reach the register, which
// would tell it of the next mesh. The voter and the nodes of the next mesh don't talk to each other
// as fast as they can.
func TestAVoterOfAnEarlierMeshAsksSeldom(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for range 4 { // a draw of identities decides whether the voter asks at all
		inCountedBubble(t, func(t *testing.T, w *living) {
			w.Network = memnet.New(500 * time.Microsecond) // without latency no time would pass
			m := new(register.Memory)
			cutOff := &unreachable{Register: m}
			with := func(r register.Register) func(*Config) {
				return expect(3, func(c *Config) { c.Register, c.RegisterTerm = r, time.Minute })
			}
			for name, r := range map[string]register.Register{"a": m, "b": cutOff, "c": m} {
				w.start(name, with(r))
			}
			w.untilVoters("a", "a", "b", "c")
			time.Sleep(30 * time.Second)
			w.procs["b"].Pause()
			w.crash("a")
			w.start("d", with(m))
			w.start("e", with(m))
			time.Sleep(5 * time.Minute)
			w.ready("d")
			cutOff.off.Store(true)
			before := w.Messages()
			time.Sleep(time.Minute)
			usual := w.Messages() - before
			w.procs["b"].Resume()
			time.Sleep(time.Minute)
			n := w.Messages() - before - usual
			if most := 10 * usual; n > most {
				t.Errorf("%d messages in the minute after the stop; %d in the minute before", n, usual)
			}
		})
	}
}
