package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:7950": "", "[::1]:7950": "", "host.example:7950": "", "dns:mesh.example:7950": "",
		"srv:_mesh._tcp.example": "", "file:/etc/mesh/peers": "", "file:relative": "",

		"":                     "host:port",
		"host":                 "host:port",
		"host:0":               "zero is for Bind only",
		":7950":                "no host",
		"0.0.0.0:7950":         "to listen on",
		"host:http":            "not a number",
		"dns:host":             "write dns:name:port",
		"dns:":                 "write dns:name:port",
		"srv:":                 "srv:_service._proto.name",
		"srv:_mesh._tcp.x:995": "a port doesn't belong here",
		"file:":                "names no file",
		"file:a\x00b":          "names no file",
		"http://host:7950":     "host:port",
		"[fe80::1%eth0]:7950":  "has a zone (eth0)",
		"host:9\r10":           "not a number",
		"a:b\rc:1":             "too many colons",
	} {
		got := Check(text)
		if strings.ContainsRune(got, '\r') {
			t.Errorf("%q: the text %q isn't quoted", text, got)
		}
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// names is a resolver with changeable answers.
type names struct {
	mu    sync.Mutex
	ips   map[string][]string
	srv   map[string][]*net.SRV
	bad   error // returned beside the SRV records, as net.Resolver does if some records are invalid
	lag   time.Duration
	hangs string // names that begin with it have no answer
	asked map[string]int
}

func newNames() *names {
	return &names{ips: make(map[string][]string), srv: make(map[string][]*net.SRV), asked: make(map[string]int)}
}

func (n *names) set(name string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ips[name] = ips
}

func (n *names) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

// ask waits for the answer, and counts the question.
func (n *names) ask(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err // as net.Resolver does
	}
	n.mu.Lock()
	n.asked[name]++
	lag := n.lag
	if n.hangs != "" && strings.HasPrefix(name, n.hangs) {
		lag = time.Hour
	}
	n.mu.Unlock()
	if lag == 0 {
		return nil
	}
	select {
	case <-time.After(lag):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errNoHost = errors.New("no such host")

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if err := n.ask(ctx, host); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ips, ok := n.ips[host]
	if !ok {
		return nil, errNoHost
	}
	var all []netip.Addr
	for _, ip := range ips {
		all = append(all, netip.MustParseAddr(ip))
	}
	return all, nil
}

func (n *names) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" {
		return "", nil, errors.New("the name is to be taken as it is")
	}
	if err := n.ask(ctx, name); err != nil {
		return "", nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	records, ok := n.srv[name]
	if !ok {
		return "", nil, errNoHost
	}
	return name, records, n.bad
}

// log collects lines.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *log) with(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

type fixture struct {
	*Book
	names  *names
	log    *log
	joined bool
	known  map[string]bool
}

func open(discover Discover, entries ...string) *fixture {
	f := &fixture{names: newNames(), log: &log{}, known: make(map[string]bool)}
	f.Book = New(Config{
		Entries: entries, Discover: discover, Resolver: f.names, Log: slog.New(slog.NewTextHandler(f.log, nil)),
		Joined: func() bool { return f.joined }, Known: func(a netip.AddrPort) bool { return f.known[a.String()] },
	})
	return f
}

// want fails unless All returns these addresses.
func (f *fixture) want(t *testing.T, addrs ...string) {
	t.Helper()
	if got := f.All(t.Context()); !slices.Equal(got, addrs) {
		t.Errorf("%v, want %v; failing: %v", got, addrs, f.Failing())
	}
}

func TestTheAddressesOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "peers")
		content := "# the nodes\n10.0.3.1:7950\n\n  named:7951 # by name\nrubbish\ndns:no:1\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f := open(func(context.Context) ([]string, error) { return []string{"10.0.4.1:7950", "also rubbish"}, nil },
			"10.0.0.1:7950", "[::ffff:10.0.0.2]:7950", "named:7950", "dns:all:7950", "srv:_mesh._tcp.x", "file:"+path)
		f.names.set("named", "10.0.1.1", "fd00::1")
		f.names.set("all", "10.0.2.2", "10.0.2.1", "10.0.2.2")
		f.names.set("pod-1", "10.0.5.1")
		f.names.srv["_mesh._tcp.x"] = []*net.SRV{{Target: "pod-1", Port: 1234}, {Target: "gone", Port: 1234}, {Target: "pod-1"}}
		f.want(t, "10.0.0.1:7950", "10.0.0.2:7950", "10.0.1.1:7950", "10.0.1.1:7951", "10.0.2.1:7950", "10.0.2.2:7950",
			"10.0.3.1:7950", "10.0.4.1:7950", "10.0.5.1:1234", "[fd00::1]:7950", "[fd00::1]:7951")
		if failing := f.Failing(); len(failing) != 0 {
			t.Errorf("%v", failing)
		}
		changes := ""
		for _, e := range f.Entries() {
			changes += fmt.Sprintf("%v ", e.Changes())
		}
		if changes != "false false false true true true true " {
			t.Error(changes)
		}
	})
}

func TestMoreAddressesThanAnyMeshNeedsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []string
		for i := range 2 * groupAddresses {
			many = append(many, fmt.Sprintf("10.1.%d.%d", i/256, i%256))
		}
		f := open(func(context.Context) ([]string, error) {
			var all []string
			for _, ip := range many {
				all = append(all, ip+":1")
			}
			return all, nil
		}, "one:1", "dns:all:1")
		f.names.set("one", many...)
		f.names.set("all", many...)
		for i, want := range []int{nameAddresses, groupAddresses, groupAddresses} {
			if addrs, err := f.Entries()[i].LookUp(t.Context()); len(addrs) != want || err != nil {
				t.Errorf("%s: %d addresses, want %d: %v", f.Entries()[i].Text(), len(addrs), want, err)
			}
		}
	})
}

func TestAGroupIsLookedUpOftenWhileNoNodeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(nil, "dns:all:1")
		f.names.set("all", "10.0.0.1")
		asked := func(d time.Duration) int {
			before := f.names.count("all")
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				f.All(t.Context())
			}
			return f.names.count("all") - before
		}
		if n := asked(time.Minute); n != 30 {
			t.Errorf("asked %d times in a minute while no node is known", n)
		}
		f.joined = true
		if n := asked(10 * time.Minute); n != 20 {
			t.Errorf("asked %d times in ten minutes with a node known", n)
		}
		f.names.mu.Lock()
		delete(f.names.ips, "all")
		f.names.mu.Unlock()
		time.Sleep(joinedFresh)
		if n := asked(time.Minute); n != 30 {
			t.Errorf("asked %d times in a minute while the name is gone", n)
		}
	})
}

// A name, and a file with names, are looked up each second or two only until gossip knows the nodes
// there: a voter wants the addresses each second.
func TestNamesOfKnownNodesAreLookedUpSeldom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(file, []byte("filed:1\nother:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := open(nil, "named:1", "file:"+file)
		f.names.set("named", "10.0.0.1", "fd00::1") // gossip knows the node at one of the two
		f.names.set("filed", "10.0.0.2")
		f.names.set("other", "10.0.0.3")
		want := func(why string, named, filed int) {
			t.Helper()
			n, m := f.names.count("named"), f.names.count("filed")
			for range 60 {
				f.All(t.Context())
				time.Sleep(time.Second)
			}
			if n, m = f.names.count("named")-n, f.names.count("filed")-m; n != named || m != filed {
				t.Errorf("%s: %d and %d questions in a minute, want %d and %d", why, n, m, named, filed)
			}
		}
		f.known["10.0.0.1:1"], f.known["10.0.0.2:1"], f.known["10.0.0.3:1"] = true, true, true
		want("no other node is known", 60, 30)
		f.joined = true
		want("all are known", 2, 2)
		f.known["10.0.0.1:1"], f.known["10.0.0.3:1"] = false, false
		want("two are missing", 60, 30)
	})
}

// An answer that is empty or missing is logged once, and so is the first address afterwards.
func TestAnswersThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(nil, "dns:all:1")
		const lost, found = "can't be looked up", "has an address now"
		for i := 1; i <= 3; i++ {
			for _, gone := range []func(){
				func() { f.names.set("all") },
				func() { f.names.mu.Lock(); delete(f.names.ips, "all"); f.names.mu.Unlock() },
			} {
				gone()
				time.Sleep(searchFresh)
				f.want(t)
				if texts := f.Failing(); len(texts) != 1 || !strings.HasPrefix(texts[0], "dns:all:1: ") {
					t.Errorf("failing: %v", texts)
				}
			}
			f.names.set("all", "10.0.0.1")
			time.Sleep(searchFresh)
			f.want(t, "10.0.0.1:1")
			if texts := f.Failing(); len(texts) != 0 {
				t.Errorf("failing: %v", texts)
			}
			if l, g := f.log.with(lost), f.log.with(found); l != i || g != i {
				t.Errorf("after %d times, %d losses and %d returns are logged", i, l, g)
			}
		}
	})
}

