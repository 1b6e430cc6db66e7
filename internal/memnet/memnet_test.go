package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a node that records the reports of its links.
type box struct {
	*port
	process *Process
	began   time.Time

	mu   sync.Mutex
	said []string
}

func (b *box) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, fmt.Sprintf("%v: ", time.Since(b.began))+fmt.Sprintf(format, args...))
}

func (b *box) Linked(_ vote.Conn, peer vote.SessionID, dialed, fixed bool) {
	if fixed {
		b.note("linked the fixed %s %v", peer.Node, dialed)
		return
	}
	b.note("linked %s %v", peer.Node, dialed)
}

func (b *box) Received(_ vote.Conn, peer vote.SessionID, batch *transport.Batch) {
	for i := range batch.Messages {
		b.note("%d of %s", batch.Messages[i].Number, peer.Node)
	}
	batch.Free()
}

func (b *box) Closed(_ vote.Conn, peer vote.SessionID, err error) {
	b.note("closed %s %v", peer.Node, err)
}

// heard waits until all events due now have happened, and returns the records since the last call.
func (b *box) heard() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	said := strings.Join(b.said, "; ")
	b.said = nil
	return said
}

func (b *box) want(t *testing.T, want string) {
	t.Helper()
	if got := b.heard(); got != want {
		t.Errorf("%s heard %q, want %q", b.name(), got, want)
	}
}

// run runs a test with nodes a and b after a dial from a to b; the reports of the dial are dropped,
// and the time begins.
func run(t *testing.T, latency time.Duration, f func(t *testing.T, n *Network, a, b *box, c vote.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New(latency)
		a, b := listen(t, n, "a", nil), listen(t, n, "b", nil)
		c, err := a.Dial(t.Context(), "b:1", "b")
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []*box{a, b} {
			b.heard()
			b.began = time.Now()
		}
		f(t, n, a, b, c)
	})
}

func listen(t *testing.T, n *Network, name string, edit func(*transport.Config)) *box {
	t.Helper()
	b := &box{process: n.Start(), began: time.Now()}
	cfg := transport.Config{
		Bind: name + ":1", Self: vote.SessionID{Node: vote.NodeID(name), Incarnation: 1}, Handler: b,
		Terms: transport.Terms{Mesh: "m", MaxTTL: time.Second, Voters: []vote.NodeID{"b", "a"}},
	}
	if edit != nil {
		edit(&cfg)
	}
	links, err := b.process.World().Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.port = links.(*port)
	t.Cleanup(func() {
		b.process.Kill()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func number(n vote.Number) *vote.Message {
	return &vote.Message{Kind: vote.KindRelease, Stream: 1, Number: n}
}

func cutting(from, to string) func(string, string) bool {
	return func(f, t string) bool { return f == from && t == to }
}

func TestMessagesArriveInOrderAfterTheLatency(t *testing.T) {
	run(t, 3*time.Millisecond, func(t *testing.T, _ *Network, a, b *box, c vote.Conn) {
		a.Send(c, number(1))
		a.Send(c, number(2))
		time.Sleep(time.Millisecond)
		a.Send(c, number(3))
		time.Sleep(time.Second)
		b.want(t, "3ms: 1 of a; 3ms: 2 of a; 4ms: 3 of a")
		a.want(t, "")
	})
}

func TestACutHoldsBackWhatIsSentAndNothingElse(t *testing.T) {
	run(t, time.Millisecond, func(t *testing.T, n *Network, a, b *box, c vote.Conn) {
		n.Cut(cutting("a", "b"))
		a.Send(c, number(1))
		b.Send(c+1, number(7)) // the connection has the next number at b
		time.Sleep(time.Second)
		b.want(t, "")
		a.want(t, "1ms: 7 of b")
		a.CloseConn(c)
		n.Cut(cutting("b", "a"))
		time.Sleep(time.Second)
		b.want(t, "1s: 1 of a; 1.001s: closed a EOF")
		a.want(t, "1s: closed b transport closed")
	})
}

func TestAClosedConnectionTakesAnythingAndForgetsIt(t *testing.T) {
	run(t, time.Millisecond, func(t *testing.T, _ *Network, a, b *box, c vote.Conn) {
		a.Send(c, number(1))
		a.CloseConn(c)
		a.CloseConn(c)
		a.Send(c, number(2))
		time.Sleep(time.Second)
		b.want(t, "1ms: 1 of a; 1ms: closed a EOF")
		a.want(t, "0s: closed b transport closed")
	})
}

func TestBothSidesSeeABrokenConnectionAtOnce(t *testing.T) {
	run(t, time.Millisecond, func(t *testing.T, n *Network, a, b *box, c vote.Conn) {
		a.Send(c, number(1))
		n.HangUp("b")
		a.want(t, "0s: closed b EOF")
		b.want(t, "0s: closed a EOF")
		if n.Connections() != 1 {
			t.Errorf("%d connections", n.Connections())
		}
	})
}

func TestAQueueThatIsFullBreaksTheConnection(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, b *box, c vote.Conn) {
		n.Cut(cutting("a", "b"))
		n.queueMax = 1000
		for i := range vote.Number(1000) {
			a.Send(c, number(i))
		}
		a.want(t, "0s: closed b "+transport.ErrQueueFull.Error())
	})
}

func TestWhatAPausedProcessDoesWaits(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(a *box, c vote.Conn)
	}{
		{"it reads what its clock shows", func(a *box, _ vote.Conn) { a.process.Clock().Now() }},
		{"it reads how much time has passed", func(a *box, _ vote.Conn) { a.process.Clock().Steady() }},
		{"it sends", func(a *box, c vote.Conn) { a.Send(c, number(1)) }},
		{"it hangs up", func(a *box, c vote.Conn) { a.CloseConn(c) }},
		{"it closes", func(a *box, _ vote.Conn) { _ = a.Close() }},
		{"it dials", func(a *box, _ vote.Conn) { _, _ = a.Dial(context.Background(), "b:1", "b") }},
		{"it probes", func(a *box, _ vote.Conn) { _, _ = a.Probe(context.Background(), "b:1") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			run(t, 0, func(t *testing.T, _ *Network, a, b *box, c vote.Conn) {
				a.process.Pause()
				done := make(chan time.Time, 1)
				go func() {
					row.do(a, c)
					done <- time.Now()
				}()
				time.Sleep(time.Hour)
				b.want(t, "")
				a.process.Resume()
				if waited := (<-done).Sub(a.began); waited != time.Hour {
					t.Errorf("it waited for %v", waited)
				}
			})
		})
	}
}

