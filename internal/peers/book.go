package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// nameFresh is how long the answer for a host name is used while no live node is known at any
	// of the addresses; otherwise joinedFresh holds.
	nameFresh = time.Second

	// searchFresh and joinedFresh are how long the answer for an entry that stands for many nodes
	// is used: while this node knows no other node, and otherwise. (A file is read anew after
	// searchFresh while no live node is known at some address.) Once another node is known, gossip
	// finds the rest; new answers only heal a mesh in parts.
	searchFresh = 2 * time.Second
	joinedFresh = 30 * time.Second

	// lookUpMax is the timeout for looking an entry up.
	lookUpMax = 5 * time.Second

	// lookUpsAtOnce is how many entries a call looks up at the same time, and how many names of a
	// single entry.
	lookUpsAtOnce = 32

	// discoverText names the application's function in logs and errors.
	discoverText = "Discover"
)

// Discover is the application's function to find addresses, host:port.
type Discover func(ctx context.Context) ([]string, error)

// Config is the configuration of a [Book].
type Config struct {
	Entries  []string // entries without problems: see [Check]
	Discover Discover // may be nil
	// ReadFile returns the lines of a file; nil for the files of this machine.
	ReadFile func(path string) ([]string, error)
	Resolver Resolver
	// Joined reports whether this node knows another live node.
	Joined func() bool
	// Known reports whether a live node is known at an address, this node included.
	Known func(netip.AddrPort) bool
	Log   *slog.Logger
}

// Book holds the entries of a node, and their last answers. Its methods may be called from any
// goroutine.
type Book struct {
	cfg     Config
	entries []*Entry
}

// Entry is an address, or a group of addresses, of other nodes.
type Entry struct {
	book *Book
	text string
	source

	// turn has room for a single value, and the caller that put the value in owns the fields below:
	// two callers share a look-up. (With a mutex a caller couldn't stop waiting at the end of its
	// context.)
	turn  chan struct{}
	at    time.Time // when the entry was looked up; zero: never
	addrs []netip.AddrPort
	err   error
	// the late call of Discover, or the late reading of the file; nil if none is late
	pending chan answer

	logged  bool   // the log has the line about an entry without an address
	bad     string // the texts that the log says are left out
	failing atomic.Pointer[string]
}

// New returns a book of the entries in their order, except for addresses: addresses need no
// look-up, and come first.
func New(cfg Config) *Book {
	if cfg.ReadFile == nil {
		cfg.ReadFile = readFile
	}
	b := &Book{cfg: cfg}
	for _, text := range cfg.Entries {
		s, problem := parse(text)
		if problem != "" {
			panic("peers: an entry wasn't checked: " + problem)
		}
		b.entries = append(b.entries, &Entry{book: b, text: text, source: s, turn: make(chan struct{}, 1)})
	}
	slices.SortStableFunc(b.entries, func(x, y *Entry) int {
		return cmp.Compare(min(x.kind, kindName), min(y.kind, kindName)) // kindAddress is the least
	})
	if cfg.Discover != nil {
		b.entries = append(b.entries, &Entry{book: b, text: discoverText, source: source{kind: kindDiscover}, turn: make(chan struct{}, 1)})
	}
	return b
}

// Entries returns the entries.
func (b *Book) Entries() []*Entry { return b.entries }

// All returns the addresses of all entries, host:port, sorted and without duplicates. All looks up
// to lookUpsAtOnce entries up at the same time, in goroutines that end with the call.
func (b *Book) All(ctx context.Context) []string {
	var mu sync.Mutex
	var all []string
	var work sync.WaitGroup
	slots := make(chan struct{}, lookUpsAtOnce)
	for _, e := range b.entries {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			addrs, _ := e.LookUp(ctx) // LookUp logs the error
			mu.Lock()
			defer mu.Unlock()
			for _, a := range addrs {
				all = append(all, a.String())
			}
		})
	}
	work.Wait()
	slices.Sort(all)
	return slices.Compact(all)
}

// Failing returns the faults of the entries without an address.
func (b *Book) Failing() []string {
	var texts []string
	for _, e := range b.entries {
		if text := e.failing.Load(); text != nil {
			texts = append(texts, *text)
		}
	}
	return texts
}

// Text returns the entry as configured.
func (e *Entry) Text() string { return e.text }

// Changes reports whether the entry stands for many nodes that come and go, so the addresses may
// change although all addresses are known.
func (e *Entry) Changes() bool { return e.kind > kindName }

