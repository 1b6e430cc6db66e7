package peers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// group gathers the parts of an entry that stands for many nodes. Addresses count at once; names
// are looked up together, so a name without an answer hides neither an address nor another name.
type group struct {
	addrs []netip.AddrPort
	names []namedPart
	errs  []error
	bad   []error // the errors of texts that no look-up can make right; also in errs
}

// namedPart is a host name in a group, and its place, such as "line 3: ", for errors.
type namedPart struct {
	source
	place string
}

// add adds a new name, up to groupAddresses.
func (g *group) add(s source, place string) {
	if slices.ContainsFunc(g.names, func(n namedPart) bool { return n.source == s }) {
		return
	}
	if len(g.names) < groupAddresses {
		g.names = append(g.names, namedPart{s, place})
	}
}

const (
	// textMost is the length of the longest address: a name of 253 bytes, a colon and a port. An
	// address with brackets and a zone is shorter.
	textMost = 300
	// shownOfText is how much errors show of a longer text.
	shownOfText = 60
	// errsTold is how many errors of an entry are told. They go into log lines and the status.
	errsTold = 8
)

// addText adds a text host:port; no other kind of entry is possible.
func (g *group) addText(text, place string) {
	if len(text) > textMost {
		g.reject(place, fmt.Errorf("a text of %d bytes is too long for an address; it begins with %q", len(text), text[:shownOfText]))
		return
	}
	s, problem := parse(text)
	switch {
	case problem != "":
		g.reject(place, errors.New(problem))
	case s.kind > kindName:
		g.reject(place, fmt.Errorf("%q is not host:port", text))
	case s.kind == kindName:
		g.add(s, place)
	default:
		addr, err := s.addr()
		if err != nil {
			g.reject(place, err)
			return
		}
		if !slices.Contains(g.addrs, addr) {
			g.addrs = append(g.addrs, addr)
		}
	}
}

// full reports whether the group has as many addresses as are used.
func (g *group) full() bool { return len(g.addrs) >= groupAddresses }

func (g *group) reject(place string, err error) {
	g.fail(place, err)
	g.bad = append(g.bad, g.errs[len(g.errs)-1])
}

func (g *group) fail(place string, err error) {
	g.errs = append(g.errs, fmt.Errorf("%s%w", place, err))
}

// lookUp returns the addresses of all parts, and the errors of the others. It looks lookUpsAtOnce
// names up at the same time, in goroutines that end with the call. Where there are more names, each
// leaves its place to the next after its part of the time, and goes on until the end of the time:
// so silent names don't keep the names after them from being asked, and a slow server answers all.
// A full group needs no names.
func (g *group) lookUp(ctx context.Context, r Resolver) ([]netip.AddrPort, error) {
	if g.full() {
		return g.addrs, nil
	}
	each := lookUpMax / time.Duration(1+(len(g.names)-1)/lookUpsAtOnce)
	found := make([][]netip.AddrPort, len(g.names))
	errs := make([]error, len(g.names))
	slots := make(chan struct{}, lookUpsAtOnce)
	var work sync.WaitGroup
	for i := range g.names {
		slots <- struct{}{}
		work.Go(func() {
			leave := sync.OnceFunc(func() { <-slots })
			defer leave()
			place := time.AfterFunc(each, leave)
			defer place.Stop()
			found[i], errs[i] = g.names[i].lookUp(ctx, r)
		})
	}
	work.Wait()
	for i, err := range errs {
		if err != nil {
			g.fail(g.names[i].place, err)
		}
		g.addrs = append(g.addrs, found[i]...)
	}
	told := slices.DeleteFunc(g.errs, func(err error) bool { return err == nil })
	if more := len(told) - errsTold; more > 0 {
		told = append(told[:errsTold], fmt.Errorf("and %d more errors", more))
	}
	return g.addrs, errors.Join(told...)
}