func TestNothingComesToAPausedProcess(t *testing.T) {
	run(t, 0, func(t *testing.T, _ *Network, a, b *box, c vote.Conn) {
		b.process.Pause()
		fired := make(chan time.Time, 1)
		b.process.Clock().AfterFunc(time.Second, func() { fired <- time.Now() })
		a.Send(c, number(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, dial := range []func() error{
			func() error { _, err := a.Dial(ctx, "b:1", "b"); return err },
			func() error { _, err := a.Probe(ctx, "b:1"); return err },
		} {
			if err := dial(); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		b.want(t, "")
		b.process.Resume()
		b.want(t, "1m0s: 1 of a")
		if late := (<-fired).Sub(b.began); late != time.Minute {
			t.Errorf("a timer fired after %v", late)
		}
	})
}

func TestNothingLeavesAProcessThatWasKilled(t *testing.T) {
	run(t, 0, func(t *testing.T, _ *Network, a, b *box, c vote.Conn) {
		a.process.Pause()
		go func() {
			a.Send(c, number(1))
			a.CloseConn(c)
		}()
		synctest.Wait()
		a.process.Kill()
		b.want(t, "")
		if _, err := a.Dial(t.Context(), "b:1", "b"); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("it dials: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		b.want(t, "0s: closed a EOF")
	})
}

func TestAClockThatIsSetChangesWhatItShowsAndNothingElse(t *testing.T) {
	run(t, 0, func(t *testing.T, _ *Network, a, _ *box, _ vote.Conn) {
		c := a.process.Clock()
		began := c.Steady()
		fired := make(chan time.Time, 1)
		c.AfterFunc(time.Second, func() { fired <- time.Now() })
		for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
			c.Set(ahead)
			if off := time.Until(c.Now()); off != ahead {
				t.Errorf("it is %v ahead, not %v", off, ahead)
			}
		}
		c.Set(time.Hour)
		if late := (<-fired).Sub(a.began); late != time.Second {
			t.Errorf("a timer fired after %v", late)
		}
		if passed := c.Steady().Sub(began); passed != time.Second {
			t.Errorf("%v have passed", passed)
		}
	})
}

func TestDialing(t *testing.T) {
	const latency = time.Millisecond
	for _, row := range []struct {
		name    string
		prepare func(t *testing.T, n *Network, b *box)
		addr    string
		want    vote.NodeID
		says    string
		after   time.Duration
	}{
		{"somebody is there", func(*testing.T, *Network, *box) {}, "b:1", "b", "<nil>", 2 * latency},
		{"nobody is there", func(*testing.T, *Network, *box) {}, "x:1", "x", "connection refused", 2 * latency},
		{"somebody was there", func(_ *testing.T, _ *Network, b *box) { _ = b.Close() }, "b:1", "b", "connection refused", 2 * latency},
		{"somebody else is there", func(*testing.T, *Network, *box) {}, "b:1", "c", "belongs to b, not to c", 2 * latency},
		{"it is ourselves", func(*testing.T, *Network, *box) {}, "a:1", "a", transport.ErrSelf.Error(), 2 * latency},
		{"the way is cut", func(_ *testing.T, n *Network, _ *box) { n.Cut(cutting("a", "b")) }, "b:1", "b", "deadline exceeded", time.Minute},
		{"the way back is cut", func(_ *testing.T, n *Network, _ *box) { n.Cut(cutting("b", "a")) }, "b:1", "b", "deadline exceeded", time.Minute},
		{
			"the way is cut, and nobody is there any more",
			func(_ *testing.T, n *Network, b *box) { n.Cut(cutting("a", "b")); _ = b.Close() }, "b:1", "b", "deadline exceeded", time.Minute,
		},
		{
			"the way heals",
			func(_ *testing.T, n *Network, _ *box) {
				n.Cut(cutting("a", "b"))
				time.AfterFunc(time.Second, func() { n.Cut(cutting("c", "b")) })
			}, "b:1", "b", "<nil>", time.Second + 2*latency,
		},
		{
			"they have another MaxTTL and other voters",
			func(t *testing.T, n *Network, _ *box) {
				listen(t, n, "c", func(c *transport.Config) {
					c.Terms.MaxTTL *= 2
					c.Terms.Voters = []vote.NodeID{"c"}
					c.Terms.Mesh = "n"
				})
			}, "c:1", "c", "mesh name is m here and n there; MaxTTL is 1s here and 2s there; the list of voters is [a b] here and [c] there", 2 * latency,
		},
		{
			"their electorate is dynamic",
			func(t *testing.T, n *Network, _ *box) { listen(t, n, "c", dynamic) },
			"c:1", "c", "the electorate is fixed here and is dynamic there", 2 * latency,
		},
		{
			"they have another secret",
			func(t *testing.T, n *Network, _ *box) {
				listen(t, n, "c", func(c *transport.Config) { c.Secrets = [][]byte{[]byte("x")} })
			},
			"c:1", "c", "the secrets differ", 2 * latency,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			run(t, latency, func(t *testing.T, n *Network, a, b *box, _ vote.Conn) {
				row.prepare(t, n, b)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := a.Dial(ctx, row.addr, row.want)
				if took := time.Since(began); !strings.Contains(fmt.Sprint(err), row.says) || took != row.after {
					t.Errorf("%v after %v; want %q after %v", err, took, row.says, row.after)
				}
			})
		})
	}
}

// dynamic gives a node dynamic membership.
func dynamic(c *transport.Config) { c.Terms.Dynamic = true }

func TestFixedAndDynamicElectoratesRefuseEachOther(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, _ *box, _ vote.Conn) {
		c, d := listen(t, n, "c", dynamic), listen(t, n, "d", func(c *transport.Config) {
			dynamic(c)
			c.Terms.Voters = []vote.NodeID{"d"}
		})
		listen(t, n, "e", dynamic)
		for _, row := range []struct {
			from *box
			to   vote.NodeID
			says string
		}{
			{a, "c", "the electorate is fixed here and is dynamic there"},
			{c, "a", "the electorate is dynamic here and is fixed there"},
			{d, "c", "the list of founders is [d] here and [a b] there"},
			{c, "e", ""},
		} {
			_, err := row.from.Dial(t.Context(), string(row.to)+":1", row.to)
			if row.says == "" {
				if err != nil {
					t.Errorf("%s dials %s: %v", row.from.name(), row.to, err)
				}
				continue
			}
			var no *transport.RefusedError
			if !errors.As(err, &no) || no.Reason != vote.ReasonTerms || no.Text != row.says {
				t.Errorf("%s dials %s: %v, want %q", row.from.name(), row.to, err, row.says)
			}
		}
	})
}

