package plan

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Report has the figures, defined in docs/planning.md. A nil figure has no sample.
type Report struct {
	Comment   string   `json:"comment,omitempty"`
	Nodes     string   `json:"nodes"`
	TTL       Seconds  `json:"ttl_s"`
	MaxTTL    Seconds  `json:"max_ttl_s"`
	Simulated Seconds  `json:"simulated_s"`
	Worlds    int      `json:"worlds"`
	Seed      uint64   `json:"seed"`
	Happened  Happened `json:"happened"`

	Availability  *float64       `json:"availability"` // the mean of the nodes'
	Within        Seconds        `json:"availability_within_s"`
	ByNode        []Availability `json:"availability_by_node"`
	Majority      *float64       `json:"majority"`
	Free          Times          `json:"free_lock"`
	HandOver      Times          `json:"hand_over"`
	TakeOver      Times          `json:"take_over"`
	NotTakenOver  uint64         `json:"not_taken_over_by_the_end"`
	FreeLocks     PerLock        `json:"messages_and_rounds_free"`
	LoadLocks     PerLock        `json:"messages_and_rounds_load"`
	Upkeep        *float64       `json:"upkeep_messages_per_node_second"`
	Lost          uint64         `json:"leases_lost"`
	DaysHeld      float64        `json:"lease_days_held"`
	LostPerDay    *float64       `json:"leases_lost_per_day_held"`
	SplitVotes    uint64         `json:"split_votes"`
	SplitPerMille *float64       `json:"split_votes_per_1000_locks"`
	Alarms        uint64         `json:"alarms"`

	Violation  *string `json:"violation"`
	ViolatedIn int     `json:"violation_in_world,omitempty"`
}

// Happened counts the faults.
type Happened struct {
	Crashes    uint64 `json:"crashes"`
	Partitions uint64 `json:"partitions"`
	Outages    uint64 `json:"outages"`
	Pauses     uint64 `json:"pauses"`
}

// Availability is the share of a node's probes granted in time.
type Availability struct {
	Node   string   `json:"node"`
	Probes uint64   `json:"probes"`
	Failed uint64   `json:"failed"`
	Share  *float64 `json:"share"`
}

// Times summarizes durations.
type Times struct {
	Count  int      `json:"count"`
	Median *Seconds `json:"median_s"`
	P99    *Seconds `json:"p99_s"`
	Most   *Seconds `json:"most_s"`
}

// PerLock is the cost of a class of locks.
type PerLock struct {
	Locks         uint64   `json:"locks"`
	Messages      *float64 `json:"messages_per_lock"`
	OneRound      uint64   `json:"in_one_round"`
	OneRoundShare *float64 `json:"in_one_round_share"`
}

// Seconds is a time.Duration in seconds in JSON.
type Seconds time.Duration

// MarshalJSON writes seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

func (s *Scenario) report(m *measures, simulated time.Duration) *Report {
	r := &Report{
		Comment: s.Comment, TTL: Seconds(s.TTL), MaxTTL: Seconds(s.MaxTTL), Simulated: Seconds(simulated), Worlds: s.Simulate.Worlds,
		Seed: s.Simulate.Seed, Within: Seconds(s.Probe.Within),
		Happened: Happened{m.crashes, m.partitions, m.cuts, m.pauses},
		Free:     times(m.free), HandOver: times(m.handOver), TakeOver: times(m.takeOver), NotTakenOver: m.orphaned,
		FreeLocks: m.of[forProbe].perLock(), LoadLocks: m.of[forLoad].perLock(),
		Majority: share(float64(m.majorities), float64(m.looks)),
		Upkeep:   share(float64(m.upkeep), m.upFor.Seconds()),
		Lost:     m.lost, DaysHeld: m.heldFor.Hours() / 24,
		SplitVotes: m.of[forLoad].yields, Alarms: m.alarms,
	}
	r.LostPerDay = share(float64(m.lost), r.DaysHeld)
	r.SplitPerMille = share(1000*float64(r.SplitVotes), float64(m.of[forLoad].grants))
	var names []string
	sum, n := 0.0, 0
	for i, p := range s.nodes() {
		name := p.name
		if p.voter {
			name += "*"
		}
		names = append(names, name)
		if !p.locks {
			continue
		}
		a := Availability{Node: p.name, Probes: m.probers[i].asked, Failed: m.probers[i].failed}
		if a.Share = share(float64(a.Probes-a.Failed), float64(a.Probes)); a.Share != nil {
			sum += *a.Share
			n++
		}
		r.ByNode = append(r.ByNode, a)
	}
	r.Nodes = strings.Join(names, " ")
	r.Availability = share(sum, float64(n))
	return r
}

func (t *tally) perLock() PerLock {
	return PerLock{
		Locks: t.grants, Messages: share(float64(t.messages), float64(t.grants)),
		OneRound: t.oneRound, OneRoundShare: share(float64(t.oneRound), float64(t.grants)),
	}
}

