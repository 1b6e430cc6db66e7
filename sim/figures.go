package sim

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim/fault"
)

// Figures count the events of one run or of many.
type Figures struct {
	Events    uint64
	Simulated time.Duration
	Messages  uint64 // sent between nodes
	Delivered uint64
	Local     uint64 // messages within a node

	Coalesced         uint64 // messages queued at the sender to travel with others
	CoalescedUntilDue uint64 // of these, queued for as long as allowed
	CoalescedLost     uint64 // of these, queued until the connection was gone

	Requests     uint64
	Acquisitions uint64
	Abandoned    uint64
	Failures     uint64 // mostly of TryLocks
	Losses       uint64
	HandedOff    uint64 // leases handed off among the callers of a node
	Overlaps     uint64 // grants of a key while a conflicting lease was believed held
	Writes       uint64 // accepted by resources
	Reads        uint64 // accepted by resources
	Fenced       uint64 // writes and reads refused by resources
	Calls        uint64 // checked against the model of one fenced lock
	// Undecided counts the histories of a key where the search found no order in time, nor a proof
	// of its absence.
	Undecided   uint64
	Inspections uint64 // answered
	Values      uint64 // values of leases that inspections have shown
	Unsettled   uint64 // of these, answered without settling who holds the key
	WatchEvents uint64 // lease events reported by watches
	// WronglyLost counts leases that a watch reported as lost although they had been released.
	WronglyLost  uint64
	WatchGaps    uint64 // gaps of watches after their first sync
	WholeWatches uint64 // watches without a gap to the end
	WatchedWhole uint64 // leases that such watches had to report, once for each watch
	WatchStates  uint64 // states of watches, at a beginning or after a gap, with a certain answer
	WatchedFrom  uint64 // leases that such states had to show
	Takeovers    uint64 // acquisitions after a loss or a crash of the holder

	// Overtakings counts how often a request was granted before an older request for the same key.
	Overtakings uint64
	// OvertakenInTrouble counts overtakings by more than clock errors explain, while a fault was
	// active or recent.
	OvertakenInTrouble uint64

	Promises         uint64
	Confirmations    uint64 // asked for
	Confirmed        uint64
	Inquiries        uint64
	Yields           uint64
	ProposalTimeouts uint64
	Syncs            uint64
	// ByClock counts the times that a voter had to take the highest token from its clock.
	ByClock uint64
	// Excused counts tokens out of order because such a clock stood behind the last token.
	Excused uint64

	Crashes     uint64
	Restarts    uint64
	Pauses      uint64
	Duplicates  uint64 // duplicate processes of a name
	Partitions  uint64
	Connections uint64
	Breaks      uint64
	Overflows   uint64 // connections ended by a full queue
	Closes      uint64 // connections closed by a node
	Steps       uint64 // of wall clocks
	Births      uint64 // of meshes that are born by count
	// Registrations are how often the register was made to name another mesh.
	Registrations uint64
	// Behind are the loads that the register answered with an earlier record.
	Behind      uint64
	Rebirths    uint64 // identities that processes have given up
	GaveWay     uint64 // misconfigured processes whose votes counted, and that met the mesh
	Electorates uint64 // versions that were decided
	Changes     uint64 // of these, joint ones: each begins a change
	Alarms      uint64
	FixedPeers  uint64 // links of converting nodes with fixed ones

	// ElectorateAmbushes counts processes crashed as they sent or received a message about
	// electorates.
	ElectorateAmbushes uint64
	Drifts             uint64 // clocks reported by nodes as differing by too much

	// Stages counts the starts of nodes in worlds of a conversion, by stage.
	Stages [StageDynamic + 1]uint64

	// Fired counts the faults that had an effect, by kind.
	Fired [fault.Kinds]uint64

	// Under counts the same faults by how keys were held or wanted at the time.
	Under [usedEnd][fault.Kinds]uint64

	// Marks counts the rare paths that were reached.
	Marks [markEnd]uint64

	// MostOvertaken is the largest number of younger requests granted before one request.
	MostOvertaken int64

	// Settling is the largest share, in percent, of the allowed time that was needed to serve all
	// requests after the faults.
	Settling int64
}

// Add adds another run's figures.
func (f *Figures) Add(g Figures) {
	f.Simulated += g.Simulated
	for i := range f.Fired {
		f.Fired[i] += g.Fired[i]
	}
	for i := range f.Stages {
		f.Stages[i] += g.Stages[i]
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

// Table lists the figures, and the events per second if the run took busy of processor time.
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
		fmt.Fprintf(&b, "%-22s %14d\n", "fault: "+fault.Kind(i).String(), n)
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

// Figures returns the figures up to now.
func (w *World) Figures() Figures {
	f := w.fig
	f.Simulated = w.Now()
	for _, h := range w.hosts {
		if h.p != nil && h.p.m.Voter() != nil {
			f.ProposalTimeouts += h.p.m.Voter().Counters().ProposalTimeouts
		}
	}
	f.Marks[markProposalTimeout] = f.ProposalTimeouts
	return f
}