// Several callers share a look-up, and a server that doesn't answer holds no caller up for longer
// than the timeout.
func TestASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(nil, "dns:all:1")
		f.names.set("all", "10.0.0.1")
		f.names.lag = 3 * time.Second
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { f.want(t, "10.0.0.1:1") })
		}
		work.Wait()
		if n := f.names.count("all"); n != 1 {
			t.Errorf("%d look-ups for four callers", n)
		}
		f.names.mu.Lock()
		f.names.lag = time.Hour
		f.names.mu.Unlock()
		time.Sleep(searchFresh)
		began := time.Now()
		f.want(t)
		if took := time.Since(began); took != lookUpMax {
			t.Errorf("it took %v", took)
		}
		time.Sleep(searchFresh)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_ = f.All(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("with a context that ends it took %v", took)
		}
	})
}

// An invalid SRV record hides no others. Without another record the error says what is wrong.
func TestAnInvalidRecordHidesNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(nil, "srv:_mesh._tcp.x", "srv:_none._tcp.x")
		f.names.bad = errors.New("an invalid name")
		f.names.set("pod-1", "10.0.5.1")
		f.names.srv["_mesh._tcp.x"] = []*net.SRV{{Target: "pod-1", Port: 1234}}
		f.names.srv["_none._tcp.x"] = nil
		f.want(t, "10.0.5.1:1234")
		if failing := fmt.Sprint(f.Failing()); !strings.Contains(failing, "_none._tcp.x") || strings.Contains(failing, "_mesh._tcp.x") {
			t.Error(failing)
		}
	})
}

// Names without an answer hold up neither each other nor an address; addresses come first.
func TestSlowServersAreAskedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := []string{"srv:_mesh._tcp.x", "named:7950"}
		for i := range lookUpsAtOnce - len(entries) - 2 {
			entries = append(entries, fmt.Sprintf("dns:all-%d:1", i))
		}
		f := open(nil, append(entries, "10.0.0.1:7950", "[fd00::1]:7950")...)
		f.names.lag = time.Hour
		began := time.Now()
		f.want(t, "10.0.0.1:7950", "[fd00::1]:7950")
		if took := time.Since(began); took != lookUpMax {
			t.Errorf("it took %v", took)
		}
		var order []string
		for _, e := range f.Entries()[:4] {
			order = append(order, e.Text())
		}
		if want := []string{"10.0.0.1:7950", "[fd00::1]:7950", entries[0], entries[1]}; !slices.Equal(order, want) {
			t.Errorf("the entries begin with %q, want %q", order, want)
		}
	})
}

// A name without an answer hides no other name, and no address, of the same entry.
func TestASilentNameHidesNoOthersOfItsEntry(t *testing.T) {
	texts := []string{"hangs:1", "ok:2", "10.0.0.9:3"}
	file := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(file, []byte(strings.Join(texts, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() *fixture{
		"a file":  func() *fixture { return open(nil, "file:"+file) },
		"records": func() *fixture { return open(nil, "srv:_mesh._tcp.x") },
		"Discover": func() *fixture {
			return open(func(context.Context) ([]string, error) { return texts, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := open()
				f.names.hangs = "hangs"
				f.names.set("ok", "10.0.0.2")
				f.names.set("nine", "10.0.0.9")
				f.names.srv["_mesh._tcp.x"] = []*net.SRV{{Target: "hangs", Port: 1}, {Target: "ok", Port: 2}, {Target: "nine", Port: 3}}
				for range 2 {
					began := time.Now()
					f.want(t, "10.0.0.2:2", "10.0.0.9:3")
					if took := time.Since(began); took != lookUpMax {
						t.Errorf("it took %v", took)
					}
					time.Sleep(joinedFresh)
				}
			})
		})
	}
}

// Names are looked up in turns where there are more than are looked up at once. Each turn has its
// part of the time.
func TestManySilentNamesHideNoNameAfterThem(t *testing.T) {
	for _, silent := range []int{lookUpsAtOnce, groupAddresses - 1} {
		synctest.Test(t, func(t *testing.T) {
			var texts []string
			for i := range silent {
				texts = append(texts, fmt.Sprintf("hangs%d:1", i))
			}
			f := open(func(context.Context) ([]string, error) { return append(texts, "ok:2"), nil })
			f.names.hangs = "hangs"
			f.names.set("ok", "10.0.0.2")
			began := time.Now()
			f.want(t, "10.0.0.2:2")
			if took := time.Since(began); took > lookUpMax {
				t.Errorf("%d silent names: it took %v", silent, took)
			}
		})
	}
}

// A look-up that takes longer than a name's part of the time goes on beside the look-ups of the
// names after it.
func TestASlowServerAnswersManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		f := open(func(context.Context) ([]string, error) { return texts, nil })
		f.names.lag = 2 * time.Second
		for i := range groupAddresses {
			texts = append(texts, fmt.Sprintf("slow%d:1", i))
			f.names.set(fmt.Sprintf("slow%d", i), fmt.Sprintf("10.1.%d.%d", i/256, i%256))
		}
		addrs, err := f.Entries()[0].LookUp(t.Context())
		if err != nil || len(addrs) < lookUpsAtOnce {
			t.Errorf("%d addresses, error %v", len(addrs), err)
		}
	})
}

