package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockmesh/lockmesh/bench/internal/table"
)

// writeReport writes the results: tables to out, and everything to the folder.
func writeReport(r *results, o *options, out io.Writer) error {
	text := report(r, o)
	_, err := io.WriteString(out, text)
	if o.out == "" {
		return err
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(o.out, "results.md"), []byte(text), 0o644), r.write(o.out))
	return errors.Join(err, plots(r, o.out))
}

func report(r *results, o *options) string {
	var b strings.Builder
	section := func(title, text string, t *table.Table) {
		if t.Len() > 0 {
			fmt.Fprintf(&b, "### %s\n\n%s\n\n%s\n", title, text, t)
		}
	}
	section("Machine", fmt.Sprintf("Medians of %d rounds of %v each, with the range from the least to the largest in brackets.", o.rounds, o.length), machineTable(r))
	for _, g := range comparisons {
		section("Compared with "+g.with, g.text, goals(r, g))
	}
	section("Latency", `One caller locks and unlocks a key that no other caller wants: a new key each time, then the same
key each time. In microseconds. The limit is one message to two peers at once, and the first answer.`, latencyTable(r))
	section("Throughput", `Locks with their unlocks in a second, by callers in one process with a key each. The limit counts
answers; a lock with its unlock needs two answers.`, throughputTable(r, mPerSecond, true))
	section("What a lock costs", `Processor time of all processes of the service for each lock with its unlock (for the limit: for
each answer), in microseconds.`, throughputTable(r, mCPU, false))
	section("Packets", "Packets over loopback for each lock with its unlock (for the limit: for each answer).", throughputTable(r, mPackets, false))
	section("Hand-over", fmt.Sprintf(`%d callers on each of %d nodes want the same key again and again, and unlock at once. Fairness is
Jain's index over all callers; 1 is even.`, waitersEach, nodesMax), handoverTable(r))
	section("Within a node", fmt.Sprintf("%d callers on one node want the same key again and again.", goroutines), localTable(r))
	extraSections(r, o, section)
	return b.String()
}

func machineTable(r *results) *table.Table {
	t := table.New("", "")
	keys := []string{"processor", "cores", "system", "go", "lockmesh", "redis-server"}
	for _, k := range append(keys, modules...) {
		if v, ok := r.Machine[k]; ok {
			t.Row(k, v)
		}
	}
	return t
}

func latencyTable(r *results) *table.Table {
	t := table.New("", "acquire p50", "p99", "lock and unlock p50", "p99", "÷ limit", "same key: acquire p50", "lock and unlock p50", "÷ limit")
	for _, s := range serviceNames {
		if len(r.values(newKey, s, mAcquire50)) == 0 {
			continue
		}
		t.Row(s, table.Spread(r.values(newKey, s, mAcquire50)), table.Spread(r.values(newKey, s, mAcquire99)),
			table.Spread(r.values(newKey, s, mCycle50)), table.Spread(r.values(newKey, s, mCycle99)),
			table.Ratio(r.median(newKey, s, mAcquire50), r.median(newKey, nameLimit, mAcquire50)),
			table.Spread(r.values(sameKey, s, mAcquire50)), table.Spread(r.values(sameKey, s, mCycle50)),
			table.Ratio(r.median(sameKey, s, mAcquire50), r.median(sameKey, nameLimit, mAcquire50)))
	}
	return t
}

func throughputTable(r *results, metric string, spread bool) *table.Table {
	head := []string{""}
	for _, n := range callerCounts {
		head = append(head, callersText(n))
	}
	t := table.New(head...)
	for _, s := range serviceNames {
		row, known := []string{s}, false
		for _, n := range callerCounts {
			values := r.values(throughputOf(n), s, metric)
			known = known || len(values) > 0
			if spread {
				row = append(row, table.Spread(values))
			} else {
				row = append(row, table.Number(r.median(throughputOf(n), s, metric)))
			}
		}
		if known {
			t.Row(row...)
		}
	}
	return t
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

func handoverTable(r *results) *table.Table {
	t := table.New("", "between nodes, a second", "locks, a second", "fairness", "longest wait, ms", "processor, µs a lock", "packets a lock")
	for _, s := range serviceNames {
		if len(r.values(wHandover, s, mBetween)) == 0 {
			continue
		}
		t.Row(s, table.Spread(r.values(wHandover, s, mBetween)), table.Spread(r.values(wHandover, s, mPerSecond)), table.Spread(r.values(wHandover, s, mJain)),
			table.Spread(r.values(wHandover, s, mLongest)),
			table.Number(r.median(wHandover, s, mCPU)), table.Number(r.median(wHandover, s, mPackets)))
	}
	return t
}

func localTable(r *results) *table.Table {
	t := table.New("", "locks, a second", "fairness", "longest wait, ms", "÷ locks a second among nodes")
	for _, s := range serviceNames {
		if len(r.values(wLocal, s, mPerSecond)) == 0 {
			continue
		}
		t.Row(s, table.Spread(r.values(wLocal, s, mPerSecond)), table.Spread(r.values(wLocal, s, mJain)), table.Spread(r.values(wLocal, s, mLongest)),
			table.Ratio(r.median(wLocal, s, mPerSecond), r.median(wHandover, s, mPerSecond)))
	}
	return t
}

// comparison is a set of services for comparison: lockmesh's numbers are divided by the best of
// these services, chosen for each metric separately.
type comparison struct {
	with, text string
	services   []string
}

var comparisons = []comparison{
	{
		"the limit", `lockmesh's numbers divided by the limit's numbers. For latency less is better. The other rows are
locks with their unlocks ÷ answers, where more is better.`,
		[]string{nameLimit},
	},
	{
		"other majorities", `lockmesh's numbers divided by the numbers of the best service that asks a majority of servers. For
latency less is better, in the other rows more.`,
		[]string{nameRedsync, nameRedsyncBatch, nameRedsyncRueidis, nameEtcd},
	},
	{"one Redis", "The same, against a single server, which tolerates no failure.", []string{nameRedis, nameRedisBatched, nameRedisRueidis}},
}

// goals compares lockmesh in all its variants with others.
func goals(r *results, g comparison) *table.Table {
	kinds := []string{nameEmbedded, nameClient, nameEmbeddedTLS, nameClientTLS}
	t := table.New(append(append([]string{""}, kinds...), "divided by")...)
	row := func(what, workload, metric string, least bool) {
		best, bestName := math.NaN(), ""
		for _, s := range g.services {
			v := r.median(workload, s, metric)
			if math.IsNaN(v) || !math.IsNaN(best) && least != (v < best) {
				continue
			}
			best, bestName = v, s
		}
		cells, known := []string{what}, false
		for _, s := range kinds {
			cell := table.Ratio(r.median(workload, s, metric), best)
			known = known || cell != table.Empty
			cells = append(cells, cell)
		}
		if known {
			t.Row(append(cells, table.Number(best)+" ("+bestName+")")...)
		}
	}
	row("to acquire, p50, new keys, µs", newKey, mAcquire50, true)
	row("to acquire, p99, new keys, µs", newKey, mAcquire99, true)
	row("to acquire, p50, same key, µs", sameKey, mAcquire50, true)
	row("to lock and unlock, p50, new keys, µs", newKey, mCycle50, true)
	for _, n := range callerCounts {
		row("a second, "+callersText(n), throughputOf(n), mPerSecond, false)
	}
	row("hand-overs between nodes, a second", wHandover, mBetween, false)
	row("locks a second, 16 waiters on 4 nodes", wHandover, mPerSecond, false)
	row("locks a second within a node", wLocal, mPerSecond, false)
	return t
}