// JSON writes the report for machines.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// few is the number of samples below which a 99th percentile is little more than the largest
// sample.
const few = 100

// String writes the report for people.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, value, note string) {
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("%-24s %-38s %s", name, value, note), " "))
	}
	if r.Comment != "" {
		fmt.Fprintf(&b, "%s\n\n", r.Comment)
	}
	line("nodes (voters: *)", r.Nodes, "")
	line("TTL, maximum TTL", short(r.TTL)+", "+short(r.MaxTTL), "")
	line("simulated", fmt.Sprintf("%s in %s, seed %d", short(r.Simulated), count(uint64(r.Worlds), "world", "worlds"), r.Seed), "")
	line("what happened", fmt.Sprintf("%s, %s, %s, %s", count(r.Happened.Crashes, "crash", "crashes"),
		count(r.Happened.Partitions, "partition", "partitions"), count(r.Happened.Outages, "outage", "outages"),
		count(r.Happened.Pauses, "pause", "pauses")), "")
	b.WriteByte('\n')

	var probes, failed uint64
	worst := -1
	for i, a := range r.ByNode {
		probes += a.Probes
		failed += a.Failed
		if a.Share != nil && (worst < 0 || *a.Share < *r.ByNode[worst].Share) {
			worst = i
		}
	}
	line("availability", percent(r.Availability), fmt.Sprintf("%d of %d probes weren't granted within %s", failed, probes, short(r.Within)))
	if worst >= 0 {
		line("  worst node", percent(r.ByNode[worst].Share), r.ByNode[worst].Node)
	}
	line("  majority somewhere", percent(r.Majority), "of the time a node could reach voters enough")
	line("free lock", r.Free.text(), r.Free.note("probe", "probes"))
	line("hand-over", r.HandOver.text(), r.HandOver.note("release", "releases"))
	note := r.TakeOver.note("death of a holder", "deaths of holders")
	if r.NotTakenOver > 0 {
		note += fmt.Sprintf("; %d more not taken over by the end", r.NotTakenOver)
	}
	line("take-over", r.TakeOver.text(), note)
	line("messages per lock", number(r.FreeLocks.Messages)+" free, "+number(r.LoadLocks.Messages)+" under load",
		fmt.Sprintf("%d and %d locks", r.FreeLocks.Locks, r.LoadLocks.Locks))
	line("upkeep", number(r.Upkeep)+" messages/s for each node", "")
	line("in one round", percent(r.FreeLocks.OneRoundShare)+" free, "+percent(r.LoadLocks.OneRoundShare)+" under load", "")
	line("split votes", number(r.SplitPerMille)+" for 1000 locks", count(r.SplitVotes, "vote", "votes")+" given back under load")
	line("leases lost", number(r.LostPerDay)+" for a day held", fmt.Sprintf("%d in %.1f days held", r.Lost, r.DaysHeld))
	if r.Alarms > 0 {
		line("alarms", strconv.FormatUint(r.Alarms, 10), "a restarted node was taken for a second process of its name")
	}
	b.WriteByte('\n')
	if r.Violation != nil {
		fmt.Fprintf(&b, "VIOLATION in world %d of %d, seed %d: %s\n", r.ViolatedIn, r.Worlds, r.Seed, *r.Violation)
	} else {
		fmt.Fprintf(&b, "no violation: at no time two holders of one lock, tokens always rose\n")
	}
	return b.String()
}

const none = "no sample"

func (t Times) text() string {
	if t.Count == 0 {
		return none
	}
	return fmt.Sprintf("median %s, 99th %s, max %s", short(*t.Median), short(*t.P99), short(*t.Most))
}

func (t Times) note(one, many string) string {
	switch {
	case t.Count == 0:
		return ""
	case t.Count < few:
		return count(uint64(t.Count), one, many) + ": too few for a 99th percentile"
	default:
		return count(uint64(t.Count), one, many)
	}
}

// short writes a duration with three significant digits.
func short(s Seconds) string {
	d := time.Duration(s)
	unit := time.Duration(1)
	for d >= 1000*unit && unit < time.Second {
		unit *= 10
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// number writes a figure with three significant digits.
func number(x *float64) string {
	if x == nil {
		return none
	}
	s := strconv.FormatFloat(*x, 'g', 3, 64)
	if strings.ContainsRune(s, 'e') {
		s = strconv.FormatFloat(*x, 'f', 0, 64)
		if *x < 1 {
			s = strconv.FormatFloat(*x, 'f', 6, 64)
		}
	}
	return s
}

// percent writes a share, so that a share below 1 never looks like 100 %.
func percent(x *float64) string {
	switch {
	case x == nil:
		return none
	case *x == 1:
		return "100 %"
	}
	for digits := 1; digits < 9; digits++ {
		if s := strconv.FormatFloat(*x*100, 'f', digits, 64); digits >= 2 && !strings.HasPrefix(s, "100") {
			return s + " %"
		}
	}
	return strconv.FormatFloat(*x*100, 'g', -1, 64) + " %"
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