// What is repeated, or is no address, doesn't count for how many addresses are used.
func TestUselessTextsHideNoAddressAfterThem(t *testing.T) {
	for name, useless := range map[string]string{"an address": "10.0.0.1:1", "a name": "ok:1", "no address": "rubbish", "a long text": strings.Repeat("x", 1<<17)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 2 * groupAddresses
				if len(useless) > textMost {
					n = 1
				}
				texts := append(slices.Repeat([]string{useless}, n), "10.0.0.2:2", "other:3")
				path := filepath.Join(t.TempDir(), "peers")
				if err := os.WriteFile(path, []byte(strings.Join(texts, "\r\n")), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, f := range []*fixture{
					open(nil, "file:"+path),
					open(func(context.Context) ([]string, error) { return texts, nil }),
				} {
					f.names.set("ok", "10.0.0.1")
					f.names.set("other", "10.0.0.3")
					want := []string{"10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3"}
					if Check(useless) != "" {
						want = want[1:]
					}
					f.want(t, want...)
				}
			})
		})
	}
}

// finder is an application's function to find addresses.
type finder struct {
	t       *testing.T
	calls   atomic.Int32
	running atomic.Int32
	hang    atomic.Pointer[chan struct{}]
	fault   atomic.Pointer[error]
}

func (f *finder) discover(ctx context.Context) ([]string, error) {
	n := f.calls.Add(1)
	if f.running.Add(1) > 1 {
		f.t.Error("it is called while it runs")
	}
	defer f.running.Add(-1)
	if _, limited := ctx.Deadline(); !limited {
		f.t.Error("its context has no deadline")
	}
	if c := f.hang.Load(); c != nil {
		<-*c // the function ignores its context
	}
	addrs := []string{fmt.Sprintf("10.0.0.%d:1", n)}
	if err := f.fault.Load(); err != nil {
		return addrs, *err
	}
	return addrs, nil
}

func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &finder{t: t}
		f := open(d.discover)
		f.want(t, "10.0.0.1:1")
		time.Sleep(searchFresh)
		hang := make(chan struct{})
		d.hang.Store(&hang)
		for range 3 {
			f.want(t)
			time.Sleep(searchFresh)
		}
		if n := d.calls.Load(); n != 2 || len(f.Failing()) != 1 || !strings.Contains(f.Failing()[0], "Discover: it has not returned in time") {
			t.Errorf("%d calls; failing: %v", n, f.Failing())
		}
		close(hang)
		synctest.Wait()
		f.want(t, "10.0.0.2:1") // the late answer
		time.Sleep(searchFresh)
		f.want(t, "10.0.0.3:1")
		fault := errors.New("no credentials")
		d.fault.Store(&fault)
		time.Sleep(searchFresh)
		f.want(t, "10.0.0.4:1") // an error beside addresses doesn't matter
	})
}

// TestDiscoverThatPanics: a mistake in the application's function is an error of the entry, and
// doesn't end the process.
func TestDiscoverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := map[string]func(){"the function panicked: a mistake": func() { panic("a mistake") }, "the function ended its goroutine (runtime.Goexit)": runtime.Goexit}
		for want, fault := range faults {
			calls := 0
			f := open(func(context.Context) ([]string, error) {
				if calls++; calls == 2 {
					return []string{"10.0.0.1:1"}, nil
				}
				fault()
				return nil, nil
			})
			f.want(t)
			if all := f.Failing(); len(all) != 1 || !strings.Contains(all[0], want) {
				t.Errorf("failing: %q, want %q", all, want)
			}
			time.Sleep(searchFresh)
			f.want(t, "10.0.0.1:1")
		}
	})
}

