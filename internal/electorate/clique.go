package electorate

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// cliqueWork bounds the search for founders: how many pairs of processes are compared. Where all
// processes reach each other, the search compares each pair of Expect processes once. Only many
// broken links at a time make the search long, and then the birth waits until links are mended.
const cliqueWork = 10_000

// lowest returns Expect fresh processes that reach each other, the first in order of all that this
// process knows of; nil if there are too few. Any such set may found a mesh, since an identity
// pledges to a single set. A single broken link must not keep all other processes from founding.
func (m *contactLayer) lowest() []vote.Elector {
	fresh := []vote.Elector{m.Elector()}
	for _, o := range m.sorted() {
		if m.isFresh(o) && len(o.report.pledge) == 0 {
			fresh = append(fresh, vote.Elector{Name: o.name, Dir: o.report.dir})
		}
	}
	slices.SortFunc(fresh, vote.Elector.Compare)
	return firstClique(fresh, m.cfg.Expect, func(v, w vote.Elector) bool { return m.reports(v, w) && m.reports(w, v) })
}

// mayFoundTogether reports whether all of a set are fresh, have pledged to nothing, and reach each
// other.
func (m *contactLayer) mayFoundTogether(set []vote.Elector) bool {
	for _, v := range set {
		if v == m.Elector() {
			continue
		}
		if o := m.others[v.Name]; o == nil || !m.isFresh(o) || o.report.dir != v.Dir || len(o.report.pledge) > 0 ||
			slices.ContainsFunc(set, func(w vote.Elector) bool { return !m.reports(v, w) }) {
			return false
		}
	}
	return true
}

// reports reports whether one process reports direct contact with another. This process has contact
// with all processes that have reported to it.
func (m *contactLayer) reports(v, w vote.Elector) bool {
	return v == m.Elector() || slices.Contains(m.others[v.Name].report.contacts, w)
}

// firstClique returns the first n of a list, in order, that are all linked to each other; nil if
// there are none, or if the search takes more than cliqueWork.
func firstClique(all []vote.Elector, n int, linked func(v, w vote.Elector) bool) []vote.Elector {
	work := 0
	var extend func(set, rest []vote.Elector) []vote.Elector
	extend = func(set, rest []vote.Elector) []vote.Elector {
		for len(set) < n && len(set)+len(rest) >= n && work < cliqueWork {
			v := rest[0]
			rest = rest[1:]
			var next []vote.Elector
			for _, w := range rest {
				if work++; linked(v, w) {
					next = append(next, w)
				}
			}
			if found := extend(append(slices.Clip(set), v), next); found != nil {
				return found
			}
		}
		if len(set) < n {
			return nil
		}
		return set
	}
	return extend(nil, all)
}

const (
	// yieldFor is how long a process waits for each process that may act before it: a process that
	// started up to birthMargin later has pledged by then.
	yieldFor = birthMargin + time.Second

	// mostYields bounds how many others act before a process, since a fleet may be large.
	mostYields = 5
)

// yields returns how many processes are to act before this one, at most mostYields: processes lower
// than the set's first, in contact with a process of the set. If this process doesn't reach such a
// process, the other processes of the set may already found a mesh with it.
func (m *contactLayer) yields(set []vote.Elector) int {
	var lower []vote.Elector
	for _, v := range set {
		if v == m.Elector() {
			continue
		}
		for _, w := range m.others[v.Name].report.contacts {
			if w.Compare(set[0]) < 0 && !slices.Contains(lower, w) {
				lower = append(lower, w)
			}
		}
	}
	return min(len(lower), mostYields)
}