func TestGossipTellsTheStateDirectoriesOfThoseWithTheSameKindOfElectorate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(0)
		var told []member.Event // the events at a; this gossip delivers events before it returns
		join := func(b *box, life vote.Incarnation, dir vote.Dir, handler func(member.Event)) member.Group {
			t.Helper()
			g, err := b.process.World().Gossip(b.port, member.Config{
				Self: vote.SessionID{Node: b.name(), Incarnation: life}, Dir: dir, Handler: handler,
			})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		ignore := func(member.Event) {}
		a := join(listen(t, n, "a", dynamic), 1, 0xa, func(e member.Event) { told = append(told, e) })
		fixed := join(listen(t, n, "c", nil), 3, 0, ignore)
		b := listen(t, n, "b", dynamic)
		join(b, 2, 0xb, ignore)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		join(listen(t, n, "b", dynamic), 22, 0xbb, ignore) // the directory of b was wiped

		first := member.Member{Name: "b", Incarnation: 2, Dir: 0xb, Addr: "b:1", State: vote.Alive}
		second := member.Member{Name: "b", Incarnation: 22, Dir: 0xbb, Addr: "b:1", State: vote.Alive}
		self := member.Member{Name: "a", Incarnation: 1, Dir: 0xa, Addr: "a:1", State: vote.Alive}
		failed := first
		failed.State = vote.Failed
		if want := []member.Event{{Member: first, Kind: member.Joined}, {Member: failed, Kind: member.MemberFailed}, {Member: second, Kind: member.Joined}}; !slices.Equal(told, want) {
			t.Errorf("a was told %v, want %v", told, want)
		}
		if got, want := a.Members(), []member.Member{self, second}; !slices.Equal(got, want) {
			t.Errorf("a sees %v, want %v", got, want)
		}
		if got := fixed.Members(); len(got) != 1 || got[0].Name != "c" || got[0].Dir != 0 {
			t.Errorf("the one whose electorate is fixed sees %v", got)
		}
	})
}

