package sim

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Figures count what happened in a run, or in many.
type Figures struct {
	Events    uint64
	Simulated time.Duration
	Messages  uint64 // sent between nodes
	Delivered uint64
	Local     uint64 // within a node

	Lingered     uint64 // words that waited in their sender's queue for others to travel with
	LingeredOut  uint64 // of those, for as long as they may
	LingeredLost uint64 // of those, until their connection was gone

	Requests     uint64
	Acquisitions uint64
	Abandoned    uint64
	Failures     uint64 // of TryLocks mostly
	Losses       uint64
	PassedOn     uint64 // leases that were passed on among the callers of a node
	Overlaps     uint64 // grants of a key that another believed to hold
	Writes       uint64 // that resources took
	Reads        uint64 // that they let pass
	Fenced       uint64 // that they refused
	Calls        uint64 // that were held against one fenced lock
	Undecided    uint64 // histories of a key for which no order was found in time, nor that there is none
	Takeovers    uint64 // acquisitions after a loss or a crash of the holder

	Overtakings        uint64 // how often a request was granted before an older one for the same key
	OvertakenInTrouble uint64 // by more than clocks explain, as something was wrong

	Promises      uint64
	Confirmations uint64 // asked for
	Confirmed     uint64
	Inquiries     uint64
	Yields        uint64
	Tenures       uint64
	Statements    uint64
	ByClock       uint64 // voters that had to learn the highest token from their clock
	Excused       uint64 // tokens out of order since such a clock stood behind the last token

	Crashes     uint64
	Restarts    uint64
	Pauses      uint64
	Twins       uint64 // second processes of one name
	Partitions  uint64
	Connections uint64
	Breaks      uint64
	Overflows   uint64 // connections that ended as a queue was full
	Closes      uint64 // of connections, by a node
	Steps       uint64 // of wall clocks
	Electorates uint64 // versions that were decided
	Alarms      uint64

	ElectorateAmbushes uint64 // processes that died as they said or heard a word about electorates
	Drifts             uint64 // clocks that nodes found to differ by too much

	// Fired counts the faults that did something, by kind.
	Fired [faultEnd]uint64

	// Under counts them again, by what was held or wanted then.
	Under [usedEnd][faultEnd]uint64

	// Marks counts the rare paths that were reached.
	Marks [markEnd]uint64

	// MostOvertaken is by how many younger requests one was overtaken at most.
	MostOvertaken int64

	// Settling is the largest share of the time allowed that it took to serve everyone after the faults, in percent.
	Settling int64
}

// Add adds another run's figures.
func (f *Figures) Add(g Figures) {
	f.Simulated += g.Simulated
	for i := range f.Fired {
		f.Fired[i] += g.Fired[i]
	}
	for u := range f.Under {
		for i := range f.Under[u] {
			f.Under[u][i] += g.Under[u][i]
		}
	}
	for i := range f.Marks {
		f.Marks[i] += g.Marks[i]
	}
	f.MostOvertaken = max(f.MostOvertaken, g.MostOvertaken)
	f.Settling = max(f.Settling, g.Settling)
	a, b := reflect.ValueOf(f).Elem(), reflect.ValueOf(g)
	for i := range a.NumField() {
		if v := a.Field(i); v.Kind() == reflect.Uint64 {
			v.SetUint(v.Uint() + b.Field(i).Uint())
		}
	}
}

// Table lists the figures, and how many events a second were worked through when they took busy, of one processor.
func (f Figures) Table(busy time.Duration) string {
	var b strings.Builder
	if busy > 0 {
		fmt.Fprintf(&b, "%-22s %14.0f\n", "events a second", float64(f.Events)/busy.Seconds())
	}
	fmt.Fprintf(&b, "%-22s %14.1f\n", "simulated hours", f.Simulated.Hours())
	fmt.Fprintf(&b, "%-22s %13d%%\n", "slowest settling", f.Settling)
	fmt.Fprintf(&b, "%-22s %14d\n", "most overtaken", f.MostOvertaken)
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Uint64 {
			fmt.Fprintf(&b, "%-22s %14d\n", words(v.Type().Field(i).Name), v.Field(i).Uint())
		}
	}
	for i, n := range f.Fired {
		fmt.Fprintf(&b, "%-22s %14d\n", "fault: "+Fault(i).String(), n)
	}
	b.WriteString(f.marksTable())
	return b.String()
}

// words splits a field's name into words.
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte(' ')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Figures returns what has happened so far.
func (w *World) Figures() Figures {
	f := w.fig
	f.Simulated = w.Now()
	for _, h := range w.hosts {
		if h.p != nil && h.p.m.Voter() != nil {
			f.Tenures += h.p.m.Voter().Counters().Tenures
		}
	}
	f.Marks[MarkTenure] = f.Tenures
	return f
}