// LookUp returns the addresses of the entry, as of a moment ago: see nameFresh, searchFresh and
// joinedFresh. Errors are logged here, once until the entry has an address again.
func (e *Entry) LookUp(ctx context.Context) ([]netip.AddrPort, error) {
	if e.kind == kindAddress {
		return e.lookUp(ctx, nil)
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !e.at.IsZero() && time.Since(e.at) < e.fresh() {
		return e.addrs, e.err
	}
	limited, cancel := context.WithTimeout(ctx, lookUpMax)
	defer cancel()
	var addrs []netip.AddrPort
	var err error
	switch e.kind {
	case kindDiscover, kindFile:
		addrs, err = e.ask(limited)
	default:
		addrs, err = e.lookUp(limited, e.book.cfg.Resolver)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the error says nothing about the entry
	}
	e.at, e.addrs, e.err = time.Now(), addrs, err
	if err == nil {
		e.failing.Store(nil)
		if e.logged {
			e.logged = false
			e.book.cfg.Log.Info("a peer's name has an address now", "peer", e.text, "addrs", len(addrs))
		}
		return addrs, nil
	}
	text := fmt.Sprintf("%s: %v", e.text, err)
	e.failing.Store(&text)
	if !e.logged {
		e.logged = true
		e.book.cfg.Log.Warn("a peer's name can't be looked up; will keep trying", "peer", e.text, "error", err)
	}
	return addrs, err
}

// fresh returns how long the last answer is used. A failure is retried like a search.
func (e *Entry) fresh() time.Duration {
	joined := e.err == nil && e.book.cfg.Joined()
	known := e.book.cfg.Known
	switch {
	case e.kind == kindName && !(joined && slices.ContainsFunc(e.addrs, known)):
		return nameFresh
	case e.kind == kindFile && slices.ContainsFunc(e.addrs, func(a netip.AddrPort) bool { return !known(a) }):
		return searchFresh
	case joined:
		return joinedFresh
	}
	return searchFresh
}

// answer is the result of a call of Discover, or the lines of a file.
type answer struct {
	texts []string
	err   error
}

// ask calls the application's function, or reads the file, in a goroutine: the function may ignore
// its context, and the file system may hang. Then the goroutine ends late, and until then there is
// no second one.
func (e *Entry) ask(ctx context.Context) ([]netip.AddrPort, error) {
	if e.pending == nil {
		e.pending = make(chan answer, 1)
		go func(answered chan<- answer) {
			a := answer{err: errors.New("the function ended its goroutine (runtime.Goexit)")}
			defer func() {
				// A panic of the application's function mustn't end the process with its leases.
				if fault := recover(); fault != nil {
					a = answer{err: fmt.Errorf("the function panicked: %v", fault)}
				}
				answered <- a
			}()
			if e.kind == kindFile {
				a.texts, a.err = e.book.cfg.ReadFile(e.path)
			} else {
				a.texts, a.err = e.book.cfg.Discover(ctx)
			}
		}(e.pending)
	}
	select {
	case a := <-e.pending:
		e.pending = nil
		var g group
		if e.kind == kindFile {
			g = fileGroup(a.texts, a.err)
		} else {
			g = textGroup(a.texts, a.err)
		}
		return e.addrsOf(ctx, &g)
	case <-ctx.Done():
		return nil, fmt.Errorf("it has not returned in time: %w", ctx.Err())
	}
}

// textGroup returns the parts in the answer of the application's function.
func textGroup(texts []string, err error) group {
	g := group{errs: []error{err}}
	for _, text := range texts {
		if g.full() {
			break
		}
		g.addText(text, "")
	}
	return g
}

// addrsOf returns the addresses of a group. Texts that are no addresses are an error unless there
// are addresses, too; then the log tells them, once until they change.
func (e *Entry) addrsOf(ctx context.Context, g *group) ([]netip.AddrPort, error) {
	addrs, err := g.lookUp(ctx, e.book.cfg.Resolver)
	if addrs, err = found(addrs, err, groupAddresses); err != nil {
		return nil, err
	}
	bad := errors.Join(g.bad[:min(len(g.bad), errsTold)]...)
	if text := fmt.Sprint(bad); bad == nil {
		e.bad = ""
	} else if text != e.bad {
		e.bad = text
		e.book.cfg.Log.Warn("some of a peer's texts are no addresses, and are left out", "peer", e.text, "error", bad, "count", len(g.bad))
	}
	return addrs, nil
}