// TestGossipReportsMembersThatAreGone: a node hears of the end of another node, and of its return.
// A paused node hears the news when it is resumed.
func TestGossipReportsMembersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(0)
		var told []member.EventKind // the events at a
		join := func(b *box, handler func(member.Event)) member.Group {
			t.Helper()
			g, err := b.process.World().Gossip(b.port, member.Config{Self: b.cfg.Self, Handler: handler})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		a := listen(t, n, "a", nil)
		join(a, func(e member.Event) { told = append(told, e.Kind) })
		b := listen(t, n, "b", nil)
		group := join(b, func(member.Event) {})
		for _, step := range []struct {
			name string
			do   func()
			want []member.EventKind
		}{
			{"b has joined", func() {}, []member.EventKind{member.Joined}},
			{"the path is cut", func() { n.Cut(cutting("a", "b")) }, []member.EventKind{member.MemberFailed}},
			{"the path is healed", func() { n.Cut(func(string, string) bool { return false }) }, []member.EventKind{member.Joined}},
			{"b is paused", b.process.Pause, []member.EventKind{member.MemberFailed}},
			{"a is paused", a.process.Pause, nil},
			{"b is resumed", b.process.Resume, nil},
			{"a is resumed", a.process.Resume, []member.EventKind{member.Joined}},
			{"b leaves", func() { _ = group.Leave(t.Context()) }, []member.EventKind{member.MemberLeft}},
			{"b is killed", b.process.Kill, nil},
		} {
			if step.do(); !slices.Equal(told, step.want) {
				t.Errorf("%s: a was told %v, want %v", step.name, told, step.want)
			}
			told = nil
		}
	})
}

