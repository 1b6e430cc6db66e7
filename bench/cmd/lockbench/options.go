package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// workloads are the available measurements, in the order of execution.
var workloads = []string{wLatency, wThroughput, wHandover, wLocal, wHold, wMemory, wEmbed}

const (
	wLatency    = "latency"
	wThroughput = "throughput"
	wHandover   = "handover"
	wLocal      = "local"
	wHold       = "hold"
	wMemory     = "memory"
	wEmbed      = "embed"
)

// options are the parsed command line.
type options struct {
	only     []string
	services []string
	rounds   int
	length   time.Duration
	idle     time.Duration
	ttl      time.Duration
	held     []int
	kept     []int
	out      string
	profile  bool
}

func (o *options) wants(service string) bool { return slices.Contains(o.services, service) }
func (o *options) does(workload string) bool { return slices.Contains(o.only, workload) }

const usage = `lockbench compares lockmesh with other lock services, and with what no service can go below.

All of them run at once on loopback, each in processes of its own that end with this one, and each is measured in turn, round by round. Tables go to the
standard output, and to the folder -out along with two plots and all that was measured.

Usage: lockbench [flags]

`

// parse reads the command line.
func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("lockbench", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		_, _ = io.WriteString(out, usage)
		fs.PrintDefaults()
	}
	only := fs.String("only", strings.Join(workloads, ","), "what to measure, `list` with commas")
	services := fs.String("services", strings.Join(serviceNames, ","), "what to compare, `list` with commas")
	fs.IntVar(&o.rounds, "rounds", 5, "how often each thing is measured; the tables have the median, and from the least to the largest. Not of hold, memory and embed, which are measured once")
	fs.DurationVar(&o.length, "for", 1500*time.Millisecond, "how `long` each thing is measured in a round")
	fs.DurationVar(&o.idle, "idle", 10*time.Second, "how `long` hold and embed look at processes that do nothing")
	fs.DurationVar(&o.ttl, "ttl", 10*time.Second, "lockmesh's MaxTTL, which is its voters' quiet time, too")
	held := fs.String("held", "1000,10000,100000", "how many leases hold holds at once, `list` with commas")
	kept := fs.String("kept", "100000,1000000", "how many leases memory holds at once, `list` with commas")
	fs.StringVar(&o.out, "out", "", "`folder` for results.md, results.json and the plots; it is made if need be")
	fs.BoolVar(&o.profile, "profile", false, "have nodes take profiles of throughput and hand-overs in the first round, into -out; what is measured then is a little slower")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("what is %q? There are flags only; -h lists them", fs.Arg(0))
	}
	if o.profile && o.out == "" {
		return nil, fmt.Errorf("-profile needs -out, a folder for the profiles")
	}
	if o.rounds < 1 || o.length <= 0 || o.idle <= 0 || o.ttl <= 0 {
		return nil, fmt.Errorf("-rounds, -for, -idle and -ttl must be more than zero")
	}
	var err error
	if o.only, err = choose("-only", *only, workloads); err != nil {
		return nil, err
	}
	if o.services, err = choose("-services", *services, serviceNames); err != nil {
		return nil, err
	}
	if o.held, err = numbers("-held", *held); err != nil {
		return nil, err
	}
	o.kept, err = numbers("-kept", *kept)
	return o, err
}

func choose(name, list string, from []string) ([]string, error) {
	chosen := strings.Split(list, ",")
	for _, c := range chosen {
		if !slices.Contains(from, c) {
			return nil, fmt.Errorf("%s: there is no %q; choose from %s", name, c, strings.Join(from, ","))
		}
	}
	return chosen, nil
}

// leasesMax is the largest number of leases that a process is asked to hold: more leases take
// gigabytes.
const leasesMax = 10_000_000

func numbers(name, list string) (all []int, err error) {
	for _, word := range strings.Split(list, ",") {
		var n int
		if _, err := fmt.Sscanf(word, "%d", &n); err != nil || n < 1 || n > leasesMax {
			return nil, fmt.Errorf("%s: %q is not a number from 1 to %d", name, word, leasesMax)
		}
		all = append(all, n)
	}
	return all, nil
}