// TestManyLongTextsMakeAShortError: a function that returns the content of a wrong file, for
// example. The error is part of the status, and goes into the log.
func TestManyLongTextsMakeAShortError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		texts := slices.Repeat([]string{strings.Repeat("y", 1<<20)}, 100)
		f := open(func(context.Context) ([]string, error) { return texts, nil })
		f.want(t)
		text := strings.Join(f.Failing(), "; ")
		if len(text) > 2000 || !strings.Contains(text, `a text of 1048576 bytes is too long for an address; it begins with "yyyy`) || !strings.Contains(text, "and 92 more errors") {
			t.Errorf("%d bytes: %.300s", len(text), text)
		}
	})
}

// A hanging file system holds no call up for longer than the limit of a look-up, and the file isn't
// opened again meanwhile.
func TestAFileOnAFileSystemThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var reads atomic.Int32
		book := New(Config{
			Entries: []string{"file:/mnt/peers"}, Joined: func() bool { return false }, Known: func(netip.AddrPort) bool { return false }, Log: slog.New(slog.DiscardHandler),
			ReadFile: func(path string) ([]string, error) {
				if reads.Add(1); path != "/mnt/peers" {
					t.Errorf("%s is read", path)
				}
				<-hang
				return []string{"10.0.0.1:1 # one"}, nil
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if addrs := book.All(ctx); len(addrs) != 0 || time.Since(began) != time.Second {
			t.Errorf("%v after %v", addrs, time.Since(began))
		}
		for range 3 {
			book.All(t.Context())
		}
		if took := time.Since(began); reads.Load() != 1 || took > time.Second+3*lookUpMax {
			t.Errorf("%d reads, and four calls took %v", reads.Load(), took)
		}
		if failing := book.Failing(); len(failing) != 1 || !strings.Contains(failing[0], "it has not returned in time") {
			t.Errorf("failing: %v", failing)
		}
		close(hang)
		synctest.Wait()
		time.Sleep(searchFresh)
		if addrs := book.All(t.Context()); !slices.Equal(addrs, []string{"10.0.0.1:1"}) {
			t.Errorf("afterwards %v", addrs)
		}
	})
}

func TestAFileIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "peers")
		f := open(nil, "file:"+path)
		f.joined = true
		write := func(content string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(searchFresh)
		}
		f.want(t)
		write("10.0.0.1:1\n")
		f.want(t, "10.0.0.1:1")
		write("10.0.0.2:1\n")
		f.want(t, "10.0.0.2:1")
		write(strings.Repeat("#", fileMost+1))
		f.want(t)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(searchFresh)
		f.want(t)
		if text := f.Failing()[0]; !strings.Contains(text, "no regular file") {
			t.Error(text)
		}
	})
}

// A wrong line is told although other lines are right: else it is found out on the day on which the
// other nodes are down. The mark with which some editors begin a file belongs to no line.
func TestTextsThatAreNoAddressesAreTold(t *testing.T) {
	const told = "some of a peer's texts are no addresses"
	for name, at := range map[string]string{"file": "line 3: ", "Discover": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				texts := []string{"10.0.0.1:1", "ok:2", "10.0.0.2", "10.0.0.3:3"}
				path := filepath.Join(t.TempDir(), "peers")
				f := open(nil, "file:"+path)
				if name == "Discover" {
					f = open(func(context.Context) ([]string, error) { return texts, nil })
				}
				f.names.set("ok", "10.0.0.9")
				want := func(lines int, addrs ...string) {
					t.Helper()
					if err := os.WriteFile(path, []byte(byteOrderMark+strings.Join(texts, "\n")), 0o600); err != nil {
						t.Fatal(err)
					}
					for range 2 {
						time.Sleep(joinedFresh)
						f.want(t, addrs...)
					}
					if n := f.log.with(told); n != lines {
						t.Errorf("%d lines, want %d", n, lines)
					}
				}
				want(1, "10.0.0.1:1", "10.0.0.3:3", "10.0.0.9:2")
				if f.log.with(at+`\"10.0.0.2\" is not host:port`) != 1 {
					t.Errorf("the line doesn't name the text: %q", f.log.lines)
				}
				f.names.set("ok")
				want(1, "10.0.0.1:1", "10.0.0.3:3") // a name without an address is no wrong text
				texts[2] = "10.0.0.2:2"
				want(1, "10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3")
				texts[0], texts[2] = "x", "10.0.0.2"
				want(2, "10.0.0.3:3")
			})
		})
	}
}