// TestSlowGossip: a node hears of the death of another node after a while. A new process of the
// dead node's name takes its place before, without a conflict.
func TestSlowGossip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slowness = 3 * time.Second
		n := New(0)
		n.SlowGossip(slowness)
		var mu sync.Mutex
		var told []member.EventKind // the events at a and at the second b
		join := func(b *box) {
			t.Helper()
			handler := func(e member.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Member.Name != "a" || b.cfg.Self.Incarnation != 1 {
					told = append(told, e.Kind)
				}
			}
			if _, err := b.process.World().Gossip(b.port, member.Config{Self: b.cfg.Self, Handler: handler}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, want ...member.EventKind) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: %v was told, want %v", when, told, want)
			}
			told = nil
		}
		join(listen(t, n, "a", nil))
		b := listen(t, n, "b", nil)
		join(b)
		want("b has joined", member.Joined)
		b.process.Kill()
		_ = b.port.Close()
		time.Sleep(slowness - time.Nanosecond)
		want("b is dead, and seen")
		time.Sleep(time.Nanosecond)
		want("b is seen dead", member.MemberFailed)
		b = listen(t, n, "b", nil)
		join(b)
		want("b is back", member.Joined)
		b.process.Kill()
		_ = b.port.Close()
		join(listen(t, n, "b", func(c *transport.Config) { c.Self.Incarnation = 2 }))
		want("another b is there", member.Updated, member.Joined)
		time.Sleep(slowness)
		want("the dead b would be seen dead")
	})
}

func TestAPortThatClosesEndsItsDials(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, b *box, _ vote.Conn) {
		n.Cut(cutting("a", "b"))
		ended := make(chan error, 1)
		go func() {
			_, err := a.Dial(context.Background(), "b:1", "b")
			ended <- err
		}()
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
		if _, err := a.Dial(t.Context(), "b:1", "b"); !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAnAddressIsTakenWhileAnotherListens(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, b *box, _ vote.Conn) {
		cfg := b.cfg
		if _, err := n.Start().World().Listen(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `"b:1" is taken`) {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		listen(t, n, "b", nil)
		if _, err := a.Probe(t.Context(), "b:1"); err != nil {
			t.Error(err)
		}
	})
}

func TestAConnectionEndsOnceWhateverHappens(t *testing.T) {
	run(t, 0, func(t *testing.T, n *Network, a, b *box, c vote.Conn) {
		var work sync.WaitGroup
		for _, end := range []func(){
			func() { a.CloseConn(c) }, func() { n.HangUp("a") }, func() { n.HangUp("b") }, func() { _ = a.Close() }, func() { _ = b.Close() },
		} {
			work.Go(end)
		}
		work.Wait()
		for _, b := range []*box{a, b} {
			said := b.heard()
			if strings.Count(said, ": closed ") != 1 || !slices.ContainsFunc([]error{io.EOF, transport.ErrClosed}, func(err error) bool {
				return strings.HasSuffix(said, err.Error())
			}) {
				t.Errorf("%s heard %q", b.name(), said)
			}
		}
	})
}

// As over sockets: both secrets are accepted, then the new secret is sent, then the old secret is
// dropped, together with the links made under the old secret.
func TestSecretsAreChanged(t *testing.T) {
	old, fresh := []byte("old"), []byte("new")
	run(t, time.Millisecond, func(t *testing.T, n *Network, plain, _ *box, _ vote.Conn) {
		if _, err := plain.SetSecrets([][]byte{fresh}); !errors.Is(err, transport.ErrPlain) {
			t.Errorf("a plain port is told %v", err)
		}
		with := func(c *transport.Config) { c.Secrets = [][]byte{old} }
		x, y := listen(t, n, "x", with), listen(t, n, "y", with)
		set := func(p *box, secrets ...[]byte) {
			t.Helper()
			if _, err := p.SetSecrets(secrets); err != nil {
				t.Fatal(err)
			}
		}
		dial := func(from *box, addr, name string) error {
			_, err := from.Dial(t.Context(), addr, vote.NodeID(name))
			return err
		}
		if err := dial(x, "y:1", "y"); err != nil {
			t.Fatal(err)
		}
		set(x, fresh, old)
		if err := dial(x, "y:1", "y"); err == nil || !strings.Contains(err.Error(), "the secrets differ") {
			t.Errorf("y accepts a secret that it doesn't know: %v", err)
		}
		set(y, old, fresh)
		if err := dial(x, "y:1", "y"); err != nil {
			t.Error(err)
		}
		y.heard()
		set(y, fresh)
		time.Sleep(time.Second) // of the bubble's time
		if got := y.heard(); strings.Count(got, "closed x") != 1 || strings.Contains(got, ";") {
			t.Errorf("y is told %q, and one of its two links was made by the old secret", got)
		}
	})
}
